// What all matmul kernels share: panels of 16 rows in x16 layout, the epilogue, and the walk over token tiles.
#pragma once

#include "format/activation.h"
#include "kernels/cpu/tier.h"
#include "kernels/layout.h"

namespace quern::kernels::QUERN_ISA {

// y[row][16 panel ..] = residual + (value + bias); lanes past the matrix are not written.
QUERN_FN void finish(const MatmulArgs& a, int64_t panel, int64_t row, f32x16 value) {
  const int64_t first = panel * kPanelRows, left = a.n_out - first;
  const int lanes = left < kPanelRows ? static_cast<int>(left) : static_cast<int>(kPanelRows);
  if (a.bias != nullptr) value = value + load_n(a.bias + first, lanes);
  if (a.residual != nullptr) value = load_n(a.residual + row * a.y_stride + first, lanes) + value;
  store_n(value, a.y + row * a.y_stride + first, lanes);
}

// Asks for the bytes that a walk over panels reaches kAhead bytes later: about a microsecond of one core's memory rate.
inline constexpr int kAhead = 4096;
template <int kBytes>
QUERN_FN void prefetch_ahead(const std::byte* p) {
#pragma GCC unroll unroll(32)
  for (int i = 0; i < kBytes; i += 64) prefetch(p + kAhead + i);
}

// Finishes T sums of a panel, beginning with sum first_row. Of a two-plane x, sums 2 r and 2 r + 1 are row r's (T is
// even).
template <int T>
QUERN_FN void finish_rows(const MatmulArgs& a, int64_t panel, int64_t first_row, const f32x16* acc, int n_planes) {
  if constexpr (T % 2 == 0) {
    if (n_planes == 2) {
      for (int t = 0; t < T; t += 2) finish(a, panel, (first_row + t) / 2, acc[t] + acc[t + 1]);
      return;
    }
  }
  for (int t = 0; t < T; ++t) finish(a, panel, first_row + t, acc[t]);
}

inline int64_t panel_count(const MatmulArgs& a) {
  return (a.n_out + kPanelRows - 1) / kPanelRows;
}

// Tokens of a prefill tile. 2 panels x 6 tokens keep 12 integer and 12 float sums in 32 registers (kernels.md of the
// design measured 84 % of the int8 peak for it); with 16 registers of half the width, 1 panel x 2 tokens.
inline constexpr int kTilePanels = kWide ? 2 : 1;
inline constexpr int kTileTokens = kWide ? 6 : 2;

// Work of a prefill matmul: groups of kTilePanels panels, times splits of the tokens when there are too few groups.
struct TileGrid {
  int64_t n_groups, n_splits, tokens_per_split;
  TileGrid(int64_t n_panels, int64_t n_tokens, int n_threads) {
    n_groups = (n_panels + kTilePanels - 1) / kTilePanels;
    const int64_t wanted = n_groups >= 4 * n_threads ? 1 : (4 * n_threads + n_groups - 1) / n_groups;
    const int64_t tiles = (n_tokens + kTileTokens - 1) / kTileTokens;
    const int64_t most = tiles / 8 > 1 ? tiles / 8 : 1;  // unpacking a panel must pay
    n_splits = wanted < most ? wanted : most;
    tokens_per_split = (tiles + n_splits - 1) / n_splits * kTileTokens;
  }
};

// One activation row.
struct Row {
  const i8* codes;
  const float* d;
  const i32* sums;
};

struct Rows {
  const std::byte* x;
  format::ActivationLayout layout;
  size_t stride;  // of one plane of one row
  int n_planes;
  explicit Rows(const MatmulArgs& a)
      : x(a.x),
        layout(format::activation_layout(a.act, static_cast<size_t>(a.n_in))),
        stride(layout.plane_bytes),
        n_planes(format::plane_count(a.act)) {}
  // Plane i % n_planes of row i / n_planes: planes of a row lie one after the other, so do rows.
  QUERN_FN Row row(int64_t i) const {
    const std::byte* p = x + static_cast<size_t>(i) * stride;
    return {reinterpret_cast<const i8*>(p), reinterpret_cast<const float*>(p + layout.d_offset),
            reinterpret_cast<const i32*>(p + layout.sums_offset)};
  }
};

template <class F>
struct PlaneOffsets {
  size_t at[F::kPlaneCount];
  explicit PlaneOffsets(int64_t n_in) {
    for (int i = 0; i < F::kPlaneCount; ++i) at[i] = plane_offset(F::kFormat, n_in, i);
  }
};

template <class F>
QUERN_FN i32x16 dot(const i32x16& acc, const lat<typename F::Code, 64>& w, const i8x64& x) {
  if constexpr (F::kSmall) {
    return idot4_small(acc, w, x);
  } else {
    return idot4(acc, w, x);
  }
}

// What integer sums start from: codes are stored plus kBias.
template <class F>
QUERN_FN i32x16 dot_start(i32 x_sum) {
  return F::kBias == 0 ? i32x16::zero() : i32x16::broadcast(-F::kBias * x_sum);
}

// Calls each(first_panel, fresh, first_row, end_row) for the thread's units; fresh: the group differs from the last
// one's.
template <class Each>
QUERN_FN void for_each_unit(const TileGrid& grid, const Worker& w, int64_t n_rows, const Each& each) {
  const Range r = share(grid.n_groups * grid.n_splits, w);
  int64_t last = -1;
  for (int64_t unit = r.begin; unit < r.end; ++unit) {
    const int64_t group = unit / grid.n_splits, begin = unit % grid.n_splits * grid.tokens_per_split;
    const int64_t end = begin + grid.tokens_per_split < n_rows ? begin + grid.tokens_per_split : n_rows;
    if (begin < end) {
      each(group * kTilePanels, group != last, begin, end);
      last = group;
    }
  }
}

}  // namespace quern::kernels::QUERN_ISA
