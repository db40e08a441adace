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

inline int64_t panel_count(const MatmulArgs& a) { return (a.n_out + kPanelRows - 1) / kPanelRows; }

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

}  // namespace quern::kernels::QUERN_ISA
