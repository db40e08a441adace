// Formats with blocks of 256 weights and integer sub-scales, as matmul kernels see them: 8 sub-vectors of 32 weights,
// each 8 vectors of 16 rows x 4 codes. One struct per format:
//   kFormat, kMin, kBias, Code, kSmall as in formats32.h; kSub: weights that share a sub-scale, 32 or 16
//   codes(b, s, out): the 32 codes of sub-vector s; sub_scales(b, out), sub_minima(b, out): [256 / kSub] rows of 16
//   scale(b), minimum(b): d and dmin.
#pragma once

#include "kernels/cpu/formats32.h"

namespace quern::kernels::QUERN_ISA {

// Sub-scales of 16 rows, as bytes [n][16], widened.
template <int kN, class Byte>
QUERN_FN void widen_subs(const Byte* bytes, i32x16* out) {
  for (int j = 0; j < kN; ++j) out[j] = widen<i32>(lat<Byte, 16>::load(bytes + 16 * j));
}

// Codes of 4 bits: sub-vectors 2c and 2c + 1 share 32 bytes, low and high nibbles.
QUERN_FN void nibbles256(const u8* q, int s, u8x64 out[8]) {
  const u8x64 mask = u8x64::broadcast(15);
#pragma GCC unroll kDeep
  for (int g = 0; g < 8; ++g) {
    const u8x64 v = u8x64::load(q + (s / 2 * 8 + g) * 64);
    out[g] = (s % 2 == 0 ? v : as<u8>(as<u16>(v) >> 4)) & mask;
  }
}

// Bits [first, first + n) of each byte, moved to `to`.
QUERN_FN u8x64 bits_of_bytes(const u8x64& v, int first, int n, int to) {
  const u8x64 mask = u8x64::broadcast(static_cast<u8>(((1 << n) - 1) << to));
  const u16x32 wide = as<u16>(v);
  return as<u8>(first >= to ? wide >> (first - to) : wide << (to - first)) & mask;
}

// The six-bit scales and minima of Q4_K and Q5_K: 12 bytes a row.
QUERN_FN void six_bit_subs(const u8* s, i32x16* scales, i32x16* minima) {
  const u8x64 a = u8x64::load(s), b = u8x64::load(s + 64), c = u8x64::load(s + 128);
  u8 low[128];
  if (scales != nullptr) {
    (a & u8x64::broadcast(63)).store(low);
    (bits_of_bytes(c, 0, 4, 0) | bits_of_bytes(a, 6, 2, 4)).store(low + 64);
    widen_subs<8>(low, scales);
  }
  if (minima != nullptr) {
    (b & u8x64::broadcast(63)).store(low);
    (bits_of_bytes(c, 4, 4, 0) | bits_of_bytes(b, 6, 2, 4)).store(low + 64);
    widen_subs<8>(low, minima);
  }
}

struct Q4_K : Blocks<Format::q4_k> {
  using Block = format::BlockQ4K;
  static constexpr Format kFormat = Format::q4_k;
  static constexpr bool kMin = true, kSmall = true;
  static constexpr int kBias = 0, kSub = 32;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, int s, u8x64 out[8]) const { nibbles256(bytes_at(field<0>(b)), s, out); }
  QUERN_FN void sub_scales(int64_t b, i32x16* out) const { six_bit_subs(bytes_at(field<1>(b)), out, nullptr); }
  QUERN_FN void sub_minima(int64_t b, i32x16* out) const { six_bit_subs(bytes_at(field<1>(b)), nullptr, out); }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<2>(b))); }
  QUERN_FN f32x16 minimum(int64_t b) const { return f32x16::load_f16(halves_at(field<3>(b))); }
};

struct Q5_K : Blocks<Format::q5_k> {
  using Block = format::BlockQ5K;
  static constexpr Format kFormat = Format::q5_k;
  static constexpr bool kMin = true, kSmall = true;
  static constexpr int kBias = 0, kSub = 32;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, int s, u8x64 out[8]) const {
    nibbles256(bytes_at(field<0>(b)), s, out);
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) out[g] = out[g] | bits_of_bytes(u8x64::load(bytes_at(field<1>(b)) + g * 64), s, 1, 4);
  }
  QUERN_FN void sub_scales(int64_t b, i32x16* out) const {
    six_bit_subs(bytes_at(field<2>(b)), out, nullptr);
  }
  QUERN_FN void sub_minima(int64_t b, i32x16* out) const {
    six_bit_subs(bytes_at(field<2>(b)), nullptr, out);
  }
  QUERN_FN f32x16 scale(int64_t b) const {
    return f32x16::load_f16(halves_at(field<3>(b)));
  }
  QUERN_FN f32x16 minimum(int64_t b) const {
    return f32x16::load_f16(halves_at(field<4>(b)));
  }
};

struct Q6_K : Blocks<Format::q6_k> {
  using Block = format::BlockQ6K;
  static constexpr Format kFormat = Format::q6_k;
  static constexpr bool kMin = false, kSmall = true;
  static constexpr int kBias = 32, kSub = 16;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, int s, u8x64 out[8]) const {
    const int half = s / 4, quarter = s % 4;
    const u8* low = bytes_at(field<0>(b)) + (half * 16 + quarter % 2 * 8) * 64;
    const u8* high = bytes_at(field<1>(b)) + half * 8 * 64;
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) {
      out[g] = bits_of_bytes(u8x64::load(low + g * 64), quarter / 2 * 4, 4, 0) |
               bits_of_bytes(u8x64::load(high + g * 64), quarter * 2, 2, 4);
    }
  }
  QUERN_FN void sub_scales(int64_t b, i32x16* out) const {
    widen_subs<16>(reinterpret_cast<const i8*>(field<2>(b)), out);
  }
  QUERN_FN f32x16 scale(int64_t b) const {
    return f32x16::load_f16(halves_at(field<3>(b)));
  }
};

struct Q3_K : Blocks<Format::q3_k> {
  using Block = format::BlockQ3K;
  static constexpr Format kFormat = Format::q3_k;
  static constexpr bool kMin = false, kSmall = true;
  static constexpr int kBias = 4, kSub = 16;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, int s, u8x64 out[8]) const {
    const u8* low = bytes_at(field<0>(b)) + s / 4 * 8 * 64;
    const u8* high = bytes_at(field<1>(b));
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) {
      out[g] = bits_of_bytes(u8x64::load(low + g * 64), s % 4 * 2, 2, 0) |
               bits_of_bytes(u8x64::load(high + g * 64), s, 1, 2);
    }
  }
  // Sub-scale j: low four bits in a nibble of byte j % 8, the upper two in byte 8 + j % 4.
  QUERN_FN void sub_scales(int64_t b, i32x16* out) const {
    const u8* s = bytes_at(field<2>(b));
    const u8x64 low0 = u8x64::load(s), low1 = u8x64::load(s + 64), high = u8x64::load(s + 128),
                middle = u8x64::broadcast(32);
    i8 all[256];
    as<i8>((bits_of_bytes(low0, 0, 4, 0) | bits_of_bytes(high, 0, 2, 4)) - middle).store(all);
    as<i8>((bits_of_bytes(low1, 0, 4, 0) | bits_of_bytes(high, 2, 2, 4)) - middle).store(all + 64);
    as<i8>((bits_of_bytes(low0, 4, 4, 0) | bits_of_bytes(high, 4, 2, 4)) - middle).store(all + 128);
    as<i8>((bits_of_bytes(low1, 4, 4, 0) | bits_of_bytes(high, 6, 2, 4)) - middle).store(all + 192);
    widen_subs<16>(all, out);
  }
  QUERN_FN f32x16 scale(int64_t b) const {
    return f32x16::load_f16(halves_at(field<3>(b)));
  }
};

struct Q2_K : Blocks<Format::q2_k> {
  using Block = format::BlockQ2K;
  static constexpr Format kFormat = Format::q2_k;
  static constexpr bool kMin = true, kSmall = true;
  static constexpr int kBias = 0, kSub = 16;
  using Code = u8;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, int s, u8x64 out[8]) const {
    const u8* q = bytes_at(field<0>(b)) + s / 4 * 8 * 64;
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) out[g] = bits_of_bytes(u8x64::load(q + g * 64), s % 4 * 2, 2, 0);
  }
  QUERN_FN void subs(int64_t b, int first_bit, i32x16* out) const {
    u8 all[256];
    for (int j = 0; j < 4; ++j)
      bits_of_bytes(u8x64::load(bytes_at(field<1>(b)) + 64 * j), first_bit, 4, 0).store(all + 64 * j);
    widen_subs<16>(all, out);
  }
  QUERN_FN void sub_scales(int64_t b, i32x16* out) const {
    subs(b, 0, out);
  }
  QUERN_FN void sub_minima(int64_t b, i32x16* out) const {
    subs(b, 4, out);
  }
  QUERN_FN f32x16 scale(int64_t b) const {
    return f32x16::load_f16(halves_at(field<2>(b)));
  }
  QUERN_FN f32x16 minimum(int64_t b) const {
    return f32x16::load_f16(halves_at(field<3>(b)));
  }
};

struct Iq4Xs : Blocks<Format::iq4_xs> {
  using Block = format::BlockIq4Xs;
  static constexpr Format kFormat = Format::iq4_xs;
  static constexpr bool kMin = false, kSmall = !kWide;
  static constexpr int kBias = kWide ? 128 : 0, kSub = 32;
  using Code = choose<kWide, u8, i8>;
  using Blocks::Blocks;
  QUERN_FN void codes(int64_t b, int s, lat<Code, 64> out[8]) const {
    u8x64 index[8];
    nibbles(bytes_at(field<0>(b)) + s * 256, index);
    Table32<Format::iq4_nl, 128, false>::lookup(format::kIq4Values, index, out);
  }
  QUERN_FN void sub_scales(int64_t b, i32x16* out) const {
    const u8* high = bytes_at(field<1>(b));
    const u8* low = bytes_at(field<2>(b));
    for (int s = 0; s < 8; ++s) {
      const u32x16 l = widen<u32>(u8x16::load(low + s / 2 * 16)) >> (s % 2 * 4) & u32x16::broadcast(15);
      const u32x16 h = widen<u32>(u8x16::load(high + s / 4 * 16)) >> (s % 4 * 2) & u32x16::broadcast(3);
      out[s] = as<i32>(l | h << 4) - i32x16::broadcast(32);
    }
  }
  QUERN_FN f32x16 scale(int64_t b) const { return f32x16::load_f16(halves_at(field<3>(b))); }
};

}  // namespace quern::kernels::QUERN_ISA
