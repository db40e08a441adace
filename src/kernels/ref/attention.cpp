// ref: keys and values into pages, and attention over them, chunk by chunk from position 0 (docs/NUMERICS.md).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "format/half.h"
#include "kernels/ref/elementary.h"
#include "kernels/ref/ref.h"

namespace quern::kernels::ref {
namespace {

constexpr float kMaxHalf = 65504.0F;

uint16_t clamped_half(float x) {
  return format::f32_to_f16(std::clamp(x, -kMaxHalf, kMaxHalf));
}

uint16_t* half_at(std::byte* page, size_t offset) {
  return reinterpret_cast<uint16_t*>(page + offset);
}

// What a query has gathered so far: softmax numerators relative to the running maximum.
struct Running {
  float max = kNoScore;
  float sum = 0;
  std::vector<float> out;  // [head_dim]
};

// A chunk's largest score, sum of numerators and sums of values join what came before.
void merge(float chunk_max, float chunk_sum, const float* values /*[head_dim]*/, Running* state) {
  const float new_max = state->max < chunk_max ? chunk_max : state->max;
  const float keep = exp_f32(state->max - new_max), take = exp_f32(chunk_max - new_max);
  state->sum = std::fmaf(chunk_sum, take, state->sum * keep);
  for (size_t i = 0; i < state->out.size(); ++i) state->out[i] = std::fmaf(values[i], take, state->out[i] * keep);
  state->max = new_max;
}

// Attention of one query to one chunk, merged into `state`.
void attend_chunk(const AttentionArgs& a, const float* q, std::byte* page, int kv_head, int first_visible,
                  int end_visible, Running* state) {
  const int hd = a.place.head_dim;
  const uint16_t* keys = half_at(page, a.place.k_offset + static_cast<size_t>(kv_head) * a.place.head_bytes());
  const uint16_t* values = half_at(page, a.place.v_offset + static_cast<size_t>(kv_head) * a.place.head_bytes());
  float score[kPagePositions];
  float chunk_max = kNoScore;
  for (int j = 0; j < kPagePositions; ++j) {
    float dot = 0;
    for (int i = 0; i < hd; ++i) dot = std::fmaf(q[i], format::f16_to_f32(keys[i * kPagePositions + j]), dot);
    float s = dot * a.scale;
    if (a.softcap > 0) s = a.softcap * tanh_f32(s / a.softcap);
    if (j < first_visible || j >= end_visible) s = -std::numeric_limits<float>::infinity();
    score[j] = s;
    chunk_max = chunk_max < s ? s : chunk_max;
  }
  float partial[16] = {};
  for (int j = 0; j < kPagePositions; ++j) {
    score[j] = exp_f32(score[j] - chunk_max);
    partial[j % 16] = partial[j % 16] + score[j];
  }
  std::vector<float> sums(static_cast<size_t>(hd), 0.0F);
  for (int i = 0; i < hd; ++i) {
    float& sum = sums[static_cast<size_t>(i)];
    for (int j = 0; j < kPagePositions; ++j) sum = std::fmaf(score[j], format::f16_to_f32(values[j * hd + i]), sum);
  }
  merge(chunk_max, fold_partials(partial), sums.data(), state);
}

void finish(const AttentionArgs& a, int head, const Running& state, float* out /*[head_dim]*/) {
  float sum = state.sum, scale = 1.0F;
  if (a.sinks != nullptr) {
    const float new_max = state.max < a.sinks[head] ? a.sinks[head] : state.max;
    scale = exp_f32(state.max - new_max);
    sum = std::fmaf(state.sum, scale, exp_f32(a.sinks[head] - new_max));
  }
  const float inverse = scale / sum;
  for (size_t i = 0; i < state.out.size(); ++i) out[i] = state.out[i] * inverse;
}

}  // namespace

void kv_store(const KvStoreArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const int hd = a.place.head_dim;
  for (int s = 0; s < ctx.n_spans; ++s) {
    const Span& span = ctx.spans[s];
    for (int i = 0; i < span.n_rows; ++i) {
      const int64_t row = span.first_row + i;
      if (row < r.begin || row >= r.end) continue;
      const int position = span.first_position + i, slot = position % kPagePositions;
      std::byte* page = span.pages[a.place.kind][position / kPagePositions];
      for (int h = 0; h < a.place.n_kv_heads; ++h) {
        const size_t in =
            (static_cast<size_t>(row) * static_cast<size_t>(a.place.n_kv_heads) + static_cast<size_t>(h)) *
            static_cast<size_t>(hd);
        uint16_t* keys = half_at(page, a.place.k_offset + static_cast<size_t>(h) * a.place.head_bytes());
        uint16_t* values = half_at(page, a.place.v_offset + static_cast<size_t>(h) * a.place.head_bytes());
        for (int d = 0; d < hd; ++d) {
          keys[d * kPagePositions + slot] = clamped_half(a.k[in + static_cast<size_t>(d)]);
          values[slot * hd + d] = clamped_half(a.v[in + static_cast<size_t>(d)]);
        }
      }
    }
  }
}

void attention(const AttentionArgs& a, const RunContext& ctx, const Worker& w) {
  const int hd = a.place.head_dim, group = a.n_heads / a.place.n_kv_heads;
  const Range r = share(static_cast<int64_t>(ctx.n_rows) * a.n_heads, w);
  for (int s = 0; s < ctx.n_spans; ++s) {
    const Span& span = ctx.spans[s];
    for (int64_t unit = r.begin; unit < r.end; ++unit) {
      const int row = static_cast<int>(unit / a.n_heads), head = static_cast<int>(unit % a.n_heads);
      if (row < span.first_row || row >= span.first_row + span.n_rows) continue;
      const int position = span.first_position + row - span.first_row;
      const int first = a.window > 0 ? std::max(0, position - a.window + 1) : 0;
      const float* q = a.q + static_cast<size_t>(unit) * static_cast<size_t>(hd);
      Running state;
      state.out.assign(static_cast<size_t>(hd), 0.0F);
      for (int chunk = first / kPagePositions; chunk <= position / kPagePositions; ++chunk) {
        const int base = chunk * kPagePositions;
        attend_chunk(a, q, span.pages[a.place.kind][chunk], head / group, first - base, position + 1 - base, &state);
      }
      finish(a, head, state, a.out + static_cast<size_t>(unit) * static_cast<size_t>(hd));
    }
  }
}

namespace {

// Where a head's part of a page is.
size_t part_at(const AttentionArgs& a, int max_pages, int head, int page) {
  return static_cast<size_t>((int64_t{head} * max_pages + page) * (a.place.head_dim + AttentionPartsArgs::kRest));
}

}  // namespace

void attention_parts(const AttentionPartsArgs& args, const RunContext& ctx, const Worker& w) {
  const AttentionArgs& a = args.of;
  const int hd = a.place.head_dim, group = a.n_heads / a.place.n_kv_heads;
  const SeenPages seen(a, ctx);
  const Range r = share(int64_t{a.n_heads} * seen.n, w);
  for (int64_t unit = r.begin; unit < r.end; ++unit) {
    const int head = static_cast<int>(unit / seen.n), page = static_cast<int>(unit % seen.n);
    const int base = (seen.first + page) * kPagePositions;
    Running state;
    state.out.assign(static_cast<size_t>(hd), 0.0F);
    attend_chunk(a, a.q + static_cast<size_t>(head) * static_cast<size_t>(hd),
                 ctx.spans[0].pages[a.place.kind][seen.first + page], head / group,
                 a.window > 0 ? seen.position - a.window + 1 - base : 0, seen.position + 1 - base, &state);
    float* part = args.parts + part_at(a, args.max_pages, head, page);
    std::copy(state.out.begin(), state.out.end(), part);
    part[hd] = state.max;
    part[hd + 1] = state.sum;
  }
}

void attention_merge(const AttentionMergeArgs& args, const RunContext& ctx, const Worker& w) {
  const AttentionArgs& a = args.of;
  const Range r = rows_of(ctx.n_rows, w);
  if (r.begin >= r.end) return;
  const int hd = a.place.head_dim;
  const SeenPages seen(a, ctx);
  for (int head = 0; head < a.n_heads; ++head) {
    Running state;
    state.out.assign(static_cast<size_t>(hd), 0.0F);
    for (int page = 0; page < seen.n; ++page) {
      const float* part = args.parts + part_at(a, args.max_pages, head, page);
      merge(part[hd], part[hd + 1], part, &state);
    }
    finish(a, head, state, a.out + static_cast<size_t>(head) * static_cast<size_t>(hd));
  }
}

}  // namespace quern::kernels::ref
