// ref: mixture of experts: routing, rows in order of experts, and matmuls whose rows choose their matrix.
// docs/NUMERICS.md says in what order weights and products meet.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/file_io.h"
#include "kernels/ref/elementary.h"
#include "kernels/ref/matmul.h"
#include "kernels/ref/ref.h"

namespace quern::kernels::ref {
namespace {

size_t at(int64_t row, int64_t n) {
  return static_cast<size_t>(row) * static_cast<size_t>(n);
}

// Softmax over n values as attention does it: exponents of differences to the largest, the canonical sum.
void softmax(const float* x, int n, float* out) {
  float largest = x[0];
  for (int i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  float partial[16] = {};
  for (int i = 0; i < n; ++i) {
    out[i] = exp_f32(x[i] - largest);
    partial[i % 16] += out[i];
  }
  const float sum = fold_partials(partial);
  for (int i = 0; i < n; ++i) out[i] /= sum;
}

// The n_used best of those that may be chosen; scores that are no numbers lose.
void choose(const float* score, const std::vector<bool>& may, int n, int n_used, int32_t* out) {
  std::vector<bool> taken(static_cast<size_t>(n));
  for (int j = 0; j < n_used; ++j) {
    int best = -1;
    for (int e = 0; e < n; ++e) {
      if (taken[static_cast<size_t>(e)] || !may[static_cast<size_t>(e)]) continue;
      if (best < 0 || score[e] > score[best] || (std::isnan(score[best]) && !std::isnan(score[e]))) best = e;
    }
    taken[static_cast<size_t>(best)] = true;
    out[j] = best;
  }
}

// Experts of the best groups. Groups have the same size.
std::vector<bool> eligible(const RouteArgs& a, const float* score) {
  std::vector<bool> may(static_cast<size_t>(a.n_experts), a.n_groups <= 1);
  if (a.n_groups <= 1) return may;
  const int size = a.n_experts / a.n_groups;
  std::vector<float> worth(static_cast<size_t>(a.n_groups));
  for (int g = 0; g < a.n_groups; ++g) {
    int32_t best[2] = {0, 0};
    const int n = std::min(2, size);
    choose(score + g * size, std::vector<bool>(static_cast<size_t>(size), true), size, n, best);
    worth[static_cast<size_t>(g)] = score[g * size + best[0]] + (n == 2 ? score[g * size + best[1]] : 0.0F);
  }
  std::vector<int32_t> groups(static_cast<size_t>(a.n_groups_used));
  choose(worth.data(), std::vector<bool>(static_cast<size_t>(a.n_groups), true), a.n_groups, a.n_groups_used,
         groups.data());
  for (const int32_t g : groups) {
    for (int e = g * size; e < (g + 1) * size; ++e) may[static_cast<size_t>(e)] = true;
  }
  return may;
}

void route_row(const RouteArgs& a, const float* logits, ExpertChoice* out) {
  const auto n = static_cast<size_t>(a.n_experts), n_used = static_cast<size_t>(a.n_used);
  std::vector<float> value(logits, logits + n), score(n), weight(n_used);
  if (a.gating == Gating::softmax) softmax(logits, a.n_experts, value.data());
  if (a.gating == Gating::sigmoid) std::transform(logits, logits + n, value.begin(), sigmoid);
  for (size_t e = 0; e < n; ++e) score[e] = a.bias != nullptr ? value[e] + a.bias[e] : value[e];
  std::vector<int32_t> chosen(n_used);
  choose(score.data(), eligible(a, score.data()), a.n_experts, a.n_used, chosen.data());
  for (size_t j = 0; j < n_used; ++j) weight[j] = value[static_cast<size_t>(chosen[j])];
  if (a.gating == Gating::softmax_chosen) {
    const std::vector<float> chosen_logits = weight;
    softmax(chosen_logits.data(), a.n_used, weight.data());
  }
  if (a.renormalize) {
    float partial[16] = {};
    for (size_t j = 0; j < n_used; ++j) partial[j % 16] += weight[j];
    const float sum = std::max(fold_partials(partial), kLeastWeightSum);
    for (float& v : weight) v /= sum;
  }
  for (size_t j = 0; j < n_used; ++j) out[j] = {chosen[j], weight[j] * a.scale};
}

// Calls each(x row, y row, choice) for the routed rows.
template <class Each>
void for_routed(const Routed& r, int64_t n_rows, const Each& each) {
  const int64_t n = n_rows * r.n_used;
  const Buckets buckets(r.buckets, r.n_experts, n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = r.buckets != nullptr ? buckets.place_of[i] : i;
    each(r.x_by_token ? i / r.n_used : place, place, r.choices[i]);
  }
}

// w_e x + bias_e of output o, whose rows are `row_bytes` apart.
float routed_dot(const MatmulArgs& m, const Routed& r, const XRows& rows, const std::byte* w, const float* bias,
                 const std::byte* x, const ExpertChoice& choice, int64_t o) {
  const auto e = static_cast<size_t>(choice.expert);
  const size_t row_bytes = format::row_bytes(m.format, static_cast<size_t>(m.n_in));
  float value = rows.dot(w + e * r.expert_bytes + static_cast<size_t>(o) * row_bytes, x);
  if (r.weigh) value *= choice.weight;
  return with_bias(value, bias, bias == nullptr ? 0 : choice.expert * m.n_out + o);
}

}  // namespace

void route(const RouteArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    route_row(a, a.logits + at(row, a.n_experts), a.out + at(row, a.n_used));
  }
}

void read_ahead(const ReadAheadArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(int64_t{ctx.n_rows} * a.n_used, w);
  for (int64_t i = r.begin; i < r.end; ++i) {
    quern::read_ahead({a.stack + static_cast<size_t>(a.choices[i].expert) * a.expert_bytes, a.expert_bytes});
  }
}

void bucket(const BucketArgs& a, const RunContext& ctx, const Worker& w) {
  if (w.thread != 0) return;
  const int64_t n = int64_t{ctx.n_rows} * a.n_used;
  const BucketsOf<int32_t> b(a.out, a.n_experts, n);
  std::fill(b.count, b.count + a.n_experts, 0);
  for (int64_t i = 0; i < n; ++i) ++b.count[a.choices[i].expert];
  b.first_tile[0] = 0;
  for (int e = 0; e < a.n_experts; ++e) {
    b.first_tile[e + 1] = b.first_tile[e] + (b.count[e] + format::kTileRows - 1) / format::kTileRows;
    b.count[e] = 0;
  }
  std::fill(b.entry_of, b.entry_of + place_count(n, a.n_experts), -1);
  for (int64_t i = 0; i < n; ++i) {
    const int e = a.choices[i].expert;
    const int32_t place = b.first_tile[e] * format::kTileRows + b.count[e]++;
    b.place_of[i] = place;
    b.entry_of[place] = static_cast<int32_t>(i);
  }
}

void gather(const GatherArgs& a, const RunContext& ctx, const Worker& w) {
  const Buckets b(a.buckets, a.n_experts, int64_t{ctx.n_rows} * a.n_used);
  const Range r = share(b.first_tile[a.n_experts], w);
  for (int64_t tile = r.begin; tile < r.end; ++tile) {
    for (int slot = 0; slot < format::kTileRows; ++slot) {
      const int32_t entry = b.entry_of[tile * format::kTileRows + slot];
      if (entry < 0) continue;
      format::put_into_tile(a.format, a.in + static_cast<size_t>(entry / a.n_used) * a.in_stride,
                            static_cast<size_t>(a.n), slot, a.out + static_cast<size_t>(tile) * a.out_stride);
    }
  }
}

void expert_matmul(const ExpertMatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const MatmulArgs& m = a.of;
  const Range r = share(m.n_out, w);
  XRows rows(m);
  for_routed(a.routed, ctx.n_rows, [&](int64_t x_row, int64_t y_row, const ExpertChoice& choice) {
    const std::byte* x = rows.row(x_row);
    for (int64_t o = r.begin; o < r.end; ++o)
      m.y[y_row * m.y_stride + o] = routed_dot(m, a.routed, rows, m.w, m.bias, x, choice, o);
  });
}

void expert_gated(const ExpertGatedArgs& a, const RunContext& ctx, const Worker& w) {
  const MatmulArgs& m = a.of.gate;
  const Range r = share(m.n_out, w);
  XRows rows(m);
  for_routed(a.routed, ctx.n_rows, [&](int64_t x_row, int64_t y_row, const ExpertChoice& choice) {
    const std::byte* x = rows.row(x_row);
    for (int64_t o = r.begin; o < r.end; ++o) {
      m.y[y_row * m.y_stride + o] = gated(a.of.fn, routed_dot(m, a.routed, rows, m.w, m.bias, x, choice, o),
                                          routed_dot(m, a.routed, rows, a.of.up, a.of.up_bias, x, choice, o));
    }
  });
}

void expert_sum(const ExpertSumArgs& a, const RunContext& ctx, const Worker& w) {
  const MatmulArgs& m = a.of;
  const Range r = share(m.n_out, w);
  XRows rows(m);
  std::vector<float> sums(static_cast<size_t>(r.end - r.begin));
  const int n_used = a.routed.n_used;
  for (int64_t row = 0; row < ctx.n_rows; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (int64_t i = row * n_used; i < (row + 1) * n_used; ++i) {
      const ExpertChoice& choice = a.routed.choices[i];
      const float weight = a.weigh ? choice.weight : 1.0F;
      const std::byte* x = rows.row(i);
      for (int64_t o = r.begin; o < r.end; ++o) {
        float& sum = sums[static_cast<size_t>(o - r.begin)];
        sum = std::fmaf(weight, routed_dot(m, a.routed, rows, m.w, m.bias, x, choice, o), sum);
      }
    }
    for (int64_t o = r.begin; o < r.end; ++o) {
      const float sum = sums[static_cast<size_t>(o - r.begin)];
      const int64_t i = row * m.y_stride + o;
      m.y[i] = m.residual != nullptr ? m.residual[i] + sum : sum;
    }
  }
}

void combine(const CombineArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const Buckets b(a.buckets, a.n_experts, int64_t{ctx.n_rows} * a.n_used);
  for (int64_t row = r.begin; row < r.end; ++row) {
    for (int k = 0; k < a.n; ++k) {
      float sum = 0.0F;
      for (int64_t i = row * a.n_used; i < (row + 1) * a.n_used; ++i) {
        const int64_t place = a.buckets != nullptr ? b.place_of[i] : i;
        sum = std::fmaf(a.weigh ? a.choices[i].weight : 1.0F, a.in[at(place, a.n) + static_cast<size_t>(k)], sum);
      }
      a.out[at(row, a.n) + static_cast<size_t>(k)] = sum;
    }
  }
}

void row_gate(const RowGateArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    float partial[16] = {};
    for (int i = 0; i < a.n_in; ++i)
      partial[i % 16] = std::fmaf(a.weight[i], a.x[at(row, a.n_in) + static_cast<size_t>(i)], partial[i % 16]);
    const float gate = sigmoid(fold_partials(partial));
    for (size_t i = at(row, a.n); i < at(row + 1, a.n); ++i) a.out[i] = gate * a.y[i];
  }
}

}  // namespace quern::kernels::ref
