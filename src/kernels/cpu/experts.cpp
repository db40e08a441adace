// Routing to experts and what frames their matmuls: scores to choices, activation rows to the places of their experts,
// weighted sums back to tokens. Every result has the bits of ref/experts.cpp.
#include "kernels/cpu/tier.h"

namespace quern::kernels::QUERN_ISA {
namespace {

// Experts that a row's scores may be of; more are left to ref.
constexpr int kMostExperts = 1024, kMostUsed = 64;

// x[i] = exp(x[i] - largest) / sum, n <= kMostExperts; lanes past n count as nothing.
QUERN_FN void softmax(float* x, int n) {
  float top = x[0];
  for (int i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
  const f32x16 largest = f32x16::broadcast(top);
  f32x16 sums = f32x16::zero();
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    float part[16] = {};
    exp(load_n(x + i, lanes) - largest).store(part);
    for (int l = lanes; l < 16; ++l) part[l] = 0.0F;
    sums = sums + f32x16::load(part);
    store_n(f32x16::load(part), x + i, lanes);
  }
  const f32x16 sum = f32x16::broadcast(reduce_add(sums));
  by_16(
      n, [&](int64_t i, int lanes)
             __attribute__((always_inline)) { store_n(load_n(x + i, lanes) / sum, x + i, lanes); });
}

// The n_used best of those that may be chosen, larger first, of equal ones the lower number; scores that are no
// numbers lose. may: marks, cleared for the chosen.
QUERN_FN void choose(const float* score, bool* may, int n, int n_used, int32_t* out) {
  for (int j = 0; j < n_used; ++j) {
    int best = -1;
    for (int e = 0; e < n; ++e) {
      if (!may[e]) continue;
      const bool best_is_none = best >= 0 && score[best] != score[best], is_none = score[e] != score[e];
      if (best < 0 || score[e] > score[best] || (best_is_none && !is_none)) best = e;
    }
    may[best] = false;
    out[j] = best;
  }
}

// Marks the experts of the best groups.
void mark_eligible(const RouteArgs& a, const float* score, bool* may) {
  for (int e = 0; e < a.n_experts; ++e) may[e] = a.n_groups <= 1;
  if (a.n_groups <= 1) return;
  const int size = a.n_experts / a.n_groups;
  float worth[kMostExperts] = {};
  bool free[kMostExperts] = {};
  int32_t chosen[kMostExperts] = {};
  for (int g = 0; g < a.n_groups; ++g) {
    for (int e = 0; e < size; ++e) free[e] = true;
    const int n = size < 2 ? size : 2;
    choose(score + g * size, free, size, n, chosen);
    worth[g] = score[g * size + chosen[0]] + (n == 2 ? score[g * size + chosen[1]] : 0.0F);
  }
  for (int g = 0; g < a.n_groups; ++g) free[g] = true;
  choose(worth, free, a.n_groups, a.n_groups_used, chosen);
  for (int i = 0; i < a.n_groups_used; ++i) {
    for (int e = chosen[i] * size; e < (chosen[i] + 1) * size; ++e) may[e] = true;
  }
}

void route_row(const RouteArgs& a, const float* logits, ExpertChoice* out) {
  float value[kMostExperts] = {}, score[kMostExperts] = {}, weight[kMostUsed] = {};
  bool may[kMostExperts] = {};
  int32_t chosen[kMostUsed] = {};
  by_16(
      a.n_experts, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const f32x16 v = load_n(logits + i, lanes);
        store_n(a.gating == Gating::sigmoid ? sigmoid(v) : v, value + i, lanes);
      });
  if (a.gating == Gating::softmax) softmax(value, a.n_experts);
  for (int e = 0; e < a.n_experts; ++e) score[e] = a.bias != nullptr ? value[e] + a.bias[e] : value[e];
  mark_eligible(a, score, may);
  choose(score, may, a.n_experts, a.n_used, chosen);
  for (int j = 0; j < a.n_used; ++j) weight[j] = value[chosen[j]];
  if (a.gating == Gating::softmax_chosen) softmax(weight, a.n_used);
  float divisor = 1.0F;
  if (a.renormalize) {
    f32x16 sums = f32x16::zero();
    by_16(
        a.n_used, [&](int64_t i, int lanes)
                      __attribute__((always_inline)) { sums = sums + load_n(weight + i, lanes); });
    const float sum = reduce_add(sums);
    divisor = sum < kLeastWeightSum ? kLeastWeightSum : sum;
  }
  for (int j = 0; j < a.n_used; ++j) {
    const float w = a.renormalize ? weight[j] / divisor : weight[j];
    out[j] = {chosen[j], w * a.scale};
  }
}

void route(const RouteArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) route_row(a, a.logits + row * a.n_experts, a.out + row * a.n_used);
}

// n_out: experts, n_in: of them chosen.
bool route_fits(const Shape& shape) {
  return shape.n_out <= kMostExperts && shape.n_in <= kMostUsed;
}

// One row's plane into slot `slot` of a tile: parts are runs of 4-byte items, kTileRows apart.
QUERN_FN void spread_items(const std::byte* in, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) __builtin_memcpy(out + i * 4 * format::kTileRows, in + i * 4, 4);
}

void gather_row(const GatherArgs& a, const format::ActivationLayout& row, const format::ActivationTile& tile,
                const std::byte* in, std::byte* out) {
  const u8x64 offset = u8x64::broadcast(0x80);
  alignas(64) std::byte items[64];
  int64_t i = 0;
  for (; i + 64 <= a.n; i += 64) {
    (u8x64::load(reinterpret_cast<const u8*>(in) + i) ^ offset).store(reinterpret_cast<u8*>(items));
    spread_items(items, 16, out + i * format::kTileRows);
  }
  for (; i < a.n; i += 4) {
    u32 item;
    __builtin_memcpy(&item, in + i, 4);
    item ^= 0x80808080U;
    __builtin_memcpy(out + i * format::kTileRows, &item, 4);
  }
  const auto n_d = static_cast<int64_t>(static_cast<size_t>(a.n) / row.block);
  const std::byte* d = in + row.d_offset;
  spread_items(d, n_d, out + tile.d_offset);
  const std::byte* sums = in + row.sums_offset;
  if (row.block == 32) {
    for (int64_t b = 0; b < n_d; ++b) {
      float scale;
      i32 sum;
      __builtin_memcpy(&scale, d + b * 4, 4);
      __builtin_memcpy(&sum, sums + b * 4, 4);
      const float item = scale * static_cast<float>(sum);
      __builtin_memcpy(out + tile.sums_offset + b * 4 * format::kTileRows, &item, 4);
    }
    return;
  }
  for (int64_t b = 0; b < a.n / 64; ++b) {
    i32 of_16[4];
    __builtin_memcpy(of_16, sums + b * 16, 16);
    const i16 by_32[2] = {static_cast<i16>(of_16[0] + of_16[1]), static_cast<i16>(of_16[2] + of_16[3])};
    const i16 by_16[4] = {static_cast<i16>(of_16[0]), static_cast<i16>(of_16[1]), static_cast<i16>(of_16[2]),
                          static_cast<i16>(of_16[3])};
    __builtin_memcpy(out + tile.sums_offset + b * 4 * format::kTileRows, by_32, 4);
    __builtin_memcpy(out + tile.sums16_offset + (2 * b) * 4 * format::kTileRows, by_16, 4);
    __builtin_memcpy(out + tile.sums16_offset + (2 * b + 1) * 4 * format::kTileRows, by_16 + 2, 4);
  }
}

void gather(const GatherArgs& a, const RunContext& ctx, const Worker& w) {
  const Buckets b(a.buckets, a.n_experts, int64_t{ctx.n_rows} * a.n_used);
  const auto n = static_cast<size_t>(a.n);
  const format::ActivationLayout row = format::activation_layout(format::in_rows(a.format), n);
  const format::ActivationTile tile = format::activation_tile(a.format, n);
  for_units(b.first_tile[a.n_experts], w, [&](int64_t t) {
    for (int64_t slot = 0; slot < format::kTileRows; ++slot) {
      const int32_t entry = b.entry_of[t * format::kTileRows + slot];
      if (entry < 0) continue;
      gather_row(a, row, tile, a.in + static_cast<size_t>(entry / a.n_used) * a.in_stride,
                 a.out + static_cast<size_t>(t) * a.out_stride + static_cast<size_t>(slot) * 4);
    }
  });
}

void combine(const CombineArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const Buckets b(a.buckets, a.n_experts, int64_t{ctx.n_rows} * a.n_used);
  for (int64_t row = r.begin; row < r.end; ++row) {
    by_16(
        a.n, [&](int64_t k, int lanes) __attribute__((always_inline)) {
          f32x16 sum = f32x16::zero();
          for (int64_t i = row * a.n_used; i < (row + 1) * a.n_used; ++i) {
            const int64_t place = a.buckets != nullptr ? b.place_of[i] : i;
            sum = fma(f32x16::broadcast(a.weigh ? a.choices[i].weight : 1.0F), load_n(a.in + place * a.n + k, lanes),
                      sum);
          }
          store_n(sum, a.out + row * a.n + k, lanes);
        });
  }
}

void row_gate(const RowGateArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    f32x16 dots = f32x16::zero();
    by_16(
        a.n_in, [&](int64_t i, int lanes) __attribute__((always_inline)) {
          dots = fma(load_n(a.weight + i, lanes), load_n(a.x + row * a.n_in + i, lanes), dots);
        });
    const f32x16 gate = sigmoid(f32x16::broadcast(reduce_add(dots)));
    by_16(
        a.n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
          store_n(gate * load_n(a.y + row * a.n + i, lanes), a.out + row * a.n + i, lanes);
        });
  }
}

constexpr Kernel row(Op op, const char* name, KernelFn fn, bool (*fits)(const Shape&) = nullptr) {
  return {{op}, own_isa(), own_priority(), name, fn, fits};
}

constexpr Kernel gather_to(ActivationFormat act, const char* name) {
  return {{Op::gather, format::Format::f32, act}, own_isa(), own_priority(), name, &Erased<&gather>::call};
}

constexpr Kernel kRows[] = {
    row(Op::route, QUERN_NAME("route"), &Erased<&route>::call, &route_fits),
    row(Op::combine, QUERN_NAME("combine"), &Erased<&combine>::call),
    row(Op::row_gate, QUERN_NAME("row_gate"), &Erased<&row_gate>::call),
    gather_to(ActivationFormat::q8_32t, QUERN_NAME("gather_q8_32t")),
    gather_to(ActivationFormat::q8_256t, QUERN_NAME("gather_q8_256t")),
};

}  // namespace

const KernelList kExperts = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
