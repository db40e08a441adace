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

template <Format kF, int kPanels, int kTokens>
QUERN_FN void tile(const MatmulArgs& a, int64_t first_panel, int64_t first_row) {
  const size_t panel_size = panel_bytes(kF, a.n_in);
  const std::byte* w[kPanels];
  const float* x[kTokens];
  f32x16 acc[kPanels][kTokens];
  for (int p = 0; p < kPanels; ++p) w[p] = a.w + static_cast<size_t>(first_panel + p) * panel_size;
  for (int t = 0; t < kTokens; ++t)
    x[t] = reinterpret_cast<const float*>(a.x + static_cast<size_t>(first_row + t) * a.x_stride);
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
  const TileGrid grid(n_panels, n_rows, w.n_threads);
  for_each_unit(
      grid, w, n_rows, [&](int64_t first_panel, bool, int64_t begin, int64_t end) __attribute__((always_inline)) {
        if (first_panel + kTilePanels <= n_panels) {
          panels<kF, kTilePanels>(a, first_panel, begin, end);
        } else {
          panels<kF, 1>(a, first_panel, begin, end);
        }
      });
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
    row<Format::f32>(QUERN_NAME("matmul_f32")),
    row<Format::f16>(QUERN_NAME("matmul_f16")),
    row<Format::bf16>(QUERN_NAME("matmul_bf16")),
};

}  // namespace

const KernelList kMatmulFloat = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
