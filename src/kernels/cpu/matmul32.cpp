// Matmul for weight formats with blocks of 32, activations q8_32 (docs/NUMERICS.md; reference: ref/matmul.cpp).
//
//   acc = fma(float(sum of w_code * x_code), d_w * d_x, acc)      blocks ascending, one chain per output
//   acc = fma(m_w, d_x * float(sum of x_code), acc)               formats with a minimum
//
// Two forms over the same x16 panels. direct: few rows; codes are unpacked in registers and each weight byte is read
// once: bytes moved per output = the row's packed bytes. tiled: many rows; a group of panels is unpacked once into
// scratch and reused for all tokens, 2 x 16 rows by 6 tokens at a time.
#include "kernels/cpu/expert_drivers.h"
#include "kernels/cpu/formats32.h"

namespace quern::kernels::QUERN_ISA {
namespace {

// A group of panels unpacked: codes [n_blocks][8][kTilePanels][64], then per block and panel a row of 16 each of
// starts (TileDot), scales and minima.
template <class F>
struct Unpacked32 {
  static constexpr int kRows = F::kMin ? 3 : 2;
  i8* codes;
  i32* starts;
  float* scales;
  float* minima;
  static size_t bytes(int64_t n_in) { return static_cast<size_t>(n_in / 32) * kTilePanels * (512 + kRows * 64); }
  Unpacked32(std::byte* scratch, int64_t n_blocks) {
    codes = reinterpret_cast<i8*>(scratch);
    starts = reinterpret_cast<i32*>(scratch + n_blocks * kTilePanels * 512);
    scales = reinterpret_cast<float*>(starts + n_blocks * kTilePanels * 16);
    minima = scales + n_blocks * kTilePanels * 16;
  }
  __attribute__((noinline)) void fill(F f, int panel, int64_t n_blocks) const {
    const Unpacked32 to = *this;  // a copy: what is stored could else be the pointers themselves
    for (int64_t b = 0; b < n_blocks; ++b) {
      lat<typename F::Code, 64> v[8];
      f.codes(b, v);
      i8x64 w[8];
#pragma GCC unroll kDeep
      for (int g = 0; g < 8; ++g) {
        w[g] = TileDot<F>::weight(v[g]);
        w[g].store_aligned(to.codes + ((b * 8 + g) * kTilePanels + panel) * 64);
      }
      const int64_t row = (b * kTilePanels + panel) * 16;
      TileDot<F>::template start<8>(w).store_aligned(to.starts + row);
      f.scale(b).store_aligned(to.scales + row);
      if constexpr (F::kMin) f.minimum(b).store_aligned(to.minima + row);
    }
  }
};

template <class F>
struct Core32 {
  using Format = F;
  using Unpacked = Unpacked32<F>;
  static constexpr ActivationFormat kAct = ActivationFormat::q8_32;
  static constexpr int kBlock = 32, kSteps = 1;

  template <int kTokens>
  static QUERN_FN void direct_panel(const F& f, const Row (&x)[kTokens], int64_t n_blocks, const Ahead& ahead,
                                    f32x16 (&acc)[kTokens]) {
    for (int t = 0; t < kTokens; ++t) acc[t] = f32x16::zero();
    for (int64_t b = 0; b < n_blocks; ++b) {
      ahead.ask<F>(f.panel, b);
      lat<typename F::Code, 64> codes[8];
      f.codes(b, codes);
      const f32x16 d = f.scale(b);
#pragma GCC unroll unroll(4)
      for (int t = 0; t < kTokens; ++t) {
        i32x16 sum = dot_start<F>(x[t].sums[b]);
#pragma GCC unroll kDeep
        for (int g = 0; g < 8; ++g) sum = dot<F>(sum, codes[g], i8x64::broadcast4(x[t].codes + b * 32 + g * 4));
        const float d_x = x[t].d[b];
        acc[t] = fma(to_f32(sum), d * f32x16::broadcast(d_x), acc[t]);
        if constexpr (F::kMin)
          acc[t] = fma(f.minimum(b), f32x16::broadcast(d_x * static_cast<float>(x[t].sums[b])), acc[t]);
      }
    }
  }

  template <int kSpan>
  static QUERN_FN void tile(const Unpacked& u, const XTile& x, int first, int64_t n_blocks, EarlyRead& early,
                            f32x16 (&acc)[kTilePanels][kSpan]) {
    using Dot = TileDot<F>;
    const float* x_min = reinterpret_cast<const float*>(x.sums) + first;
    const float* x_d = x.d + first;
#pragma GCC unroll unroll(2)
    for (int p = 0; p < kTilePanels; ++p) {
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) acc[p][t] = f32x16::zero();
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      early.step();
      i32x16 sum[kTilePanels][kSpan];
#pragma GCC unroll unroll(2)
      for (int p = 0; p < kTilePanels; ++p) {
        const i32x16 start =
            Dot::kOffset ? i32x16::load_aligned(u.starts + (b * kTilePanels + p) * 16) : i32x16::zero();
#pragma GCC unroll unroll(6)
        for (int t = 0; t < kSpan; ++t) sum[p][t] = start;
      }
#pragma GCC unroll kDeep
      for (int g = 0; g < 8; ++g) {
        i8x64 codes[kTilePanels];
#pragma GCC unroll unroll(2)
        for (int p = 0; p < kTilePanels; ++p)
          codes[p] = i8x64::load_aligned(u.codes + ((b * 8 + g) * kTilePanels + p) * 64);
#pragma GCC unroll unroll(6)
        for (int t = 0; t < kSpan; ++t) {
          const auto v = x.template code<typename Dot::X>(b * 8 + g, first + t);
#pragma GCC unroll unroll(2)
          for (int p = 0; p < kTilePanels; ++p) sum[p][t] = Dot::dot(sum[p][t], codes[p], v);
        }
      }
#pragma GCC unroll unroll(6)
      for (int t = 0; t < kSpan; ++t) {
        const f32x16 d = f32x16::broadcast(x_d[b * kTileRows + t]);
#pragma GCC unroll unroll(2)
        for (int p = 0; p < kTilePanels; ++p) {
          const int64_t row = (b * kTilePanels + p) * 16;
          acc[p][t] = fma(to_f32(sum[p][t]), d * f32x16::load_aligned(u.scales + row), acc[p][t]);
          if constexpr (F::kMin)
            acc[p][t] =
                fma(f32x16::broadcast(x_min[b * kTileRows + t]), f32x16::load_aligned(u.minima + row), acc[p][t]);
        }
      }
    }
  }
};

constexpr Kernel kRows[] = {
    direct_row<Core32<Q4_0>>(QUERN_NAME("direct_q4_0")),
    direct_row<Core32<Q4_0>>(QUERN_NAME("direct_q4_0"), 2),
    tiled_row<Core32<Q4_0>>(QUERN_NAME("tiled_q4_0")),
    tiled_row<Core32<Q4_0>>(QUERN_NAME("tiled_q4_0"), 2),
    gated_row<Core32<Q4_0>>(QUERN_NAME("gated_q4_0")),
    expert_direct_row<Core32<Q4_0>>(QUERN_NAME("expert_direct_q4_0")),
    expert_tiled_row<Core32<Q4_0>>(QUERN_NAME("expert_tiled_q4_0")),
    expert_gated_row<Core32<Q4_0>>(QUERN_NAME("expert_gated_q4_0")),
    expert_sum_row<Core32<Q4_0>>(QUERN_NAME("expert_sum_q4_0")),
    direct_row<Core32<Q4_1>>(QUERN_NAME("direct_q4_1")),
    direct_row<Core32<Q4_1>>(QUERN_NAME("direct_q4_1"), 2),
    tiled_row<Core32<Q4_1>>(QUERN_NAME("tiled_q4_1")),
    tiled_row<Core32<Q4_1>>(QUERN_NAME("tiled_q4_1"), 2),
    gated_row<Core32<Q4_1>>(QUERN_NAME("gated_q4_1")),
    expert_direct_row<Core32<Q4_1>>(QUERN_NAME("expert_direct_q4_1")),
    expert_tiled_row<Core32<Q4_1>>(QUERN_NAME("expert_tiled_q4_1")),
    expert_gated_row<Core32<Q4_1>>(QUERN_NAME("expert_gated_q4_1")),
    expert_sum_row<Core32<Q4_1>>(QUERN_NAME("expert_sum_q4_1")),
    direct_row<Core32<Q5_0>>(QUERN_NAME("direct_q5_0")),
    direct_row<Core32<Q5_0>>(QUERN_NAME("direct_q5_0"), 2),
    tiled_row<Core32<Q5_0>>(QUERN_NAME("tiled_q5_0")),
    tiled_row<Core32<Q5_0>>(QUERN_NAME("tiled_q5_0"), 2),
    gated_row<Core32<Q5_0>>(QUERN_NAME("gated_q5_0")),
    expert_direct_row<Core32<Q5_0>>(QUERN_NAME("expert_direct_q5_0")),
    expert_tiled_row<Core32<Q5_0>>(QUERN_NAME("expert_tiled_q5_0")),
    expert_gated_row<Core32<Q5_0>>(QUERN_NAME("expert_gated_q5_0")),
    expert_sum_row<Core32<Q5_0>>(QUERN_NAME("expert_sum_q5_0")),
    direct_row<Core32<Q5_1>>(QUERN_NAME("direct_q5_1")),
    direct_row<Core32<Q5_1>>(QUERN_NAME("direct_q5_1"), 2),
    tiled_row<Core32<Q5_1>>(QUERN_NAME("tiled_q5_1")),
    tiled_row<Core32<Q5_1>>(QUERN_NAME("tiled_q5_1"), 2),
    gated_row<Core32<Q5_1>>(QUERN_NAME("gated_q5_1")),
    expert_direct_row<Core32<Q5_1>>(QUERN_NAME("expert_direct_q5_1")),
    expert_tiled_row<Core32<Q5_1>>(QUERN_NAME("expert_tiled_q5_1")),
    expert_gated_row<Core32<Q5_1>>(QUERN_NAME("expert_gated_q5_1")),
    expert_sum_row<Core32<Q5_1>>(QUERN_NAME("expert_sum_q5_1")),
    direct_row<Core32<Q8_0>>(QUERN_NAME("direct_q8_0")),
    direct_row<Core32<Q8_0>>(QUERN_NAME("direct_q8_0"), 2),
    tiled_row<Core32<Q8_0>>(QUERN_NAME("tiled_q8_0")),
    tiled_row<Core32<Q8_0>>(QUERN_NAME("tiled_q8_0"), 2),
    gated_row<Core32<Q8_0>>(QUERN_NAME("gated_q8_0")),
    expert_direct_row<Core32<Q8_0>>(QUERN_NAME("expert_direct_q8_0")),
    expert_tiled_row<Core32<Q8_0>>(QUERN_NAME("expert_tiled_q8_0")),
    expert_gated_row<Core32<Q8_0>>(QUERN_NAME("expert_gated_q8_0")),
    expert_sum_row<Core32<Q8_0>>(QUERN_NAME("expert_sum_q8_0")),
    direct_row<Core32<Iq4Nl>>(QUERN_NAME("direct_iq4_nl")),
    direct_row<Core32<Iq4Nl>>(QUERN_NAME("direct_iq4_nl"), 2),
    tiled_row<Core32<Iq4Nl>>(QUERN_NAME("tiled_iq4_nl")),
    tiled_row<Core32<Iq4Nl>>(QUERN_NAME("tiled_iq4_nl"), 2),
    gated_row<Core32<Iq4Nl>>(QUERN_NAME("gated_iq4_nl")),
    expert_direct_row<Core32<Iq4Nl>>(QUERN_NAME("expert_direct_iq4_nl")),
    expert_tiled_row<Core32<Iq4Nl>>(QUERN_NAME("expert_tiled_iq4_nl")),
    expert_gated_row<Core32<Iq4Nl>>(QUERN_NAME("expert_gated_iq4_nl")),
    expert_sum_row<Core32<Iq4Nl>>(QUERN_NAME("expert_sum_iq4_nl")),
    direct_row<Core32<Mxfp4>>(QUERN_NAME("direct_mxfp4")),
    direct_row<Core32<Mxfp4>>(QUERN_NAME("direct_mxfp4"), 2),
    tiled_row<Core32<Mxfp4>>(QUERN_NAME("tiled_mxfp4")),
    tiled_row<Core32<Mxfp4>>(QUERN_NAME("tiled_mxfp4"), 2),
    gated_row<Core32<Mxfp4>>(QUERN_NAME("gated_mxfp4")),
    expert_direct_row<Core32<Mxfp4>>(QUERN_NAME("expert_direct_mxfp4")),
    expert_tiled_row<Core32<Mxfp4>>(QUERN_NAME("expert_tiled_mxfp4")),
    expert_gated_row<Core32<Mxfp4>>(QUERN_NAME("expert_gated_mxfp4")),
    expert_sum_row<Core32<Mxfp4>>(QUERN_NAME("expert_sum_mxfp4")),
};

}  // namespace

const KernelList kMatmul32 = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
