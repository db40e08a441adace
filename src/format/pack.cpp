// Writing blocks: integer codes -> packed bytes, the inverse of codec.cpp. Layouts are stated in blocks.h; which codes
// represent given floats best is quantize.cpp's business.
#include <bit>
#include <cstring>

#include "base/check.h"
#include "format/blocks.h"
#include "format/codec.h"

namespace quern::format {
namespace {

// ORs a code into its bits; blocks start zeroed.
void put(uint8_t* byte, int code, int shift) {
  *byte = static_cast<uint8_t>(*byte | code << shift);
}

void put_nibble32(uint8_t* q /*[16]*/, int i, int code) {
  put(&q[i % 16], code & 15, i / 16 * 4);
}
void put_bit(uint8_t* bytes, int i, int code) {
  put(&bytes[i / 8], code & 1, i % 8);
}
void put_crumb256(uint8_t* q /*[64]*/, int i, int code) {
  put(&q[i / 128 * 32 + i % 32], code & 3, i / 32 % 4 * 2);
}
void put_nibble256(uint8_t* q /*[128]*/, int i, int code) {
  put(&q[i / 64 * 32 + i % 32], code & 15, i / 32 % 2 * 4);
}

// The code of a table value; the first where two are equal (MXFP4's zeros).
int table_index(const int8_t* table /*[16]*/, int value) {
  int code = 0;
  while (code < 15 && table[code] != value) ++code;
  return code;
}

void pack(const BlockCodes& codes, BlockQ8_0* block) {
  block->d = PackedF16::from_f32(codes.d);
  std::memcpy(block->q, codes.q, 32);
}

void pack(const BlockCodes& codes, BlockQ4_0* block) {
  block->d = PackedF16::from_f32(codes.d);
  for (int i = 0; i < 32; ++i) put_nibble32(block->q, i, codes.q[i] + 8);
}

void pack(const BlockCodes& codes, BlockQ4_1* block) {
  block->d = PackedF16::from_f32(codes.d);
  block->m = PackedF16::from_f32(-codes.dmin);
  for (int i = 0; i < 32; ++i) put_nibble32(block->q, i, codes.q[i]);
}

// The two five-bit formats of 32; `offset` makes codes unsigned.
template <class Block>
void put_five_bits(const BlockCodes& codes, int offset, Block* block) {
  for (int i = 0; i < 32; ++i) {
    const int code = codes.q[i] + offset;
    put_nibble32(block->q, i, code);
    put_bit(block->high, i, code >> 4);
  }
}

void pack(const BlockCodes& codes, BlockQ5_0* block) {
  block->d = PackedF16::from_f32(codes.d);
  put_five_bits(codes, 16, block);
}

void pack(const BlockCodes& codes, BlockQ5_1* block) {
  block->d = PackedF16::from_f32(codes.d);
  block->m = PackedF16::from_f32(-codes.dmin);
  put_five_bits(codes, 0, block);
}

void pack(const BlockCodes& codes, BlockIq4Nl* block) {
  block->d = PackedF16::from_f32(codes.d);
  for (int i = 0; i < 32; ++i) put_nibble32(block->q, i, table_index(kIq4Values, codes.q[i]));
}

void pack(const BlockCodes& codes, BlockMxfp4* block) {
  // 2^(exponent - 128): as an f32 its biased exponent is `exponent - 1`; 2^-128 and 2^-127 are denormal.
  const auto bits = std::bit_cast<uint32_t>(codes.d);
  const uint32_t exponent = bits < 0x00800000u ? bits >> 22 : (bits >> 23) + 1;
  QUERN_CHECK(exponent <= 255 && e8m0_half_to_f32(static_cast<uint8_t>(exponent)) == codes.d);
  block->exponent = static_cast<uint8_t>(exponent);
  for (int i = 0; i < 32; ++i) put_nibble32(block->q, i, table_index(kMxfp4Values, codes.q[i]));
}

void pack(const BlockCodes& codes, BlockQ2K* block) {
  block->d = PackedF16::from_f32(codes.d);
  block->dmin = PackedF16::from_f32(codes.dmin);
  for (int j = 0; j < 16; ++j) {
    block->scale_min[j] = static_cast<uint8_t>((codes.sub_scale[j] & 15) | codes.sub_min[j] << 4);
  }
  for (int i = 0; i < 256; ++i) put_crumb256(block->q, i, codes.q[i]);
}

void pack(const BlockCodes& codes, BlockQ3K* block) {
  block->d = PackedF16::from_f32(codes.d);
  for (int j = 0; j < 16; ++j) {
    const int scale = codes.sub_scale[j] + 32;
    put(&block->scale[j % 8], scale & 15, j / 8 * 4);
    put(&block->scale[8 + j % 4], scale >> 4, j / 4 * 2);
  }
  for (int i = 0; i < 256; ++i) {
    const int code = codes.q[i] + 4;
    put_crumb256(block->q, i, code);
    put(&block->high[i % 32], code >> 2, i / 32);
  }
}

void put_scale_min(const BlockCodes& codes, uint8_t* s /*[12]*/) {
  for (int j = 0; j < 4; ++j) {
    put(&s[j], codes.sub_scale[j], 0);
    put(&s[j + 4], codes.sub_min[j], 0);
  }
  for (int j = 4; j < 8; ++j) {
    put(&s[j + 4], codes.sub_scale[j] & 15, 0);
    put(&s[j + 4], codes.sub_min[j] & 15, 4);
    put(&s[j - 4], codes.sub_scale[j] >> 4, 6);
    put(&s[j], codes.sub_min[j] >> 4, 6);
  }
}

void pack(const BlockCodes& codes, BlockQ4K* block) {
  block->d = PackedF16::from_f32(codes.d);
  block->dmin = PackedF16::from_f32(codes.dmin);
  put_scale_min(codes, block->scale_min);
  for (int i = 0; i < 256; ++i) put_nibble256(block->q, i, codes.q[i]);
}

void pack(const BlockCodes& codes, BlockQ5K* block) {
  block->d = PackedF16::from_f32(codes.d);
  block->dmin = PackedF16::from_f32(codes.dmin);
  put_scale_min(codes, block->scale_min);
  for (int i = 0; i < 256; ++i) {
    put_nibble256(block->q, i, codes.q[i]);
    put(&block->high[i % 32], codes.q[i] >> 4, i / 32);
  }
}

void pack(const BlockCodes& codes, BlockQ6K* block) {
  block->d = PackedF16::from_f32(codes.d);
  std::memcpy(block->scale, codes.sub_scale, 16);
  for (int i = 0; i < 256; ++i) {
    const int code = codes.q[i] + 32;
    put(&block->low[i / 128 * 64 + i % 64], code & 15, i / 64 % 2 * 4);
    put_crumb256(block->high, i, code >> 4);
  }
}

void pack(const BlockCodes& codes, BlockIq4Xs* block) {
  block->d = PackedF16::from_f32(codes.d);
  for (int j = 0; j < 8; ++j) {
    const int scale = codes.sub_scale[j] + 32;
    put(&block->scale_low[j / 2], scale & 15, j % 2 * 4);
    put(&block->scale_high[j / 4], scale >> 4, j % 4 * 2);
  }
  for (int i = 0; i < 256; ++i) put_nibble32(block->q + i / 32 * 16, i % 32, table_index(kIq4Values, codes.q[i]));
}

template <class Block>
void store(const BlockCodes& codes, std::byte* packed) {
  Block block = {};
  pack(codes, &block);
  std::memcpy(packed, &block, sizeof block);
}

}  // namespace

void pack_block(Format format, const BlockCodes& codes, std::byte* packed) {
  switch (format) {
    case Format::q8_0:
      return store<BlockQ8_0>(codes, packed);
    case Format::q4_0:
      return store<BlockQ4_0>(codes, packed);
    case Format::q4_1:
      return store<BlockQ4_1>(codes, packed);
    case Format::q5_0:
      return store<BlockQ5_0>(codes, packed);
    case Format::q5_1:
      return store<BlockQ5_1>(codes, packed);
    case Format::q2_k:
      return store<BlockQ2K>(codes, packed);
    case Format::q3_k:
      return store<BlockQ3K>(codes, packed);
    case Format::q4_k:
      return store<BlockQ4K>(codes, packed);
    case Format::q5_k:
      return store<BlockQ5K>(codes, packed);
    case Format::q6_k:
      return store<BlockQ6K>(codes, packed);
    case Format::iq4_nl:
      return store<BlockIq4Nl>(codes, packed);
    case Format::iq4_xs:
      return store<BlockIq4Xs>(codes, packed);
    case Format::mxfp4:
      return store<BlockMxfp4>(codes, packed);
    case Format::f32:
    case Format::f16:
    case Format::bf16:
      break;
  }
  QUERN_CHECK(has_codes(format));
}

}  // namespace quern::format
