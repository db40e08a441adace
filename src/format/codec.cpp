// Reading blocks: packed bytes -> integer codes -> weights. blocks.h says which bit is what; writing is pack.cpp.
#include "format/codec.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "format/blocks.h"

namespace quern::format {
namespace {

static_assert(std::endian::native == std::endian::little, "plain rows of F32, F16 and BF16 are little-endian");

// In the order of enum class Format from q8_0 on.
constexpr CodeTraits kTraits[] = {
    {32, 32, -128, 127, 1, 1, 0, nullptr},         // Q8_0
    {32, 32, -8, 7, 1, 1, 0, nullptr},             // Q4_0
    {32, 32, 0, 15, 1, 1, 1, nullptr},             // Q4_1
    {32, 32, -16, 15, 1, 1, 0, nullptr},           // Q5_0
    {32, 32, 0, 31, 1, 1, 1, nullptr},             // Q5_1
    {256, 16, 0, 3, 0, 15, 15, nullptr},           // Q2_K
    {256, 16, -4, 3, -32, 31, 0, nullptr},         // Q3_K
    {256, 32, 0, 15, 0, 63, 63, nullptr},          // Q4_K
    {256, 32, 0, 31, 0, 63, 63, nullptr},          // Q5_K
    {256, 16, -32, 31, -128, 127, 0, nullptr},     // Q6_K
    {32, 32, -127, 113, 1, 1, 0, kIq4Values},      // IQ4_NL
    {256, 32, -127, 113, -32, 31, 0, kIq4Values},  // IQ4_XS
    {32, 32, -12, 12, 1, 1, 0, kMxfp4Values},      // MXFP4
};
constexpr int kFirstCoded = static_cast<int>(Format::q8_0);
static_assert(std::size(kTraits) == kFormatCount - kFirstCoded);

template <class Block>
Block load(const std::byte* packed) {
  Block block;
  std::memcpy(&block, packed, sizeof block);
  return block;
}

// Fills the parts that formats without sub-blocks share.
void set_scale(float d, BlockCodes* codes) {
  codes->d = d;
  codes->sub_scale[0] = 1;
  codes->dmin = 0.0f;
  codes->sub_min[0] = 0;
}

void set_offset(float m, BlockCodes* codes) {
  codes->dmin = -m;
  codes->sub_min[0] = 1;
}

// Code i of 32 four-bit codes: byte j has weight j low, weight j + 16 high.
int nibble32(const uint8_t* q /*[16]*/, int i) {
  return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

int bit(const uint8_t* bytes, int i) {
  return (bytes[i / 8] >> (i % 8)) & 1;
}

// Two-bit code i of 256, as Q2_K, Q3_K and the high parts of Q6_K lay them out.
int crumb256(const uint8_t* q /*[64]*/, int i) {
  return (q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
}

// Four-bit code i of 256, as Q4_K and Q5_K lay them out.
int nibble256(const uint8_t* q /*[128]*/, int i) {
  return (q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

void unpack(const BlockQ8_0& block, BlockCodes* codes) {
  set_scale(block.d.f32(), codes);
  std::memcpy(codes->q, block.q, 32);
}

void unpack(const BlockQ4_0& block, BlockCodes* codes) {
  set_scale(block.d.f32(), codes);
  for (int i = 0; i < 32; ++i) codes->q[i] = static_cast<int8_t>(nibble32(block.q, i) - 8);
}

void unpack(const BlockQ4_1& block, BlockCodes* codes) {
  set_scale(block.d.f32(), codes);
  set_offset(block.m.f32(), codes);
  for (int i = 0; i < 32; ++i) codes->q[i] = static_cast<int8_t>(nibble32(block.q, i));
}

void unpack(const BlockQ5_0& block, BlockCodes* codes) {
  set_scale(block.d.f32(), codes);
  for (int i = 0; i < 32; ++i) {
    codes->q[i] = static_cast<int8_t>((nibble32(block.q, i) | bit(block.high, i) << 4) - 16);
  }
}

void unpack(const BlockQ5_1& block, BlockCodes* codes) {
  set_scale(block.d.f32(), codes);
  set_offset(block.m.f32(), codes);
  for (int i = 0; i < 32; ++i) codes->q[i] = static_cast<int8_t>(nibble32(block.q, i) | bit(block.high, i) << 4);
}

void unpack(const BlockIq4Nl& block, BlockCodes* codes) {
  set_scale(block.d.f32(), codes);
  for (int i = 0; i < 32; ++i) codes->q[i] = kIq4Values[nibble32(block.q, i)];
}

void unpack(const BlockMxfp4& block, BlockCodes* codes) {
  set_scale(e8m0_half_to_f32(block.exponent), codes);
  for (int i = 0; i < 32; ++i) codes->q[i] = kMxfp4Values[nibble32(block.q, i)];
}

void unpack(const BlockQ2K& block, BlockCodes* codes) {
  codes->d = block.d.f32();
  codes->dmin = block.dmin.f32();
  for (int j = 0; j < 16; ++j) {
    codes->sub_scale[j] = static_cast<int8_t>(block.scale_min[j] & 15);
    codes->sub_min[j] = block.scale_min[j] >> 4;
  }
  for (int i = 0; i < 256; ++i) codes->q[i] = static_cast<int8_t>(crumb256(block.q, i));
}

void unpack(const BlockQ3K& block, BlockCodes* codes) {
  codes->d = block.d.f32();
  codes->dmin = 0.0f;
  for (int j = 0; j < 16; ++j) {
    const int low = (block.scale[j % 8] >> (j / 8 * 4)) & 15;
    const int high = (block.scale[8 + j % 4] >> (j / 4 * 2)) & 3;
    codes->sub_scale[j] = static_cast<int8_t>((low | high << 4) - 32);
    codes->sub_min[j] = 0;
  }
  for (int i = 0; i < 256; ++i) {
    const int high = (block.high[i % 32] >> (i / 32)) & 1;
    codes->q[i] = static_cast<int8_t>((crumb256(block.q, i) | high << 2) - 4);
  }
}

void unpack_scale_min(const uint8_t* s /*[12]*/, BlockCodes* codes) {
  for (int j = 0; j < 4; ++j) {
    codes->sub_scale[j] = static_cast<int8_t>(s[j] & 63);
    codes->sub_min[j] = s[j + 4] & 63;
  }
  for (int j = 4; j < 8; ++j) {
    codes->sub_scale[j] = static_cast<int8_t>((s[j + 4] & 15) | (s[j - 4] >> 6 << 4));
    codes->sub_min[j] = static_cast<uint8_t>((s[j + 4] >> 4) | (s[j] >> 6 << 4));
  }
}

void unpack(const BlockQ4K& block, BlockCodes* codes) {
  codes->d = block.d.f32();
  codes->dmin = block.dmin.f32();
  unpack_scale_min(block.scale_min, codes);
  for (int i = 0; i < 256; ++i) codes->q[i] = static_cast<int8_t>(nibble256(block.q, i));
}

void unpack(const BlockQ5K& block, BlockCodes* codes) {
  codes->d = block.d.f32();
  codes->dmin = block.dmin.f32();
  unpack_scale_min(block.scale_min, codes);
  for (int i = 0; i < 256; ++i) {
    const int high = (block.high[i % 32] >> (i / 32)) & 1;
    codes->q[i] = static_cast<int8_t>(nibble256(block.q, i) | high << 4);
  }
}

void unpack(const BlockQ6K& block, BlockCodes* codes) {
  codes->d = block.d.f32();
  codes->dmin = 0.0f;
  std::memcpy(codes->sub_scale, block.scale, 16);
  std::memset(codes->sub_min, 0, 16);
  for (int i = 0; i < 256; ++i) {
    const int low = (block.low[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 15;
    codes->q[i] = static_cast<int8_t>((low | crumb256(block.high, i) << 4) - 32);
  }
}

void unpack(const BlockIq4Xs& block, BlockCodes* codes) {
  codes->d = block.d.f32();
  codes->dmin = 0.0f;
  const int scale_high = block.scale_high[0] | block.scale_high[1] << 8;
  for (int j = 0; j < 8; ++j) {
    const int low = (block.scale_low[j / 2] >> (j % 2 * 4)) & 15;
    codes->sub_scale[j] = static_cast<int8_t>((low | ((scale_high >> (2 * j)) & 3) << 4) - 32);
    codes->sub_min[j] = 0;
  }
  for (int i = 0; i < 256; ++i) codes->q[i] = kIq4Values[nibble32(block.q + i / 32 * 16, i % 32)];
}

template <class Convert>
void widen_row(const std::byte* packed, float* out, size_t n, Convert convert) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, packed + 2 * i, 2);
    out[i] = convert(bits);
  }
}

}  // namespace

bool has_codes(Format format) {
  return static_cast<int>(format) >= kFirstCoded;
}

const CodeTraits& code_traits(Format format) {
  const int index = static_cast<int>(format) - kFirstCoded;
  QUERN_CHECK(index >= 0 && index < static_cast<int>(std::size(kTraits)));
  return kTraits[index];
}

void unpack_block(Format format, const std::byte* packed, BlockCodes* codes) {
  switch (format) {
    case Format::q8_0:
      return unpack(load<BlockQ8_0>(packed), codes);
    case Format::q4_0:
      return unpack(load<BlockQ4_0>(packed), codes);
    case Format::q4_1:
      return unpack(load<BlockQ4_1>(packed), codes);
    case Format::q5_0:
      return unpack(load<BlockQ5_0>(packed), codes);
    case Format::q5_1:
      return unpack(load<BlockQ5_1>(packed), codes);
    case Format::q2_k:
      return unpack(load<BlockQ2K>(packed), codes);
    case Format::q3_k:
      return unpack(load<BlockQ3K>(packed), codes);
    case Format::q4_k:
      return unpack(load<BlockQ4K>(packed), codes);
    case Format::q5_k:
      return unpack(load<BlockQ5K>(packed), codes);
    case Format::q6_k:
      return unpack(load<BlockQ6K>(packed), codes);
    case Format::iq4_nl:
      return unpack(load<BlockIq4Nl>(packed), codes);
    case Format::iq4_xs:
      return unpack(load<BlockIq4Xs>(packed), codes);
    case Format::mxfp4:
      return unpack(load<BlockMxfp4>(packed), codes);
    case Format::f32:
    case Format::f16:
    case Format::bf16:
      break;
  }
  QUERN_CHECK(has_codes(format));
}

void codes_to_weights(Format format, const BlockCodes& codes, float* out) {
  const CodeTraits& traits = code_traits(format);
  for (int j = 0; j * traits.sub_width < traits.weights; ++j) {
    const float scale = codes.d * static_cast<float>(codes.sub_scale[j]);
    const float minimum = codes.dmin * static_cast<float>(codes.sub_min[j]);
    for (int i = j * traits.sub_width; i < (j + 1) * traits.sub_width; ++i) {
      out[i] = scale * static_cast<float>(codes.q[i]) - minimum;
    }
  }
}

void dequantize_row(Format format, const std::byte* packed, float* out, size_t n) {
  const FormatInfo& info = format_info(format);
  QUERN_CHECK(n % info.block_weights == 0);
  switch (format) {
    case Format::f32:
      std::memcpy(out, packed, n * sizeof(float));
      return;
    case Format::f16:
      widen_row(packed, out, n, f16_to_f32);
      return;
    case Format::bf16:
      widen_row(packed, out, n, bf16_to_f32);
      return;
    default:
      break;
  }
  BlockCodes codes;
  for (size_t i = 0; i < n; i += info.block_weights, packed += info.block_bytes) {
    unpack_block(format, packed, &codes);
    codes_to_weights(format, codes, out + i);
  }
}

}  // namespace quern::format
