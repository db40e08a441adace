// Matmul for weight formats with blocks of 256, activations q8_256 (docs/NUMERICS.md; reference: ref/matmul.cpp).
//
//   acc = fma(float(sum over subs of sub_scale * (w_code . x_code)), d_w * d_x, acc)   integers exact, one float per
//   256 acc = fma(-dmin_w, d_x * float(sum over subs of sub_min * sum of x_code), acc)     formats with a minimum
//
// direct and tiled as in matmul32.cpp.
#include "kernels/cpu/expert_drivers.h"
#include "kernels/cpu/formats256.h"

namespace quern::kernels::QUERN_ISA {
namespace {

template <class F>
inline constexpr int kSubs = 256 / F::kSub;

// Adds sub-vector s of a block: the scaled dot to `sum`. scale: its sub-scales (two of them when kSub is 16).
template <class F>
QUERN_FN void add_sub(const Row& x, int64_t b, int s, const lat<typename F::Code, 64> codes[8], const i32x16* scale,
                      i32x16& sum) {
  const i8* v = x.codes + b * 256 + s * 32;
  const i32* sums = x.sums + b * 16 + s * 2;
  if constexpr (F::kSub == 32) {
    i32x16 part = dot_start<F>(F::kBias == 0 ? 0 : sums[0] + sums[1]);
#pragma GCC unroll kDeep
    for (int g = 0; g < 8; ++g) part = dot<F>(part, codes[g], i8x64::broadcast4(v + g * 4));
    sum = sum + part * scale[0];
  } else {
    i32x16 first = dot_start<F>(sums[0]), second = dot_start<F>(sums[1]);
#pragma GCC unroll kDeep
    for (int g = 0; g < 4; ++g) {
      first = dot<F>(first, codes[g], i8x64::broadcast4(v + g * 4));
      second = dot<F>(second, codes[g + 4], i8x64::broadcast4(v + 16 + g * 4));
    }
    sum = sum + first * scale[0] + second * scale[1];
  }
}

template <class F>
QUERN_FN void add_minimum(const Row& x, int64_t b, int s, const i32x16* minimum, i32x16& sum) {
  const i32* sums = x.sums + b * 16 + s * 2;
  if constexpr (F::kSub == 32) {
    sum = sum + minimum[0] * i32x16::broadcast(sums[0] + sums[1]);
  } else {
    sum = sum + minimum[0] * i32x16::broadcast(sums[0]) + minimum[1] * i32x16::broadcast(sums[1]);
  }
}

// The block's integers meet float.
template <class F>
QUERN_FN f32x16 close_block(const f32x16& acc, const i32x16& sum, const i32x16& min_sum, const f32x16& d,
                            const f32x16& dmin, float d_x) {
  const f32x16 dx = f32x16::broadcast(d_x);
  f32x16 out = fma(to_f32(sum), d * dx, acc);
  if constexpr (F::kMin) out = fma(-dmin, dx * to_f32(min_sum), out);
  return out;
}

// A group of panels unpacked. Per block and panel: codes [8 subs of 32][8][kTilePanels][64]; then rows of 16 lanes:
// starts (TileDot) and sub-scales [kSubs] i32, pairs of sub-minima [kSubs / 2] 2 x i16, d and dmin f32.
template <class F>
struct Unpacked256 {
  static constexpr int kPairs = F::kMin ? kSubs<F> / 2 : 0;
  static constexpr int kRows = 2 * kSubs<F> + kPairs + 2;
  i8* codes;
  i32* rows;
  static size_t bytes(int64_t n_in) {
    return static_cast<size_t>(n_in / 256) * kTilePanels * static_cast<size_t>(64 * 64 + 64 * kRows);
  }
  Unpacked256(std::byte* scratch, int64_t n_blocks) {
    codes = reinterpret_cast<i8*>(scratch);
    rows = reinterpret_cast<i32*>(scratch + n_blocks * 64 * 64 * kTilePanels);
  }
  QUERN_FN i8* code(int64_t b, int i, int panel) const { return codes + ((b * 64 + i) * kTilePanels + panel) * 64; }
  QUERN_FN i32* row(int64_t b, int i, int panel) const { return rows + ((b * kRows + i) * kTilePanels + panel) * 16; }
  QUERN_FN i32* start(int64_t b, int j, int panel) const { return row(b, j, panel); }
  QUERN_FN i32* scale(int64_t b, int j, int panel) const { return row(b, kSubs<F> + j, panel); }
  QUERN_FN i16* minima(int64_t b, int i, int panel) const {
    return reinterpret_cast<i16*>(row(b, 2 * kSubs<F> + i, panel));
  }
  QUERN_FN float* d(int64_t b, int panel) const { return reinterpret_cast<float*>(row(b, kRows - 2, panel)); }
  QUERN_FN float* dmin(int64_t b, int panel) const { return reinterpret_cast<float*>(row(b, kRows - 1, panel)); }

  __attribute__((noinline)) void fill(F f, int panel, int64_t n_blocks) const {
    const Unpacked256 to = *this;  // a copy: what is stored could else be the pointers themselves
    for (int64_t b = 0; b < n_blocks; ++b) {
#pragma GCC unroll kDeep
      for (int s = 0; s < 8; ++s) {
        lat<typename F::Code, 64> v[8];
        f.codes(b, s, v);
        i8x64 w[8];
#pragma GCC unroll kDeep
        for (int g = 0; g < 8; ++g) {
          w[g] = TileDot<F>::weight(v[g]);
          w[g].store_aligned(to.code(b, s * 8 + g, panel));
        }
        constexpr int kParts = 32 / F::kSub, kVectors = 8 / kParts;
#pragma GCC unroll kDeep
        for (int h = 0; h < kParts; ++h) {
          TileDot<F>::template start<kVectors>(w + h * kVectors).store_aligned(to.start(b, s * kParts + h, panel));
        }
      }
      i32x16 sub[kSubs<F>];
      f.sub_scales(b, sub);
#pragma GCC unroll kDeep
      for (int j = 0; j < kSubs<F>; ++j) sub[j].store_aligned(to.scale(b, j, panel));
      if constexpr (F::kMin) {
        f.sub_minima(b, sub);
#pragma GCC unroll kDeep
        for (int i = 0; i < kPairs; ++i)
          (sub[2 * i] | (sub[2 * i + 1] << 16)).store_aligned(to.row(b, 2 * kSubs<F> + i, panel));
        f.minimum(b).store_aligned(to.dmin(b, panel));
      }
      f.scale(b).store_aligned(to.d(b, panel));
    }
  }
};

template <class F>
struct Core256 {
  using Format = F;
  using Unpacked = Unpacked256<F>;
  static constexpr ActivationFormat kAct = ActivationFormat::q8_256;
  static constexpr int kBlock = 256, kSteps = kSubs<F>;

  template <int kTokens>
  static QUERN_FN void direct_panel(const F& f, const Row (&x)[kTokens], int64_t n_blocks, const Ahead& ahead,
                                    f32x16 (&acc)[kTokens]) {
    for (int t = 0; t < kTokens; ++t) acc[t] = f32x16::zero();
    for (int64_t b = 0; b < n_blocks; ++b) {
      i32x16 scales[kSubs<F>], minima[kSubs<F>], sum[kTokens], min_sum[kTokens];
      f.sub_scales(b, scales);
      if constexpr (F::kMin) f.sub_minima(b, minima);
      for (int t = 0; t < kTokens; ++t) sum[t] = min_sum[t] = i32x16::zero();
#pragma GCC unroll kDeep
      for (int s = 0; s < 8; ++s) {
        ahead.ask<F, 8>(f.panel, b, s);
        lat<typename F::Code, 64> codes[8];
        f.codes(b, s, codes);
        const int j = s * (32 / F::kSub);
#pragma GCC unroll unroll(4)
        for (int t = 0; t < kTokens; ++t) {
          add_sub<F>(x[t], b, s, codes, scales + j, sum[t]);
          if constexpr (F::kMin) add_minimum<F>(x[t], b, s, minima + j, min_sum[t]);
        }
      }
      f32x16 dmin = f32x16::zero();
      if constexpr (F::kMin) dmin = f.minimum(b);
      for (int t = 0; t < kTokens; ++t)
        acc[t] = close_block<F>(acc[t], sum[t], min_sum[t], f.scale(b), dmin, x[t].d[b]);
    }
  }

  template <int kSpan>
  static QUERN_FN void tile(const Unpacked& u, const XTile& x, int first, int64_t n_blocks, EarlyRead& early,
                            f32x16 (&acc)[kTilePanels][kSpan]) {
#pragma GCC unroll unroll(2)
    for (int p = 0; p < kTilePanels; ++p) {
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) acc[p][t] = f32x16::zero();
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      i32x16 sum[kTilePanels][kSpan];
#pragma GCC unroll unroll(2)
      for (int p = 0; p < kTilePanels; ++p) {
#pragma GCC unroll unroll(6)
        for (int t = 0; t < kSpan; ++t) sum[p][t] = i32x16::zero();
      }
      for (int j = 0; j < kSubs<F>; ++j) {
        early.step();
        add_tile_sub<kSpan>(u, x, first, b, j, sum);
      }
#pragma GCC unroll unroll(2)
      for (int p = 0; p < kTilePanels; ++p) {
        const f32x16 d = f32x16::load_aligned(u.d(b, p));
#pragma GCC unroll unroll(6)
        for (int t = 0; t < kSpan; ++t)
          acc[p][t] = fma(to_f32(sum[p][t]), d * f32x16::broadcast(x.d[b * kTileRows + first + t]), acc[p][t]);
      }
      if constexpr (F::kMin) add_tile_minima<kSpan>(u, x, first, b, acc);
    }
  }

  // Sub-block j of block b: its scaled dots to `sum`.
  template <int kSpan>
  static QUERN_FN void add_tile_sub(const Unpacked& u, const XTile& x, int first, int64_t b, int j,
                                    i32x16 (&sum)[kTilePanels][kSpan]) {
    using Dot = TileDot<F>;
    constexpr int kVectors = F::kSub / 4;
    i32x16 part[kTilePanels][kSpan];
#pragma GCC unroll unroll(2)
    for (int p = 0; p < kTilePanels; ++p) {
      const i32x16 start = Dot::kOffset ? i32x16::load_aligned(u.start(b, j, p)) : i32x16::zero();
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) part[p][t] = start;
    }
#pragma GCC unroll kDeep
    for (int g = 0; g < kVectors; ++g) {
      i8x64 codes[kTilePanels];
#pragma GCC unroll unroll(2)
      for (int p = 0; p < kTilePanels; ++p) codes[p] = i8x64::load_aligned(u.code(b, j * kVectors + g, p));
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) {
        const auto v = x.template code<typename Dot::X>(b * 64 + j * kVectors + g, first + t);
#pragma GCC unroll unroll(2)
        for (int p = 0; p < kTilePanels; ++p) part[p][t] = Dot::dot(part[p][t], codes[p], v);
      }
    }
#pragma GCC unroll unroll(2)
    for (int p = 0; p < kTilePanels; ++p) {
      const i32x16 scale = i32x16::load_aligned(u.scale(b, j, p));
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) sum[p][t] = sum[p][t] + part[p][t] * scale;
    }
  }

  // Minima of block b: pairs of sub-minima meet pairs of sums of codes.
  template <int kSpan>
  static QUERN_FN void add_tile_minima(const Unpacked& u, const XTile& x, int first, int64_t b,
                                       f32x16 (&acc)[kTilePanels][kSpan]) {
    constexpr int kPairs = Unpacked::kPairs;
    const std::byte* sums = (F::kSub == 32 ? x.sums : x.sums16) + (b * kPairs * kTileRows + first) * 4;
#pragma GCC unroll unroll(2)
    for (int p = 0; p < kTilePanels; ++p) {
      i32x16 low[kSpan];
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) low[t] = i32x16::zero();
      for (int i = 0; i < kPairs; ++i) {
        const i16x32 m = i16x32::load_aligned(u.minima(b, i, p));
#pragma GCC unroll unroll(6)
        for (int t = 0; t < kSpan; ++t)
          low[t] = idot2(low[t], m, as<i16>(i8x64::broadcast4(sums + (i * kTileRows + t) * 4)));
      }
      const f32x16 dmin = -f32x16::load_aligned(u.dmin(b, p));
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t)
        acc[p][t] = fma(dmin, f32x16::broadcast(x.d[b * kTileRows + first + t]) * to_f32(low[t]), acc[p][t]);
    }
  }
};

constexpr Kernel kRows[] = {
    direct_row<Core256<Q2_K>>(QUERN_NAME("direct_q2_k")),
    direct_row<Core256<Q2_K>>(QUERN_NAME("direct_q2_k"), 2),
    tiled_row<Core256<Q2_K>>(QUERN_NAME("tiled_q2_k")),
    tiled_row<Core256<Q2_K>>(QUERN_NAME("tiled_q2_k"), 2),
    gated_row<Core256<Q2_K>>(QUERN_NAME("gated_q2_k")),
    expert_direct_row<Core256<Q2_K>>(QUERN_NAME("expert_direct_q2_k")),
    expert_tiled_row<Core256<Q2_K>>(QUERN_NAME("expert_tiled_q2_k")),
    expert_gated_row<Core256<Q2_K>>(QUERN_NAME("expert_gated_q2_k")),
    expert_sum_row<Core256<Q2_K>>(QUERN_NAME("expert_sum_q2_k")),
    direct_row<Core256<Q3_K>>(QUERN_NAME("direct_q3_k")),
    direct_row<Core256<Q3_K>>(QUERN_NAME("direct_q3_k"), 2),
    tiled_row<Core256<Q3_K>>(QUERN_NAME("tiled_q3_k")),
    tiled_row<Core256<Q3_K>>(QUERN_NAME("tiled_q3_k"), 2),
    gated_row<Core256<Q3_K>>(QUERN_NAME("gated_q3_k")),
    expert_direct_row<Core256<Q3_K>>(QUERN_NAME("expert_direct_q3_k")),
    expert_tiled_row<Core256<Q3_K>>(QUERN_NAME("expert_tiled_q3_k")),
    expert_gated_row<Core256<Q3_K>>(QUERN_NAME("expert_gated_q3_k")),
    expert_sum_row<Core256<Q3_K>>(QUERN_NAME("expert_sum_q3_k")),
    direct_row<Core256<Q4_K>>(QUERN_NAME("direct_q4_k")),
    direct_row<Core256<Q4_K>>(QUERN_NAME("direct_q4_k"), 2),
    tiled_row<Core256<Q4_K>>(QUERN_NAME("tiled_q4_k")),
    tiled_row<Core256<Q4_K>>(QUERN_NAME("tiled_q4_k"), 2),
    gated_row<Core256<Q4_K>>(QUERN_NAME("gated_q4_k")),
    expert_direct_row<Core256<Q4_K>>(QUERN_NAME("expert_direct_q4_k")),
    expert_tiled_row<Core256<Q4_K>>(QUERN_NAME("expert_tiled_q4_k")),
    expert_gated_row<Core256<Q4_K>>(QUERN_NAME("expert_gated_q4_k")),
    expert_sum_row<Core256<Q4_K>>(QUERN_NAME("expert_sum_q4_k")),
    direct_row<Core256<Q5_K>>(QUERN_NAME("direct_q5_k")),
    direct_row<Core256<Q5_K>>(QUERN_NAME("direct_q5_k"), 2),
    tiled_row<Core256<Q5_K>>(QUERN_NAME("tiled_q5_k")),
    tiled_row<Core256<Q5_K>>(QUERN_NAME("tiled_q5_k"), 2),
    gated_row<Core256<Q5_K>>(QUERN_NAME("gated_q5_k")),
    expert_direct_row<Core256<Q5_K>>(QUERN_NAME("expert_direct_q5_k")),
    expert_tiled_row<Core256<Q5_K>>(QUERN_NAME("expert_tiled_q5_k")),
    expert_gated_row<Core256<Q5_K>>(QUERN_NAME("expert_gated_q5_k")),
    expert_sum_row<Core256<Q5_K>>(QUERN_NAME("expert_sum_q5_k")),
    direct_row<Core256<Q6_K>>(QUERN_NAME("direct_q6_k")),
    direct_row<Core256<Q6_K>>(QUERN_NAME("direct_q6_k"), 2),
    tiled_row<Core256<Q6_K>>(QUERN_NAME("tiled_q6_k")),
    tiled_row<Core256<Q6_K>>(QUERN_NAME("tiled_q6_k"), 2),
    gated_row<Core256<Q6_K>>(QUERN_NAME("gated_q6_k")),
    expert_direct_row<Core256<Q6_K>>(QUERN_NAME("expert_direct_q6_k")),
    expert_tiled_row<Core256<Q6_K>>(QUERN_NAME("expert_tiled_q6_k")),
    expert_gated_row<Core256<Q6_K>>(QUERN_NAME("expert_gated_q6_k")),
    expert_sum_row<Core256<Q6_K>>(QUERN_NAME("expert_sum_q6_k")),
    direct_row<Core256<Iq4Xs>>(QUERN_NAME("direct_iq4_xs")),
    direct_row<Core256<Iq4Xs>>(QUERN_NAME("direct_iq4_xs"), 2),
    tiled_row<Core256<Iq4Xs>>(QUERN_NAME("tiled_iq4_xs")),
    tiled_row<Core256<Iq4Xs>>(QUERN_NAME("tiled_iq4_xs"), 2),
    gated_row<Core256<Iq4Xs>>(QUERN_NAME("gated_iq4_xs")),
    expert_direct_row<Core256<Iq4Xs>>(QUERN_NAME("expert_direct_iq4_xs")),
    expert_tiled_row<Core256<Iq4Xs>>(QUERN_NAME("expert_tiled_iq4_xs")),
    expert_gated_row<Core256<Iq4Xs>>(QUERN_NAME("expert_gated_iq4_xs")),
    expert_sum_row<Core256<Iq4Xs>>(QUERN_NAME("expert_sum_iq4_xs")),
};

}  // namespace

const KernelList kMatmul256 = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
