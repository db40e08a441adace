// The walk of a matmul over panels and activation rows, the same for every quantized format. A core (Core32, Core256)
// says how one panel meets rows and how one tile is computed:
//   Format, kAct, kBlock, Unpacked(scratch, n_blocks) with bytes(n_in) and fill(format, panel, n_blocks),
//   direct_panel<T>(format, x rows [T], n_blocks, ahead, sums out [T]),
//   tile<kSpan>(unpacked, x tile, first row in the tile, n_blocks, early, sums out [kTilePanels][kSpan]), which steps
//   `early` kSteps times a block.
// Where rows choose their matrix: expert_drivers.h.
#pragma once

#include "kernels/cpu/activations.h"
#include "kernels/cpu/matmul_common.h"

namespace quern::kernels::QUERN_ISA {

// A matrix of packed panels.
template <class Core>
struct Panels {
  using F = typename Core::Format;
  const std::byte* w;
  size_t panel_size;
  int64_t n, n_blocks;  // panels; blocks of a row
  explicit Panels(const MatmulArgs& a)
      : w(a.w), panel_size(panel_bytes(F::kFormat, a.n_in)), n(panel_count(a.n_out)), n_blocks(a.n_in / Core::kBlock) {}
  QUERN_FN F at(int64_t panel) const { return F(end(panel)); }
  QUERN_FN const std::byte* end(int64_t panel) const { return w + static_cast<size_t>(panel) * panel_size; }
  // Steps of so many tiles.
  QUERN_FN int64_t steps(int64_t n_tiles) const { return n_tiles * (kTileRows / kTileSpan) * n_blocks * Core::kSteps; }
  // n_wanted panels from `panel` on, asked for while n_tiles tiles are computed; none where it is negative.
  QUERN_FN EarlyRead early(int64_t panel, int64_t n_wanted, int64_t n_tiles) const {
    if (panel < 0) return {};
    const int64_t here = n - panel < n_wanted ? n - panel : n_wanted;
    const size_t half = static_cast<size_t>(here) * panel_size / 2;
    return {end(panel), end(panel) + half, half, steps(n_tiles)};
  }
};

// The same panel of a gate and its partner.
template <class Core>
QUERN_FN EarlyRead early_pair(const Panels<Core>& gate, const Panels<Core>& up, int64_t panel, int64_t n_tiles) {
  if (panel < 0) return {};
  return {gate.end(panel), up.end(panel), gate.panel_size, gate.steps(n_tiles)};
}

template <class Core, int kTokens>
QUERN_FN void direct_rows(const MatmulArgs& a, const Panels<Core>& w, const Rows& rows, int64_t panel,
                          int64_t first_row, const Ahead& ahead) {
  Row x[kTokens];
  f32x16 acc[kTokens];
  for (int t = 0; t < kTokens; ++t) x[t] = rows.row(first_row + t);
  Core::template direct_panel<kTokens>(w.at(panel), x, w.n_blocks, ahead, acc);
  finish_rows<kTokens>(a, panel, first_row, acc, rows.n_planes);
}

// Calls of few rows that take long enough are done in pieces, so that a thread that is held up leaves the rest of its
// share to others.
inline constexpr size_t kPieceBytes = 32768, kLeastShared = 131072;
QUERN_FN int64_t piece_of(size_t unit_bytes) {
  return static_cast<int64_t>((kPieceBytes + unit_bytes - 1) / unit_bytes);
}
// The worker, without Worker::claimed where a thread's share of n units is small.
QUERN_FN Worker shared_from(Worker w, int64_t n, size_t unit_bytes) {
  if (static_cast<size_t>(n / w.n_threads) * unit_bytes < kLeastShared) w.claimed = nullptr;
  return w;
}

// Few rows: each panel's packed bytes are read once, for up to four rows at a time.
template <class Core>
void direct(const MatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const Rows rows(a);
  const Panels<Core> panels(a);
  const int64_t n_rows = row_count(ctx, a.rows) * rows.n_planes;
  for_pieces(
      panels.n, piece_of(panels.panel_size),
      shared_from(w, panels.n, panels.panel_size), [&](Range r, int64_t end) __attribute__((always_inline)) {
        const Ahead ahead(a.next, panels.end(end), w);
        for (int64_t p = r.begin; p < r.end; ++p) {
          int64_t row = 0;
          if constexpr (kWide) {
            for (; row + 4 <= n_rows; row += 4) direct_rows<Core, 4>(a, panels, rows, p, row, ahead);
          }
          for (; row + 2 <= n_rows; row += 2) direct_rows<Core, 2>(a, panels, rows, p, row, ahead);
          if (row < n_rows) direct_rows<Core, 1>(a, panels, rows, p, row, ahead);
        }
      });
}

// Many rows: a group of panels is unpacked once into scratch and meets all row tiles of a split.
template <class Core>
void tiled(const MatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const int64_t n_rows = int64_t{row_count(ctx, a.rows)} * format::plane_count(a.act);
  const int n_planes = format::plane_count(a.act);
  const XTiles x(a);
  const Panels<Core> panels(a);
  const int64_t n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  const TileGrid grid(panels.n, kTilePanels, n_tiles, w.n_threads);
  const typename Core::Unpacked u(w.scratch, panels.n_blocks);
  for_each_unit(
      grid, w, n_tiles, [&](const Unit& unit) __attribute__((always_inline)) {
        const int64_t first_panel = unit.panel;
        EarlyRead early = panels.early(unit.next_panel, kTilePanels, unit.end - unit.begin);
        const int here = panels.n - first_panel < kTilePanels ? static_cast<int>(panels.n - first_panel) : kTilePanels;
        for (int p = 0; unit.fresh && p < kTilePanels; ++p) {
          // A missing last panel repeats the first; unused.
          u.fill(panels.at(first_panel + (p < here ? p : 0)), p, panels.n_blocks);
        }
        for (int64_t tile = unit.begin; tile < unit.end; ++tile) {
          const XTile xt = x.tile(tile);
          prefetch_residual(a, first_panel, tile * kTileRows, n_rows, n_planes);
          for (int t = 0; t < kTileRows; t += kTileSpan) {
            f32x16 acc[kTilePanels][kTileSpan];
            Core::template tile<kTileSpan>(u, xt, t, panels.n_blocks, early, acc);
#pragma GCC unroll unroll(2)
            for (int p = 0; p < kTilePanels; ++p) {
              if (p < here) finish_tile<kTileSpan>(a, first_panel + p, tile * kTileRows + t, n_rows, acc[p], n_planes);
            }
          }
        }
      });
}

// A panel of a gate and the same of its partner, unpacked: side by side where a tile takes two, else in two areas.
template <class Core>
struct UnpackedPair {
  using Unpacked = typename Core::Unpacked;
  static constexpr int kAreas = 2 / kTilePanels;
  int64_t n_blocks;
  Unpacked area[2];
  static size_t bytes(int64_t n_in) { return kAreas * Unpacked::bytes(n_in); }
  UnpackedPair(std::byte* scratch, int64_t n_in)
      : n_blocks(n_in / Core::kBlock),
        area{Unpacked(scratch, n_blocks), Unpacked(scratch + (kAreas - 1) * Unpacked::bytes(n_in), n_blocks)} {}
  QUERN_FN void fill(const typename Core::Format& gate, const typename Core::Format& up) const {
    area[0].fill(gate, 0, n_blocks);
    area[1].fill(up, kTilePanels - 1, n_blocks);
  }
  // sums: of the gate, then of its partner
  template <int kSpan>
  QUERN_FN void tile(const XTile& x, int first, EarlyRead& early, f32x16 (&sums)[2][kSpan]) const {
    if constexpr (kTilePanels == 2) {
      Core::template tile<kSpan>(area[0], x, first, n_blocks, early, sums);
    } else {
      for (int i = 0; i < 2; ++i) {
        f32x16 one[1][kSpan];
        Core::template tile<kSpan>(area[i], x, first, n_blocks, early, one);
        for (int t = 0; t < kSpan; ++t) sums[i][t] = one[0][t];
      }
    }
  }
};

// y = act(gate + bias) * (up + bias) for kTileSpan sums of a panel; rows from end_row on are padding.
__attribute__((noinline)) inline void finish_gated(const GatedMatmulArgs& a, int64_t panel, int64_t first_row,
                                                   int64_t end_row, const f32x16 (&sums)[2][kTileSpan]) {
  const MatmulArgs& m = a.gate;
  const int64_t first = panel * kPanelRows;
  const int lanes = panel_lanes(m.n_out, panel);
  const f32x16 gate_bias = m.bias == nullptr ? f32x16::zero() : load_n(m.bias + first, lanes),
               up_bias = a.up_bias == nullptr ? f32x16::zero() : load_n(a.up_bias + first, lanes);
  const int64_t n = end_row - first_row < kTileSpan ? end_row - first_row : kTileSpan;
  with_fn(
      a.fn, [&](auto fn) __attribute__((always_inline)) {
        for (int64_t t = 0; t < n; ++t) {
          f32x16 gate = sums[0][t], up = sums[1][t];
          if (m.bias != nullptr) gate = gate + gate_bias;
          if (a.up_bias != nullptr) up = up + up_bias;
          store_n(gated<decltype(fn)::kValue>(gate, up), m.y + (first_row + t) * m.y_stride + first, lanes);
        }
      });
}

template <class Core>
void gated_tiled(const GatedMatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const MatmulArgs& m = a.gate;
  const int64_t n_rows = row_count(ctx, m.rows), n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  const XTiles x(m);
  const Panels<Core> gate(m);
  Panels<Core> up = gate;
  up.w = a.up;
  const UnpackedPair<Core> u(w.scratch, m.n_in);
  const TileGrid grid(gate.n, 1, n_tiles, w.n_threads);
  for_each_unit(
      grid, w, n_tiles, [&](const Unit& unit) __attribute__((always_inline)) {
        const int64_t panel = unit.panel;
        EarlyRead early = early_pair(gate, up, unit.next_panel, unit.end - unit.begin);
        if (unit.fresh) u.fill(gate.at(panel), up.at(panel));
        for (int64_t tile = unit.begin; tile < unit.end; ++tile) {
          for (int t = 0; t < kTileRows; t += kTileSpan) {
            f32x16 sums[2][kTileSpan];
            u.template tile<kTileSpan>(x.tile(tile), t, early, sums);
            finish_gated(a, panel, tile * kTileRows + t, n_rows, sums);
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

template <class Core>
size_t gated_scratch(const Shape& shape) {
  return UnpackedPair<Core>::bytes(shape.n_in);
}

template <class Core>
constexpr Kernel gated_row(const char* name) {
  return {{Op::gated_matmul, Core::Format::kFormat, act_of<Core>(1, true), Layout::x16, class_bit(RowClass::prefill)},
          own_isa(),
          own_priority(),
          name,
          &Erased<&gated_tiled<Core>>::call,
          nullptr,
          &gated_scratch<Core>};
}

}  // namespace quern::kernels::QUERN_ISA
