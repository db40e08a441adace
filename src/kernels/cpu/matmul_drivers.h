// The walk of a matmul over panels and activation rows, the same for every quantized format. A core (Core32, Core256)
// says how one panel meets rows and how one tile is computed:
//   Format, kAct, kBlock, Unpacked(scratch, n_blocks) with bytes(n_in) and fill(format, panel, n_blocks),
//   direct_panel<T>(args, format, rows, panel, first_row, n_blocks, ahead),
//   tile<kSpan>(unpacked, x tile, first row in the tile, n_blocks, sums out [kTilePanels][kSpan]).
#pragma once

#include "kernels/cpu/matmul_common.h"

namespace quern::kernels::QUERN_ISA {

// Few rows: each panel's packed bytes are read once, for up to kDirectTokens rows at a time.
template <class Core>
void direct(const MatmulArgs& a, const RunContext& ctx, const Worker& w) {
  using F = typename Core::Format;
  const Rows rows(a);
  const PlaneOffsets<F> offsets(a.n_in);
  const size_t panel_size = panel_bytes(F::kFormat, a.n_in);
  const int64_t n_blocks = a.n_in / Core::kBlock, n_rows = row_count(ctx, a.rows) * rows.n_planes;
  const Range r = share(panel_count(a.n_out), w);
  const Ahead ahead(a, a.w + static_cast<size_t>(r.end) * panel_size, w);
  for (int64_t p = r.begin; p < r.end; ++p) {
    const F f(a.w + static_cast<size_t>(p) * panel_size, offsets.at);
    int64_t row = 0;
    if constexpr (kWide) {
      for (; row + 4 <= n_rows; row += 4) Core::template direct_panel<4>(a, f, rows, p, row, n_blocks, ahead);
    }
    for (; row + 2 <= n_rows; row += 2) Core::template direct_panel<2>(a, f, rows, p, row, n_blocks, ahead);
    if (row < n_rows) Core::template direct_panel<1>(a, f, rows, p, row, n_blocks, ahead);
  }
}

// Many rows: a group of panels is unpacked once into scratch and meets all row tiles of a split.
template <class Core>
void tiled(const MatmulArgs& a, const RunContext& ctx, const Worker& w) {
  using F = typename Core::Format;
  const int64_t n_rows = int64_t{row_count(ctx, a.rows)} * format::plane_count(a.act);
  const int n_planes = format::plane_count(a.act);
  const XTiles x(a);
  const PlaneOffsets<F> offsets(a.n_in);
  const size_t panel_size = panel_bytes(F::kFormat, a.n_in);
  const int64_t n_blocks = a.n_in / Core::kBlock, n_panels = panel_count(a.n_out),
                n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  const TileGrid grid(n_panels, n_tiles, w.n_threads);
  const typename Core::Unpacked u(w.scratch, n_blocks);
  for_each_unit(
      grid, w,
      n_tiles, [&](int64_t first_panel, bool fresh, int64_t begin, int64_t end) __attribute__((always_inline)) {
        const int here = n_panels - first_panel < kTilePanels ? static_cast<int>(n_panels - first_panel) : kTilePanels;
        for (int p = 0; fresh && p < kTilePanels; ++p) {
          const int64_t panel = first_panel + (p < here ? p : 0);  // a missing last panel repeats the first; unused
          u.fill(F(a.w + static_cast<size_t>(panel) * panel_size, offsets.at), p, n_blocks);
        }
        for (int64_t tile = begin; tile < end; ++tile) {
          const XTile xt = x.tile(tile);
          prefetch_residual(a, first_panel, tile * kTileRows, n_rows, n_planes);
          for (int t = 0; t < kTileRows; t += kTileSpan) {
            f32x16 acc[kTilePanels][kTileSpan];
            Core::template tile<kTileSpan>(u, xt, t, n_blocks, acc);
#pragma GCC unroll unroll(2)
            for (int p = 0; p < kTilePanels; ++p) {
              if (p < here) finish_tile<kTileSpan>(a, first_panel + p, tile * kTileRows + t, n_rows, acc[p], n_planes);
            }
          }
        }
      });
}

template <class Core>
size_t tiled_scratch(const Shape& shape) {
  return Core::Unpacked::bytes(shape.n_in);
}

// The same function serves one and two planes: a plane is a row to it.
template <class Core>
constexpr ActivationFormat act_of(int n_planes, bool tiles) {
  using A = ActivationFormat;
  constexpr bool k32 = Core::kAct == A::q8_32;
  if (tiles) return n_planes == 1 ? (k32 ? A::q8_32t : A::q8_256t) : k32 ? A::q8_32x2t : A::q8_256x2t;
  return n_planes == 1 ? Core::kAct : k32 ? A::q8_32x2 : A::q8_256x2;
}

template <class Core>
constexpr Kernel direct_row(const char* name, int n_planes = 1) {
  constexpr uint8_t kClasses = class_bit(RowClass::decode) | class_bit(RowClass::few);
  return {{Op::matmul, Core::Format::kFormat, act_of<Core>(n_planes, false), Layout::x16, kClasses},
          own_isa(),
          own_priority(),
          name,
          &Erased<&direct<Core>>::call};
}

template <class Core>
constexpr Kernel tiled_row(const char* name, int n_planes = 1) {
  return {{Op::matmul, Core::Format::kFormat, act_of<Core>(n_planes, true), Layout::x16, class_bit(RowClass::prefill)},
          own_isa(),
          own_priority(),
          name,
          &Erased<&tiled<Core>>::call,
          nullptr,
          &tiled_scratch<Core>};
}

}  // namespace quern::kernels::QUERN_ISA
