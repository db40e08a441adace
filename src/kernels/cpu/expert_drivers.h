// The walk of a matmul whose rows choose their matrix from a stack (kernels/ops.h, Routed), with the cores of
// matmul_drivers.h. Few rows: an expert's panels are read once for up to four of its rows. Many rows: an expert's
// tiles lie side by side (Buckets), its panels are unpacked once for all of them.
#pragma once

#include "kernels/cpu/matmul_drivers.h"

namespace quern::kernels::QUERN_ISA {

// The experts that entries of few rows chose, each once, in the order of their first entries.
class Chosen {
 public:
  int64_t n = 0;
  QUERN_FN Chosen(const Routed& r, int64_t n_entries) : r_(r), n_entries_(n_entries) {
    for (int64_t i = after(-1); i < n_entries; i = after(i)) ++n;
  }
  // The next entry from `entry` that is its expert's first; past the last: how many entries there are.
  QUERN_FN int64_t after(int64_t entry) const {
    for (++entry; entry < n_entries_ && !is_first(entry); ++entry) {
    }
    return entry;
  }
  // The first entry of expert number `at`.
  QUERN_FN int64_t entry(int64_t at) const {
    int64_t i = after(-1);
    for (; at > 0; --at) i = after(i);
    return i;
  }

 private:
  QUERN_FN bool is_first(int64_t i) const {
    for (int64_t j = 0; j < i; ++j) {
      if (r_.choices[j].expert == r_.choices[i].expert) return false;
    }
    return true;
  }
  const Routed& r_;
  int64_t n_entries_;
};

// What the thread reads when its share of a call by this routing ends at share_end: what the plan says, and of which
// expert the routing says.
QUERN_FN Ahead ahead_of_share(const NextRead& next, const Routed& r, const Chosen& chosen, const std::byte* share_end,
                              const Worker& w) {
  if (next.data == nullptr || next.expert_bytes == 0) return {next, share_end, w};
  const int64_t first = share(next.across_experts ? chosen.n * next.n_units : next.n_units, w).begin;
  const int64_t number = first / next.n_units, unit = first % next.n_units;
  const int32_t expert = r.choices[number < chosen.n ? chosen.entry(number) : 0].expert;
  return {stack_at(next.data, expert, next.expert_bytes) + static_cast<size_t>(unit) * next.unit_bytes, share_end};
}

template <class Core, int kTokens>
QUERN_FN void expert_rows(const MatmulArgs& a, const Routed& r, const Panels<Core>& w, const Rows& rows, int64_t panel,
                          const int64_t* entries, const Ahead& ahead) {
  Row x[kTokens];
  f32x16 acc[kTokens];
  for (int t = 0; t < kTokens; ++t) x[t] = rows.row(r.x_by_token ? entries[t] / r.n_used : entries[t]);
  Core::template direct_panel<kTokens>(w.at(panel), x, w.n_blocks, ahead, acc);
  for (int t = 0; t < kTokens; ++t) finish_routed(a, r, panel, entries[t], r.choices[entries[t]].weight, acc[t]);
}

// The entries of the expert of entry i, where i is the first of them; at most kFewRows (a token chooses it once).
struct Same {
  int n = 0;
  int64_t entries[kFewRows];
  QUERN_FN Same(const Routed& r, int64_t i, int64_t n_entries) {
    const int32_t e = r.choices[i].expert;
    for (int64_t j = i; j < n_entries && n < kFewRows; ++j) {
      if (r.choices[j].expert == e) entries[n++] = j;
    }
  }
};

// The units that the team shares are the panels of all chosen experts, one expert after the other: long streams.
template <class Core>
void expert_direct(const ExpertMatmulArgs& a, const RunContext& ctx, const Worker& given) {
  const Rows rows(a.of);
  const Routed& r = a.routed;
  const int64_t n_entries = int64_t{ctx.n_rows} * r.n_used;
  const Chosen chosen(r, n_entries);
  const int64_t n_panels = panel_count(a.of.n_out), n = chosen.n * n_panels;
  const size_t panel_size = Panels<Core>(a.of).panel_size;
  const auto walk = [&](Range piece, int64_t share_end) __attribute__((always_inline)) {
    int64_t entry = chosen.entry(piece.begin / n_panels);
    for (int64_t base = piece.begin / n_panels * n_panels; base < piece.end; base += n_panels) {
      const MatmulArgs one = of_expert(a.of, r, r.choices[entry].expert);
      const Panels<Core> panels(one);
      const Same same(r, entry, n_entries);
      const int64_t next = chosen.after(entry);
      const Ahead ahead = base + n_panels < share_end
                              ? Ahead(stack_at(a.of.w, r.choices[next].expert, r.expert_bytes), panels.end(n_panels))
                              : ahead_of_share(a.of.next, r, chosen, panels.end(share_end - base), given);
      const int64_t begin = piece.begin > base ? piece.begin - base : 0;
      const int64_t end = piece.end - base < n_panels ? piece.end - base : n_panels;
      for (int64_t p = begin; p < end; ++p) {
        int t = 0;
        if constexpr (kWide) {
          for (; t + 4 <= same.n; t += 4) expert_rows<Core, 4>(one, r, panels, rows, p, same.entries + t, ahead);
        }
        for (; t + 2 <= same.n; t += 2) expert_rows<Core, 2>(one, r, panels, rows, p, same.entries + t, ahead);
        if (t < same.n) expert_rows<Core, 1>(one, r, panels, rows, p, same.entries + t, ahead);
      }
      entry = next;
    }
  };
  for_pieces(n, piece_of(panel_size), shared_from(given, n, panel_size), walk);
}

// One token. Sums stay in scratch until the last expert is in, since y may be the residual.
template <class Core>
void expert_sum_direct(const ExpertSumArgs& a, const RunContext& ctx, const Worker& given) {
  if (ctx.n_rows == 0) return;
  const Rows rows(a.of);
  const Routed& r = a.routed;
  auto* sums = reinterpret_cast<float*>(given.scratch);
  MatmulArgs last = a.of;
  last.bias = nullptr;
  const int64_t n = panel_count(a.of.n_out);
  const size_t panel_size = Panels<Core>(a.of).panel_size;
  const auto walk = [&](Range range, int64_t share_end) __attribute__((always_inline)) {
    for (int64_t i = 0; i < r.n_used; ++i) {
      const MatmulArgs one = of_expert(a.of, r, r.choices[i].expert);
      const Panels<Core> panels(one);
      // After a piece of an expert's share the same piece of the next one; after the last expert's the next piece of
      // the first one. The sum is the last call by its routing, so behind it the plan knows the address.
      const bool more = i + 1 < r.n_used, goes_on = more || range.end < share_end;
      const std::byte* end = panels.end(range.end);
      const Ahead ahead = goes_on ? Ahead(stack_at(a.of.w, r.choices[more ? i + 1 : 0].expert, r.expert_bytes) +
                                              static_cast<size_t>(more ? range.begin : range.end) * panel_size,
                                          end)
                                  : Ahead(a.of.next, end, given);
      const float choice = r.choices[i].weight;
      const f32x16 weight = f32x16::broadcast(a.weigh ? choice : 1.0F);
      const Row x[1] = {rows.row(i)};
      for (int64_t p = range.begin; p < range.end; ++p) {
        f32x16 acc[1];
        Core::template direct_panel<1>(panels.at(p), x, panels.n_blocks, ahead, acc);
        f32x16 value = r.weigh ? acc[0] * f32x16::broadcast(choice) : acc[0];
        if (one.bias != nullptr) value = value + load_n(one.bias + p * kPanelRows, panel_lanes(one.n_out, p));
        float* sum = sums + (p - range.begin) * kPanelRows;
        fma(weight, value, i == 0 ? f32x16::zero() : f32x16::load(sum)).store(sum);
      }
    }
    for (int64_t p = range.begin; p < range.end; ++p)
      finish(last, p, 0, f32x16::load(sums + (p - range.begin) * kPanelRows));
  };
  for_pieces(n, piece_of(panel_size), shared_from(given, n, static_cast<size_t>(r.n_used) * panel_size), walk);
}

template <class Core>
size_t sum_scratch(const Shape& shape) {
  return static_cast<size_t>(panel_count(shape.n_out) * kPanelRows) * sizeof(float);
}

// A thread's unit of an expert's matmul, and what it does next; n_experts: nothing.
struct ExpertUnit {
  int expert, next_expert;
  int64_t group, next_group;
};

// Calls each(unit) for groups of every expert that has rows, in order.
template <class Each>
QUERN_FN void for_each_expert_group(const Buckets& b, int n_experts, int64_t n_groups, const Worker& w,
                                    const Each& each) {
  int64_t n_active = 0;
  for (int e = 0; e < n_experts; ++e) n_active += b.count[e] > 0 ? 1 : 0;
  int e = -1, next_e = -1;
  int64_t active = -1, next_active = -1;  // number of e, of next_e among those that have rows
  const auto go = [&](int64_t to, int& expert, int64_t& number) {
    while (number < to) number += b.count[++expert] > 0 ? 1 : 0;
  };
  const int64_t n = n_active * n_groups;
  for_units_ahead(
      n, w, [&](int64_t unit, int64_t next) __attribute__((always_inline)) {
        go(unit / n_groups, e, active);
        if (next < n) go(next / n_groups, next_e, next_active);
        each(ExpertUnit{e, next < n ? next_e : n_experts, unit % n_groups, next % n_groups});
      });
}

// Sums of places from first_row on, times the weights of their choices.
__attribute__((noinline)) inline void weigh_tile(const Routed& r, const Buckets& b, int64_t first_row, int64_t end_row,
                                                 f32x16 (&acc)[kTilePanels][kTileSpan]) {
  for (int t = 0; t < kTileSpan && first_row + t < end_row; ++t) {
    const f32x16 weight = f32x16::broadcast(r.choices[b.entry_of[first_row + t]].weight);
    for (int p = 0; p < kTilePanels; ++p) acc[p][t] = acc[p][t] * weight;
  }
}

template <class Core>
void expert_tiled(const ExpertMatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const Routed& r = a.routed;
  const Buckets b(r.buckets, r.n_experts, int64_t{ctx.n_rows} * r.n_used);
  const XTiles x(a.of);
  const int64_t n_panels = panel_count(a.of.n_out), n_groups = (n_panels + kTilePanels - 1) / kTilePanels;
  for_each_expert_group(
      b, r.n_experts, n_groups, w, [&](const ExpertUnit& unit) __attribute__((always_inline)) {
        const int e = unit.expert;
        const MatmulArgs one = of_expert(a.of, r, e);
        const Panels<Core> panels(one);
        const typename Core::Unpacked u(w.scratch, panels.n_blocks);
        const int64_t first_panel = unit.group * kTilePanels;
        Panels<Core> next = panels;
        next.w = stack_at(a.of.w, unit.next_expert, r.expert_bytes);
        EarlyRead early = next.early(unit.next_expert < r.n_experts ? unit.next_group * kTilePanels : -1, kTilePanels,
                                     b.first_tile[e + 1] - b.first_tile[e]);
        const int here = n_panels - first_panel < kTilePanels ? static_cast<int>(n_panels - first_panel) : kTilePanels;
        for (int p = 0; p < kTilePanels; ++p) u.fill(panels.at(first_panel + (p < here ? p : 0)), p, panels.n_blocks);
        const int64_t end_row = int64_t{b.first_tile[e]} * kTileRows + b.count[e];
        for (int64_t tile = b.first_tile[e]; tile < b.first_tile[e + 1]; ++tile) {
          for (int t = 0; t < kTileRows; t += kTileSpan) {
            f32x16 acc[kTilePanels][kTileSpan];
            Core::template tile<kTileSpan>(u, x.tile(tile), t, panels.n_blocks, early, acc);
            if (r.weigh) weigh_tile(r, b, tile * kTileRows + t, end_row, acc);
#pragma GCC unroll unroll(2)
            for (int p = 0; p < kTilePanels; ++p) {
              if (p < here) finish_tile<kTileSpan>(one, first_panel + p, tile * kTileRows + t, end_row, acc[p], 1);
            }
          }
        }
      });
}

template <class Core>
void expert_gated_tiled(const ExpertGatedArgs& a, const RunContext& ctx, const Worker& w) {
  const Routed& r = a.routed;
  const Buckets b(r.buckets, r.n_experts, int64_t{ctx.n_rows} * r.n_used);
  const XTiles x(a.of.gate);
  const int64_t n_panels = panel_count(a.of.gate.n_out);
  for_each_expert_group(
      b, r.n_experts, n_panels, w, [&](const ExpertUnit& unit) __attribute__((always_inline)) {
        const int e = unit.expert;
        const int64_t panel = unit.group;
        GatedMatmulArgs one = a.of;
        one.gate = of_expert(a.of.gate, r, e);
        if (one.up_bias != nullptr) one.up_bias += e * one.gate.n_out;
        const Panels<Core> gate(one.gate);
        Panels<Core> up = gate;
        up.w = stack_at(a.of.up, e, r.expert_bytes);
        const UnpackedPair<Core> u(w.scratch, one.gate.n_in);
        u.fill(gate.at(panel), up.at(panel));
        Panels<Core> next_gate = gate, next_up = up;
        next_gate.w = stack_at(a.of.gate.w, unit.next_expert, r.expert_bytes);
        next_up.w = stack_at(a.of.up, unit.next_expert, r.expert_bytes);
        EarlyRead early = early_pair(next_gate, next_up, unit.next_expert < r.n_experts ? unit.next_group : -1,
                                     b.first_tile[e + 1] - b.first_tile[e]);
        const int64_t end_row = int64_t{b.first_tile[e]} * kTileRows + b.count[e];
        for (int64_t tile = b.first_tile[e]; tile < b.first_tile[e + 1]; ++tile) {
          for (int t = 0; t < kTileRows; t += kTileSpan) {
            f32x16 sums[2][kTileSpan];
            u.template tile<kTileSpan>(x.tile(tile), t, early, sums);
            finish_gated(one, panel, tile * kTileRows + t, end_row, sums);
          }
        }
      });
}

template <class Core>
constexpr Kernel expert_direct_row(const char* name) {
  constexpr uint8_t kClasses = class_bit(RowClass::decode) | class_bit(RowClass::few);
  return {{Op::expert_matmul, Core::Format::kFormat, Core::kAct, Layout::x16, kClasses},
          own_isa(),
          own_priority(),
          name,
          &Erased<&expert_direct<Core>>::call};
}

template <class Core>
constexpr Kernel expert_sum_row(const char* name) {
  return {{Op::expert_sum, Core::Format::kFormat, Core::kAct, Layout::x16, class_bit(RowClass::decode)},
          own_isa(),
          own_priority(),
          name,
          &Erased<&expert_sum_direct<Core>>::call,
          nullptr,
          &sum_scratch<Core>};
}

template <class Core>
constexpr Kernel expert_tiled_row(const char* name) {
  return {{Op::expert_matmul, Core::Format::kFormat, act_of<Core>(1, true), Layout::x16, class_bit(RowClass::prefill)},
          own_isa(),
          own_priority(),
          name,
          &Erased<&expert_tiled<Core>>::call,
          nullptr,
          &tiled_scratch<Core>};
}

template <class Core>
constexpr Kernel expert_gated_row(const char* name) {
  return {{Op::expert_gated, Core::Format::kFormat, act_of<Core>(1, true), Layout::x16, class_bit(RowClass::prefill)},
          own_isa(),
          own_priority(),
          name,
          &Erased<&expert_gated_tiled<Core>>::call,
          nullptr,
          &gated_scratch<Core>};
}

}  // namespace quern::kernels::QUERN_ISA
