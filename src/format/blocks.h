// blocks: the packed blocks of GGUF tensors, exactly as they lie in a file. Which bits hold which weight is stated here
// once; codec.cpp turns blocks into integer codes and back, kernels read them directly.
//
// All blocks have alignment 1, because nothing guarantees more inside a row (MXFP4 blocks have 17 bytes).
// F32, F16 and BF16 have no block: a row is a plain array of little-endian values.
// Weights are numbered i = 0 .. n-1 inside a block. "low nibble" is bits 0-3 of a byte, "high nibble" bits 4-7.
#pragma once

#include <cstdint>

#include "format/half.h"

namespace quern::format {

inline constexpr int kMaxBlockWeights = 256;

// An f16 in a block: little-endian, unaligned.
struct PackedF16 {
  uint8_t bytes[2];
  constexpr uint16_t bits() const { return static_cast<uint16_t>(bytes[0] | (bytes[1] << 8)); }
  constexpr float f32() const { return f16_to_f32(bits()); }
  static constexpr PackedF16 from_f32(float value) {
    const uint16_t bits = f32_to_f16(value);
    return {{static_cast<uint8_t>(bits & 0xff), static_cast<uint8_t>(bits >> 8)}};
  }
};

// ---- 32 weights with one scale -----------------------------------------------------------------------------------

// w[i] = d * q[i]
struct BlockQ8_0 {
  PackedF16 d;
  int8_t q[32];
};

// In all formats of 32 four-bit codes, byte j holds the code of weight j in its low nibble and that of weight j + 16 in
// its high nibble.

// w[i] = d * (code - 8)
struct BlockQ4_0 {
  PackedF16 d;
  uint8_t q[16];
};

// w[i] = d * code + m
struct BlockQ4_1 {
  PackedF16 d;
  PackedF16 m;
  uint8_t q[16];
};

// w[i] = d * (code - 16); the fifth bit (value 16) of weight i is bit i % 8 of high[i / 8].
struct BlockQ5_0 {
  PackedF16 d;
  uint8_t high[4];
  uint8_t q[16];
};

// w[i] = d * code + m; fifth bits as in Q5_0.
struct BlockQ5_1 {
  PackedF16 d;
  PackedF16 m;
  uint8_t high[4];
  uint8_t q[16];
};

// w[i] = d * kIq4Values[code]
struct BlockIq4Nl {
  PackedF16 d;
  uint8_t q[16];
};

// w[i] = 2^(exponent - 128) * kMxfp4Values[code]: an e2m1 float times the E8M0 scale 2^(exponent - 127).
struct BlockMxfp4 {
  uint8_t exponent;
  uint8_t q[16];
};

// ---- 256 weights: one float scale, integer scales for sub-blocks ---------------------------------------------------

// 16 sub-blocks of 16 weights. Sub-block j = i / 16: its scale is the low nibble of scale_min[j], its minimum the high.
// w[i] = d * scale * code - dmin * minimum. Codes have two bits: weights 128*h .. 128*h + 127 lie in the 32 bytes
// q[32*h ..]; within them weight i has byte i % 32, bits 2*((i / 32) % 4) and up.
struct BlockQ2K {
  uint8_t scale_min[16];
  uint8_t q[64];
  PackedF16 d;
  PackedF16 dmin;
};

// 16 sub-blocks of 16 weights, signed scales. w[i] = d * (scale[i / 16] - 32) * (code - 4), the code having two bits
// placed as in Q2_K and a third (value 4) in bit i / 32 of high[i % 32].
// The six-bit scale of sub-block j: its low four bits are the low (j < 8) or high nibble of scale[j % 8]; its upper two
// are bits 2*(j / 4) and up of scale[8 + j % 4].
struct BlockQ3K {
  uint8_t high[32];
  uint8_t q[64];
  uint8_t scale[12];
  PackedF16 d;
};

// 8 sub-blocks of 32 weights with six-bit scale and minimum. w[i] = d * scale[i / 32] * code - dmin * minimum[i / 32].
// Codes have four bits: weights 64*h .. 64*h + 63 lie in the 32 bytes q[32*h ..], the first 32 in the low nibbles, the
// others in the high ones. Scales and minima are packed into 12 bytes s:
//   j < 4:  scale = s[j] & 63,                             minimum = s[j + 4] & 63
//   j >= 4: scale = low nibble of s[j + 4] | upper two bits of s[j - 4] as bits 4-5,
//           minimum = high nibble of s[j + 4] | upper two bits of s[j] as bits 4-5
struct BlockQ4K {
  PackedF16 d;
  PackedF16 dmin;
  uint8_t scale_min[12];
  uint8_t q[128];
};

// As Q4_K, with a fifth code bit (value 16) in bit i / 32 of high[i % 32].
struct BlockQ5K {
  PackedF16 d;
  PackedF16 dmin;
  uint8_t scale_min[12];
  uint8_t high[32];
  uint8_t q[128];
};

// 16 sub-blocks of 16 weights, signed eight-bit scales. w[i] = d * scale[i / 16] * (code - 32). Weights 128*h .. 128*h
// + 127: the low four code bits lie in the 64 bytes low[64*h ..] (weights 0-63 of the half in the low nibbles, 64-127
// in the high ones), the upper two in the 32 bytes high[32*h ..], byte i % 32, bits 2*((i / 32) % 4) and up.
struct BlockQ6K {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scale[16];
  PackedF16 d;
};

// 8 sub-blocks of 32 weights, signed six-bit scales. w[i] = d * (scale[i / 32] - 32) * kIq4Values[code]. Sub-block j
// has the 16 bytes q[16*j ..], nibbles as in the formats of 32. Its scale: low four bits are the low (even j) or high
// nibble of scale_low[j / 2]; the upper two are bits 2*j and up of the little-endian 16-bit scale_high.
struct BlockIq4Xs {
  PackedF16 d;
  uint8_t scale_high[2];
  uint8_t scale_low[4];
  uint8_t q[128];
};

// The 16 levels of IQ4_NL and IQ4_XS: dense near zero, ascending.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the 16 values of e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; code 8, minus zero, counts as zero).
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Sizes as in the table of format.cpp, which codec.cpp compares with these.
static_assert(sizeof(BlockQ8_0) == 34 && alignof(BlockQ8_0) == 1);
static_assert(sizeof(BlockQ4_0) == 18 && alignof(BlockQ4_0) == 1);
static_assert(sizeof(BlockQ4_1) == 20 && alignof(BlockQ4_1) == 1);
static_assert(sizeof(BlockQ5_0) == 22 && alignof(BlockQ5_0) == 1);
static_assert(sizeof(BlockQ5_1) == 24 && alignof(BlockQ5_1) == 1);
static_assert(sizeof(BlockIq4Nl) == 18 && alignof(BlockIq4Nl) == 1);
static_assert(sizeof(BlockMxfp4) == 17 && alignof(BlockMxfp4) == 1);
static_assert(sizeof(BlockQ2K) == 84 && alignof(BlockQ2K) == 1);
static_assert(sizeof(BlockQ3K) == 110 && alignof(BlockQ3K) == 1);
static_assert(sizeof(BlockQ4K) == 144 && alignof(BlockQ4K) == 1);
static_assert(sizeof(BlockQ5K) == 176 && alignof(BlockQ5K) == 1);
static_assert(sizeof(BlockQ6K) == 210 && alignof(BlockQ6K) == 1);
static_assert(sizeof(BlockIq4Xs) == 136 && alignof(BlockIq4Xs) == 1);

}  // namespace quern::format
