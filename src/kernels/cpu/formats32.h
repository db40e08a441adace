// Formats with blocks of 32 weights, as matmul kernels see them: 8 vectors of 16 rows x 4 codes per block, a scale per
// row, and maybe a minimum. One struct per format:
//   kFormat, Block (on disk), kMin (has a minimum), kBias (codes are stored plus this), Code (u8 or i8),
//   kSmall (codes fit idot4_small)
//   made of a panel; codes(b, out), scale(b), minimum(b) of its block b.
#pragma once

#include "format/blocks.h"
#include "kernels/cpu/matmul_common.h"

namespace quern::kernels::QUERN_ISA {

using format::Format;

QUERN_FN const u8* bytes_at(const std::byte* p) {
  return reinterpret_cast<const u8*>(p);
}
QUERN_FN const u16* halves_at(const std::byte* p) {
  return reinterpret_cast<const u16*>(p);
}

// Codes as two nibbles a byte: byte j of a row holds weight j low and weight j + 16 high.
QUERN_FN void nibbles(const u8* q, u8x64 out[8]) {
  const u8x64 mask = u8x64::broadcast(15);
#pragma GCC unroll kDeep
  for (int g = 0; g < 4; ++g) {
    const u8x64 v = u8x64::load(q + 64 * g);
    out[g] = v & mask;
    out[g + 4] = as<u8>(as<u16>(v) >> 4) & mask;
  }
}

// Adds the fifth bits: bit g of a byte belongs to code vector g, worth 16.
QUERN_FN void add_fifth_bits(const u8* high, u8x64 out[8]) {
  const u16x32 bits = as<u16>(u8x64::load(high));
  const u8x64 mask = u8x64::broadcast(16);
#pragma GCC unroll kDeep
  for (int g = 0; g < 8; ++g) out[g] = out[g] | (as<u8>(g < 4 ? bits << (4 - g) : bits >> (g - 4)) & mask);
}

// A panel: blocks of 16 rows.
template <Format kF>
struct Blocks {
  static constexpr int kBlockBytes = field_offset(kF, block_fields(kF).n);
  const std::byte* panel;
  explicit QUERN_FN Blocks(const std::byte* p) : panel(p) {}
  template <int kField>
  QUERN_FN const std::byte* field(int64_t b) const {
    return panel + b * kBlockBytes + field_offset(kF, kField);
  }
};

struct Q4_0 : Blocks<Format::q4_0> {
  using Block = format::BlockQ4_0;
  static constexpr Format kFormat = Format::q4_0;
  static constexpr bool kMin = false, kSmall = true;
  static constexpr int kBias = 8;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, u8x64 out[8]) const { nibbles(bytes_at(field<0>(b)), out); }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<1>(b))); }
};

struct Q4_1 : Blocks<Format::q4_1> {
  using Block = format::BlockQ4_1;
  static constexpr Format kFormat = Format::q4_1;
  static constexpr bool kMin = true, kSmall = true;
  static constexpr int kBias = 0;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, u8x64 out[8]) const { nibbles(bytes_at(field<0>(b)), out); }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<1>(b))); }
  QUERN_FN f32x16 minimum(int64_t b) const { return f32x16::load_f16(halves_at(field<2>(b))); }
};

struct Q5_0 : Blocks<Format::q5_0> {
  using Block = format::BlockQ5_0;
  static constexpr Format kFormat = Format::q5_0;
  static constexpr bool kMin = false, kSmall = true;
  static constexpr int kBias = 16;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, u8x64 out[8]) const {
    nibbles(bytes_at(field<0>(b)), out);
    add_fifth_bits(bytes_at(field<1>(b)), out);
  }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<2>(b))); }
};

struct Q5_1 : Blocks<Format::q5_1> {
  using Block = format::BlockQ5_1;
  static constexpr Format kFormat = Format::q5_1;
  static constexpr bool kMin = true, kSmall = true;
  static constexpr int kBias = 0;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, u8x64 out[8]) const {
    nibbles(bytes_at(field<0>(b)), out);
    add_fifth_bits(bytes_at(field<1>(b)), out);
  }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<2>(b))); }
  QUERN_FN f32x16 minimum(int64_t b) const { return f32x16::load_f16(halves_at(field<3>(b))); }
};

// Codes of the full signed byte: where the dot instruction wants an unsigned operand they are moved up by 128.
struct Q8_0 : Blocks<Format::q8_0> {
  using Block = format::BlockQ8_0;
  static constexpr Format kFormat = Format::q8_0;
  static constexpr bool kMin = false, kSmall = !kWide;
  static constexpr int kBias = kWide ? 128 : 0;
  using Code = choose<kWide, u8, i8>;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, lat<Code, 64> out[8]) const {
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) {
      const u8x64 v = u8x64::load(bytes_at(field<0>(b) + g * 64));
      out[g] = as<Code>(kWide ? v ^ u8x64::broadcast(0x80) : v);
    }
  }
  QUERN_FN f32x16 scale(int64_t b) const {
    return f32x16::load_f16(halves_at(field<1>(b)));
  }
};

// Codes are table values, moved up where the operand is unsigned.
template <Format kF, int kUp, bool kIsSmall>
struct Table32 : Blocks<kF> {
  static constexpr Format kFormat = kF;
  static constexpr bool kMin = false, kSmall = kIsSmall || !kWide;
  static constexpr int kBias = kWide ? kUp : 0;
  using Code = choose<kWide, u8, i8>;
  using Blocks<kF>::Blocks;
  static QUERN_FN void lookup(const int8_t* values, u8x64 index[8], lat<Code, 64> out[8]) {
    const lat<i8, 16> table = i8x16::load(values) + i8x16::broadcast(static_cast<i8>(kBias));
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) out[g] = lookup16_small(as<Code>(table), index[g]);
  }
};

struct Iq4Nl : Table32<Format::iq4_nl, 128, false> {
  using Block = format::BlockIq4Nl;
  using Table32::Table32;
  QUERN_FN void codes(int64_t b, lat<Code, 64> out[8]) const {
    u8x64 index[8];
    nibbles(bytes_at(field<0>(b)), index);
    lookup(format::kIq4Values, index, out);
  }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<1>(b))); }
};

// The scale 2^(e - 128) as float bits; exponents 0 and 1 give denormals.
struct Mxfp4 : Table32<Format::mxfp4, 12, true> {
  using Block = format::BlockMxfp4;
  using Table32::Table32;
  QUERN_FN void codes(int64_t b, lat<Code, 64> out[8]) const {
    u8x64 index[8];
    nibbles(bytes_at(field<0>(b)), index);
    lookup(format::kMxfp4Values, index, out);
  }
  QUERN_FN f32x16 scale(int64_t b) const {
    const u32x16 e = widen<u32>(u8x16::load(bytes_at(field<1>(b))));
    const u32x16 normal = (e - u32x16::broadcast(1)) << 23, denormal = u32x16::broadcast(0x00200000U) << e;
    return as<float>(select(e < u32x16::broadcast(2), denormal, normal));
  }
};

}  // namespace quern::kernels::QUERN_ISA
