// Matmul for weight formats with blocks of 256, activations q8_256 (docs/NUMERICS.md; reference: ref/matmul.cpp).
//
//   acc = fma(float(sum over subs of sub_scale * (w_code . x_code)), d_w * d_x, acc)   integers exact, one float per
//   256 acc = fma(-dmin_w, d_x * float(sum over subs of sub_min * sum of x_code), acc)     formats with a minimum
//
// direct and tiled as in matmul32.cpp.
#include "kernels/cpu/formats256.h"
#include "kernels/cpu/matmul_drivers.h"

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

// Tokens of a tile: integer sums of blocks and of sub-blocks want registers of their own.
inline constexpr int kTokens256 = kWide ? 4 : 2;

// A group of panels unpacked: codes [n_blocks][8][8][kTilePanels][64], then per block sub-scales and sub-minima
// [kSubs][kTilePanels][16] i32, then d and dmin [kTilePanels][16] f32.
template <class F>
struct Unpacked256 {
  typename F::Code* codes;
  i32* subs;
  float* scales;
  static constexpr int kSubRows = kSubs<F> * (F::kMin ? 2 : 1) * kTilePanels;
  static size_t bytes(int64_t n_in) {
    return static_cast<size_t>(n_in / 256) * (64 * 64 * kTilePanels + 64 * kSubRows + 2 * 64 * kTilePanels);
  }
  Unpacked256(std::byte* scratch, int64_t n_blocks) {
    codes = reinterpret_cast<typename F::Code*>(scratch);
    subs = reinterpret_cast<i32*>(scratch + n_blocks * 64 * 64 * kTilePanels);
    scales = reinterpret_cast<float*>(subs + n_blocks * 16 * kSubRows);
  }
  QUERN_FN typename F::Code* code(int64_t b, int s, int g, int panel) const {
    return codes + (((b * 8 + s) * 8 + g) * kTilePanels + panel) * 64;
  }
  QUERN_FN i32* scale_row(int64_t b, int j, int panel) const {
    return subs + (b * kSubRows + j * kTilePanels + panel) * 16;
  }
  QUERN_FN i32* minimum_row(int64_t b, int j, int panel) const { return scale_row(b, kSubs<F> + j, panel); }
  QUERN_FN float* d(int64_t b, int panel) const { return scales + (b * 2 * kTilePanels + panel) * 16; }
  QUERN_FN float* dmin(int64_t b, int panel) const { return d(b, kTilePanels + panel); }

  QUERN_FN void fill(const F& f, int panel, int64_t n_blocks) const {
    for (int64_t b = 0; b < n_blocks; ++b) {
#pragma GCC unroll kDeep
      for (int s = 0; s < 8; ++s) {
        lat<typename F::Code, 64> v[8];
        f.codes(b, s, v);
        for (int g = 0; g < 8; ++g) v[g].store_aligned(code(b, s, g, panel));
      }
      i32x16 sub[kSubs<F>];
      f.sub_scales(b, sub);
      for (int j = 0; j < kSubs<F>; ++j) sub[j].store_aligned(scale_row(b, j, panel));
      if constexpr (F::kMin) {
        f.sub_minima(b, sub);
        for (int j = 0; j < kSubs<F>; ++j) sub[j].store_aligned(minimum_row(b, j, panel));
        f.minimum(b).store_aligned(dmin(b, panel));
      }
      f.scale(b).store_aligned(d(b, panel));
    }
  }
};

template <class F>
struct Core256 {
  using Format = F;
  using Unpacked = Unpacked256<F>;
  static constexpr ActivationFormat kAct = ActivationFormat::q8_256;
  static constexpr int kBlock = 256, kTileTokens = kTokens256;

  template <int kTokens>
  static QUERN_FN void direct_panel(const MatmulArgs& a, const F& f, const Rows& rows, int64_t panel, int64_t first_row,
                                    int64_t n_blocks) {
    Row x[kTokens];
    f32x16 acc[kTokens];
    for (int t = 0; t < kTokens; ++t) {
      x[t] = rows.row(first_row + t);
      acc[t] = f32x16::zero();
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      prefetch_ahead<F::kCodeBytes>(f.plane[0] + b * F::kCodeBytes);
      i32x16 scales[kSubs<F>], minima[kSubs<F>], sum[kTokens], min_sum[kTokens];
      f.sub_scales(b, scales);
      if constexpr (F::kMin) f.sub_minima(b, minima);
      for (int t = 0; t < kTokens; ++t) sum[t] = min_sum[t] = i32x16::zero();
#pragma GCC unroll kDeep
      for (int s = 0; s < 8; ++s) {
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
    finish_rows<kTokens>(a, panel, first_row, acc, rows.n_planes);
  }

  template <int kTokens>
  static QUERN_FN void tile(const MatmulArgs& a, const Unpacked& u, const Rows& rows, int64_t first_panel, int n_panels,
                            int64_t first_row, int64_t n_blocks) {
    Row x[kTokens];
    f32x16 acc[kTilePanels][kTokens];
    for (int t = 0; t < kTokens; ++t) {
      x[t] = rows.row(first_row + t);
      for (int p = 0; p < kTilePanels; ++p) acc[p][t] = f32x16::zero();
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      i32x16 sum[kTilePanels][kTokens], min_sum[kTilePanels][kTokens];
      for (int p = 0; p < kTilePanels; ++p) {
        for (int t = 0; t < kTokens; ++t) sum[p][t] = min_sum[p][t] = i32x16::zero();
      }
      for (int s = 0; s < 8; ++s) {
        constexpr int kHalves = 32 / F::kSub, kVectors = 8 / kHalves;
#pragma GCC unroll unroll(2)
        for (int h = 0; h < kHalves; ++h) {
          const int j = s * kHalves + h;
          i32x16 part[kTilePanels][kTokens];
          i32 x_sum[kTokens];
#pragma GCC unroll unroll(4)
          for (int t = 0; t < kTokens; ++t) {
            const i32* sums = x[t].sums + b * 16;
            x_sum[t] = F::kSub == 32 ? sums[2 * s] + sums[2 * s + 1] : sums[j];
#pragma GCC unroll unroll(2)
            for (int p = 0; p < kTilePanels; ++p) part[p][t] = dot_start<F>(x_sum[t]);
          }
#pragma GCC unroll kDeep
          for (int g = 0; g < kVectors; ++g) {
            lat<typename F::Code, 64> codes[kTilePanels];
#pragma GCC unroll unroll(2)
            for (int p = 0; p < kTilePanels; ++p)
              codes[p] = lat<typename F::Code, 64>::load_aligned(u.code(b, s, h * kVectors + g, p));
#pragma GCC unroll unroll(4)
            for (int t = 0; t < kTokens; ++t) {
              const i8x64 v = i8x64::broadcast4(x[t].codes + b * 256 + s * 32 + (h * kVectors + g) * 4);
#pragma GCC unroll unroll(2)
              for (int p = 0; p < kTilePanels; ++p) part[p][t] = dot<F>(part[p][t], codes[p], v);
            }
          }
#pragma GCC unroll unroll(2)
          for (int p = 0; p < kTilePanels; ++p) {
            const i32x16 scale = i32x16::load_aligned(u.scale_row(b, j, p));
#pragma GCC unroll unroll(4)
            for (int t = 0; t < kTokens; ++t) {
              sum[p][t] = sum[p][t] + part[p][t] * scale;
              if constexpr (F::kMin)
                min_sum[p][t] =
                    min_sum[p][t] + i32x16::load_aligned(u.minimum_row(b, j, p)) * i32x16::broadcast(x_sum[t]);
            }
          }
        }
      }
      for (int p = 0; p < kTilePanels; ++p) {
        f32x16 dmin = f32x16::zero();
        if constexpr (F::kMin) dmin = f32x16::load_aligned(u.dmin(b, p));
        for (int t = 0; t < kTokens; ++t) {
          acc[p][t] =
              close_block<F>(acc[p][t], sum[p][t], min_sum[p][t], f32x16::load_aligned(u.d(b, p)), dmin, x[t].d[b]);
        }
      }
    }
    for (int p = 0; p < n_panels; ++p) {
      finish_rows<kTokens>(a, first_panel + p, first_row, acc[p], rows.n_planes);
    }
  }
};

constexpr Kernel kRows[] = {
    direct_row<Core256<Q2_K>>(QUERN_NAME("direct_q2_k")),    direct_row<Core256<Q2_K>>(QUERN_NAME("direct_q2_k"), 2),
    tiled_row<Core256<Q2_K>>(QUERN_NAME("tiled_q2_k")),      tiled_row<Core256<Q2_K>>(QUERN_NAME("tiled_q2_k"), 2),
    direct_row<Core256<Q3_K>>(QUERN_NAME("direct_q3_k")),    direct_row<Core256<Q3_K>>(QUERN_NAME("direct_q3_k"), 2),
    tiled_row<Core256<Q3_K>>(QUERN_NAME("tiled_q3_k")),      tiled_row<Core256<Q3_K>>(QUERN_NAME("tiled_q3_k"), 2),
    direct_row<Core256<Q4_K>>(QUERN_NAME("direct_q4_k")),    direct_row<Core256<Q4_K>>(QUERN_NAME("direct_q4_k"), 2),
    tiled_row<Core256<Q4_K>>(QUERN_NAME("tiled_q4_k")),      tiled_row<Core256<Q4_K>>(QUERN_NAME("tiled_q4_k"), 2),
    direct_row<Core256<Q5_K>>(QUERN_NAME("direct_q5_k")),    direct_row<Core256<Q5_K>>(QUERN_NAME("direct_q5_k"), 2),
    tiled_row<Core256<Q5_K>>(QUERN_NAME("tiled_q5_k")),      tiled_row<Core256<Q5_K>>(QUERN_NAME("tiled_q5_k"), 2),
    direct_row<Core256<Q6_K>>(QUERN_NAME("direct_q6_k")),    direct_row<Core256<Q6_K>>(QUERN_NAME("direct_q6_k"), 2),
    tiled_row<Core256<Q6_K>>(QUERN_NAME("tiled_q6_k")),      tiled_row<Core256<Q6_K>>(QUERN_NAME("tiled_q6_k"), 2),
    direct_row<Core256<Iq4Xs>>(QUERN_NAME("direct_iq4_xs")), direct_row<Core256<Iq4Xs>>(QUERN_NAME("direct_iq4_xs"), 2),
    tiled_row<Core256<Iq4Xs>>(QUERN_NAME("tiled_iq4_xs")),   tiled_row<Core256<Iq4Xs>>(QUERN_NAME("tiled_iq4_xs"), 2),
};

}  // namespace

const KernelList kMatmul256 = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
