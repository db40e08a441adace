// What all matmul kernels share: panels of 16 rows in x16 layout, the epilogue, and the walk over token tiles.
#pragma once

#include "format/activation.h"
#include "format/blocks.h"
#include "kernels/cpu/tier.h"
#include "kernels/layout.h"

namespace quern::kernels::QUERN_ISA {

// Rows of the matrix in a panel: 16 but in the last one.
QUERN_FN int panel_lanes(int64_t n_out, int64_t panel) {
  const int64_t left = n_out - panel * kPanelRows;
  return left < kPanelRows ? static_cast<int>(left) : static_cast<int>(kPanelRows);
}

// y[row][16 panel ..] = residual + (value + bias); lanes past the matrix are not written.
QUERN_FN void finish(const MatmulArgs& a, int64_t panel, int64_t row, f32x16 value) {
  const int64_t first = panel * kPanelRows;
  const int lanes = panel_lanes(a.n_out, panel);
  if (a.bias != nullptr) value = value + load_n(a.bias + first, lanes);
  if (a.residual != nullptr) value = load_n(a.residual + row * a.y_stride + first, lanes) + value;
  store_n(value, a.y + row * a.y_stride + first, lanes);
}

// The matrix of expert e in a stack.
QUERN_FN const std::byte* stack_at(const std::byte* stack, int32_t e, size_t expert_bytes) {
  return stack + static_cast<size_t>(e) * expert_bytes;
}

// The matmul of expert e alone.
QUERN_FN MatmulArgs of_expert(MatmulArgs a, const Routed& r, int32_t e) {
  a.w = stack_at(a.w, e, r.expert_bytes);
  if (a.bias != nullptr) a.bias += e * a.n_out;
  return a;
}

// Finishes a value of row y_row; the choice's weight first where that is asked for.
QUERN_FN void finish_routed(const MatmulArgs& a, const Routed& r, int64_t panel, int64_t y_row, float weight,
                            f32x16 value) {
  if (r.weigh) value = value * f32x16::broadcast(weight);
  finish(a, panel, y_row, value);
}

// A thread's walk over its panels asks for what it reaches kAhead bytes later, and near the end for the beginning of
// what it reads next. The hardware's prefetcher follows a panel by itself, but not far enough where a block's unpacking
// takes long.
inline constexpr int kAhead = 8192;
struct Ahead {
  const std::byte* end;  // of the thread's panels
  ptrdiff_t jump;        // from there to the next read
  Ahead(const std::byte* next, const std::byte* share_end) : end(share_end), jump(next - share_end) {}
  Ahead(const NextRead& next, const std::byte* share_end, const Worker& w) : end(share_end), jump(0) {
    if (next.data == nullptr) return;
    const auto first = static_cast<size_t>(share(next.n_units, w).begin);
    jump = next.data + first * next.unit_bytes - share_end;
  }
  // Part i of kParts of a block's part: a burst of many requests would fill the core's miss queue.
  template <class F, int kParts = 1>
  QUERN_FN void ask(const std::byte* panel, int64_t block, int i = 0) const {
    constexpr int kBytes = 16 * sizeof(typename F::Block), kPart = kBytes / kParts;
    static_assert(kBytes % kParts == 0);
    const std::byte* p = panel + block * kBytes + i * kPart + kAhead;
    p += p < end ? 0 : jump;
    asm("" : "+r"(p));  // one address: compilers would choose between two for each line
#pragma GCC unroll unroll(16)
    for (int at = 0; at < kPart; at += 64) prefetch(p + at);
    if constexpr (kParts > 1 && kWide) asm volatile("" ::: "memory");  // compilers would move all parts to the front
  }
};

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

// Finishes kSpan sums of a panel in a tile; sums from n_rows on are padding. first_row counts planes as rows.
template <int kSpan>
QUERN_FN void finish_tile(const MatmulArgs& a, int64_t panel, int64_t first_row, int64_t n_rows, const f32x16* acc,
                          int n_planes) {
  const int64_t left = n_rows - first_row, first = panel * kPanelRows;
  if (n_planes == 1 && left >= kSpan && a.n_out - first >= kPanelRows && a.bias == nullptr) {
    float* y = a.y + first_row * a.y_stride + first;
    const float* residual = a.residual == nullptr ? nullptr : a.residual + (y - a.y);
#pragma GCC unroll unroll(6)
    for (int t = 0; t < kSpan; ++t) {
      const f32x16 v = residual == nullptr ? acc[t] : f32x16::load(residual + t * a.y_stride) + acc[t];
      v.store(y + t * a.y_stride);
    }
    return;
  }
  f32x16 sums[kSpan];  // a copy: an array that a running index reads would not stay in registers
#pragma GCC unroll unroll(6)
  for (int t = 0; t < kSpan; ++t) sums[t] = acc[t];
  for (int t = 0; t < kSpan && t < left; t += n_planes) {
    finish(a, panel, (first_row + t) / n_planes, n_planes == 2 ? sums[t] + sums[t + 1] : sums[t]);
  }
}

// A prefill tile is kTilePanels panels by a tile of six activation rows (format/activation.h), kTileSpan of them at a
// time. 2 panels x 6 rows keep 12 integer and 12 float sums in 32 registers; with 16 registers of half the width,
// 1 panel x 2 rows.
inline constexpr int kTilePanels = kWide ? 2 : 1;
inline constexpr int kTileRows = format::kTileRows, kTileSpan = kWide ? 6 : 2;

// Asks early for the lines of the residual that a tile of kTileRows rows ends with.
QUERN_FN void prefetch_residual(const MatmulArgs& a, int64_t first_panel, int64_t first_row, int64_t n_rows,
                                int n_planes) {
  if (a.residual == nullptr) return;
  for (int64_t row = first_row / n_planes; row * n_planes < first_row + kTileRows && row * n_planes < n_rows; ++row) {
    const int64_t at = row * a.y_stride + first_panel * kPanelRows;
    for (int p = 0; p < kTilePanels; ++p) prefetch(a.residual + at + 16 * p);
  }
}

// Work of a prefill matmul: groups of panels, times splits of the row tiles when there are too few groups.
struct TileGrid {
  int64_t group_panels, n_groups, n_splits, tiles_per_split;
  TileGrid(int64_t n_panels, int64_t panels_of_group, int64_t n_tiles, int n_threads) : group_panels(panels_of_group) {
    n_groups = (n_panels + group_panels - 1) / group_panels;
    const int64_t wanted = n_groups >= 4 * n_threads ? 1 : (4 * n_threads + n_groups - 1) / n_groups;
    const int64_t most = n_tiles / 8 > 1 ? n_tiles / 8 : 1;  // unpacking a panel must pay
    n_splits = wanted < most ? wanted : most;
    tiles_per_split = (n_tiles + n_splits - 1) / n_splits;
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

// A tile of six activation rows; `sums` and `sums16` are what activation.h says for the format.
struct XTile {
  const u8* codes;
  const float* d;
  const std::byte* sums;
  const std::byte* sums16;
  // The codes of row t at k = 4 i, in all lanes: code + 128, or the code where the tier's dot has no use for the
  // offset.
  template <class X>
  QUERN_FN lat<X, 64> code(int64_t i, int t) const {
    const u8x64 v = u8x64::broadcast4(codes + (i * kTileRows + t) * 4);
    return as<X>(kIsSame<X, u8> ? v : v ^ u8x64::broadcast(0x80));
  }
};

struct XTiles {
  const std::byte* x;
  size_t stride;
  format::ActivationTile layout;
  explicit XTiles(const MatmulArgs& a)
      : x(a.x), stride(a.x_stride), layout(format::activation_tile(a.act, static_cast<size_t>(a.n_in))) {}
  QUERN_FN XTile tile(int64_t i) const {
    const std::byte* p = x + static_cast<size_t>(i) * stride;
    return {reinterpret_cast<const u8*>(p), reinterpret_cast<const float*>(p + layout.d_offset), p + layout.sums_offset,
            p + layout.sums16_offset};
  }
};

// How a tile multiplies: weight codes without bias as i8, activations as u8 (code + 128) where the dot instruction
// wants that and it stays exact; then the sum starts from -128 times the sum of the weights.
template <class F>
struct TileDot {
  static constexpr bool kNarrow = F::kSmall && kIsSame<typename F::Code, u8>;  // codes without bias within 64 of 0
  static constexpr bool kOffset = kWide || (kRegBytes == 32 && kNarrow);
  using X = choose<kOffset, u8, i8>;
  static QUERN_FN i32x16 dot(const i32x16& acc, const i8x64& w, const lat<X, 64>& x) {
    if constexpr (kWide) {
      return idot4(acc, x, w);
    } else if constexpr (kOffset) {
      return idot4_narrow(acc, x, w);
    } else {
      return idot4_small(acc, w, x);
    }
  }
  // A vector of `F::codes`, without bias.
  static QUERN_FN i8x64 weight(const lat<typename F::Code, 64>& code) {
    return as<i8>(as<u8>(code) - u8x64::broadcast(static_cast<u8>(F::kBias)));
  }
  // What the dot of kN such vectors starts from.
  template <int kN>
  static QUERN_FN i32x16 start(const i8x64* w) {
    i32x16 sum = i32x16::zero();
    const u8x64 ones = u8x64::broadcast(1);
#pragma GCC unroll kDeep
    for (int i = 0; i < kN; ++i) sum = idot4_small(sum, ones, w[i]);
    return kOffset ? i32x16::zero() - (sum << 7) : i32x16::zero();
  }
};

// A thread's unit: row tiles [begin, end) of a group of panels that begins with `panel`. fresh: the group differs from
// the last unit's. next_panel: where the next unit's group begins, if that is another one; else -1.
struct Unit {
  int64_t panel, begin, end, next_panel;
  bool fresh;
};

template <class Each>
QUERN_FN void for_each_unit(const TileGrid& grid, const Worker& w, int64_t n_tiles, const Each& each) {
  int64_t last = -1;
  const int64_t n = grid.n_groups * grid.n_splits;
  for_units_ahead(
      n, w, [&](int64_t unit, int64_t next) __attribute__((always_inline)) {
        const int64_t group = unit / grid.n_splits, begin = unit % grid.n_splits * grid.tiles_per_split;
        const int64_t end = begin + grid.tiles_per_split < n_tiles ? begin + grid.tiles_per_split : n_tiles;
        const int64_t next_group = next / grid.n_splits;
        if (begin < end) {
          each(Unit{group * grid.group_panels, begin, end,
                    next < n && next_group != group ? next_group * grid.group_panels : -1, group != last});
          last = group;
        }
      });
}

// Asks bit by bit for two streams that are read next, so that they lie in the second cache by then: unpacking a panel
// would else wait for memory at each line. A burst of requests would fill the core's miss queue, so a tile asks for a
// few lines with each block (or sub-block) that it multiplies.
struct EarlyRead {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  const std::byte* then = nullptr;  // the second stream
  const std::byte* then_end = nullptr;
  int lines = 0;  // at each step
  EarlyRead() = default;
  // n_steps: in which all of it is to be asked for.
  QUERN_FN EarlyRead(const std::byte* first, const std::byte* second, size_t bytes_each, int64_t n_steps)
      : at(first), end(first + bytes_each), then(second), then_end(second + bytes_each) {
    const auto n_lines = static_cast<int64_t>(2 * ((bytes_each + 63) / 64));
    lines = n_steps == 0 ? 0 : static_cast<int>((n_lines + n_steps - 1) / n_steps);
  }
  QUERN_FN void step() {
    for (int i = 0; i < lines; ++i, at += 64) {
      if (at >= end) {
        if (then == nullptr) {
          lines = 0;
          return;
        }
        at = then;
        end = then_end;
        then = nullptr;
      }
      __builtin_prefetch(at, 0, 2);
    }
  }
};

}  // namespace quern::kernels::QUERN_ISA
