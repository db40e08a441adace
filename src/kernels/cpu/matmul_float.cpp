// Matmul for F32, F16 and BF16 weights over f32 activations: acc = fma(w, x, acc), inputs ascending, one chain per
// output, lanes are rows: so every instruction set gives the same bits (reference: ref/matmul.cpp). Bytes moved per
// output: the row's own. Panels x tokens are chosen to keep 8 or more chains going, a fused multiply-add's latency.
#include "kernels/cpu/matmul_common.h"

namespace quern::kernels::QUERN_ISA {
namespace {

using format::Format;

template <Format kF>
QUERN_FN f32x16 load_weights(const std::byte* p, int64_t k) {
  if constexpr (kF == Format::f32) {
    return f32x16::load(reinterpret_cast<const float*>(p) + 16 * k);
  } else if constexpr (kF == Format::f16) {
    return f32x16::load_f16(reinterpret_cast<const u16*>(p) + 16 * k);
  } else {
    return f32x16::load_bf16(reinterpret_cast<const u16*>(p) + 16 * k);
  }
}

// Products of kPanels panels with the rows at x.
template <Format kF, int kPanels, int kTokens>
QUERN_FN void products(const MatmulArgs& a, int64_t first_panel, const float* const (&x)[kTokens],
                       f32x16 (&acc)[kPanels][kTokens]) {
  const size_t panel_size = panel_bytes(kF, a.n_in);
  const std::byte* w[kPanels];
  for (int p = 0; p < kPanels; ++p) w[p] = a.w + static_cast<size_t>(first_panel + p) * panel_size;
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < kTokens; ++t) acc[p][t] = f32x16::zero();
  }
  for (int64_t k = 0; k < a.n_in; ++k) {
    f32x16 v[kPanels];
#pragma GCC unroll unroll(4)
    for (int p = 0; p < kPanels; ++p) v[p] = load_weights<kF>(w[p], k);
#pragma GCC unroll unroll(6)
    for (int t = 0; t < kTokens; ++t) {
      const f32x16 xs = f32x16::broadcast(x[t][k]);
#pragma GCC unroll unroll(4)
      for (int p = 0; p < kPanels; ++p) acc[p][t] = fma(v[p], xs, acc[p][t]);
    }
  }
}

QUERN_FN const float* x_row(const MatmulArgs& a, int64_t row) {
  return reinterpret_cast<const float*>(a.x + static_cast<size_t>(row) * a.x_stride);
}

template <Format kF, int kPanels, int kTokens>
QUERN_FN void tile(const MatmulArgs& a, int64_t first_panel, int64_t first_row) {
  const float* x[kTokens];
  f32x16 acc[kPanels][kTokens];
  for (int t = 0; t < kTokens; ++t) x[t] = x_row(a, first_row + t);
  products<kF, kPanels, kTokens>(a, first_panel, x, acc);
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < kTokens; ++t) finish(a, first_panel + p, first_row + t, acc[p][t]);
  }
}

template <Format kF, int kPanels>
QUERN_FN void panels(const MatmulArgs& a, int64_t first_panel, int64_t begin, int64_t end) {
  int64_t row = begin;
  if constexpr (kWide) {
    for (; row + 6 <= end; row += 6) tile<kF, kPanels, 6>(a, first_panel, row);
  }
  for (; row + 2 <= end; row += 2) tile<kF, kPanels, 2>(a, first_panel, row);
  if (row < end) tile<kF, kPanels, 1>(a, first_panel, row);
}

template <Format kF>
void matmul(const MatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const int64_t n_rows = row_count(ctx, a.rows), n_panels = panel_count(a.n_out);
  const TileGrid grid(n_panels, kTilePanels, n_rows, w.n_threads);
  for_each_unit(
      grid, w, n_rows, [&](const Unit& unit) __attribute__((always_inline)) {
        if (unit.panel + kTilePanels <= n_panels) {
          panels<kF, kTilePanels>(a, unit.panel, unit.begin, unit.end);
        } else {
          panels<kF, 1>(a, unit.panel, unit.begin, unit.end);
        }
      });
}

// Experts: one routed row after the other, the thread's panels of its matrix.
template <Format kF>
void expert_matmul(const ExpertMatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const Routed& r = a.routed;
  const int64_t n = int64_t{ctx.n_rows} * r.n_used;
  const Buckets b(r.buckets, r.n_experts, n);
  const Range panels = share(panel_count(a.of.n_out), w);
  for (int64_t i = 0; i < n; ++i) {
    const MatmulArgs one = of_expert(a.of, r, r.choices[i].expert);
    const int64_t place = r.buckets != nullptr ? b.place_of[i] : i;
    const float* const x[1] = {x_row(one, r.x_by_token ? i / r.n_used : place)};
    int64_t p = panels.begin;
    for (; p + 4 <= panels.end; p += 4) {
      f32x16 acc[4][1];
      products<kF, 4, 1>(one, p, x, acc);
      for (int j = 0; j < 4; ++j) finish_routed(one, r, p + j, place, r.choices[i].weight, acc[j][0]);
    }
    for (; p < panels.end; ++p) {
      f32x16 acc[1][1];
      products<kF, 1, 1>(one, p, x, acc);
      finish_routed(one, r, p, place, r.choices[i].weight, acc[0][0]);
    }
  }
}

template <Format kF>
constexpr Kernel expert_row(const char* name) {
  return {{Op::expert_matmul, kF, ActivationFormat::f32, Layout::x16},
          own_isa(),
          own_priority(),
          name,
          &Erased<&expert_matmul<kF>>::call};
}

template <Format kF>
constexpr Kernel row(const char* name) {
  return {{Op::matmul, kF, ActivationFormat::f32, Layout::x16},
          own_isa(),
          own_priority(),
          name,
          &Erased<&matmul<kF>>::call};
}

constexpr Kernel kRows[] = {
    row<Format::f32>(QUERN_NAME("matmul_f32")),        row<Format::f16>(QUERN_NAME("matmul_f16")),
    row<Format::bf16>(QUERN_NAME("matmul_bf16")),      expert_row<Format::f32>(QUERN_NAME("expert_f32")),
    expert_row<Format::f16>(QUERN_NAME("expert_f16")), expert_row<Format::bf16>(QUERN_NAME("expert_bf16")),
};

}  // namespace

const KernelList kMatmulFloat = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
