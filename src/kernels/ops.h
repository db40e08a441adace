// The vocabulary of computation: one argument struct per op, for every backend alike. Plain data, bound once when a
// plan is compiled; what changes from run to run (rows, positions, sequences) comes in RunContext.
//
// Shapes are row-major; a "row" is one token unless said otherwise. n_rows below is the number of rows of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "format/activation.h"
#include "format/format.h"

namespace quern::kernels {

using format::ActivationFormat;  // how activation rows are stored: format/activation.h
inline constexpr int kActFormatCount = 9;

// How a weight matrix lies in memory.
enum class Layout : uint8_t {
  disk,  // as in the file: rows of blocks
  x16,   // 16 rows interleaved field by field (kernels/layout.h)
};
inline constexpr int kLayoutCount = 2;

enum class Op : uint8_t {
  embed,
  rope_table,
  rms_norm,
  quantize,
  matmul,
  gated_matmul,
  route,
  read_ahead,
  bucket,
  gather,
  expert_matmul,
  expert_gated,
  expert_sum,
  combine,
  row_gate,
  add,
  head_norm,
  rope,
  temperature,
  kv_store,
  attention,
  attention_parts,
  attention_merge,
  act_mul,
  softcap,
  repack,
};
inline constexpr int kOpCount = 26;

// How many token rows a plan is for; kernels state which classes they serve.
enum class RowClass : uint8_t {
  decode,   // 1
  few,      // 2 to 8
  prefill,  // any number
};
inline constexpr int kRowClassCount = 3;
inline constexpr int kFewRows = 8;

// Rows that a step works on: every token of the run; only those whose logits are wanted; what experts work on.
enum class RowSet : uint8_t {
  tokens,
  outputs,
  // Few rows: one row for each expert that a token chose (an entry): entry j of token r is row r * n_used + j. Many
  // rows: places in order of experts (Buckets), some of them empty.
  routed,
};

// Positions of keys and values come in pages of this many; attention walks them in chunks of one page
// (docs/NUMERICS.md).
inline constexpr int kPagePositions = 64;

// Consecutive rows of one sequence.
struct Span {
  int first_row;
  int n_rows;
  int first_position;  // of first_row; the others follow
  // [n_kinds] of page tables: pages[kind][i] holds positions [64 i, 64 i + 64); null where dropped behind a window.
  std::byte* const* const* pages;
};

// What changes from run to run. Owned by the runner, constant during the run.
struct RunContext {
  int n_rows = 0;
  const int32_t* ids = nullptr;        // [n_rows]
  const int32_t* positions = nullptr;  // [n_rows]
  const Span* spans = nullptr;         // [n_spans], covering all rows in order
  int n_spans = 0;
  const int32_t* out_rows = nullptr;  // [n_out] row numbers, ascending
  int n_out = 0;
  int n_routed = 0;  // rows of RowSet::routed: plan::Plan::complete
};

struct Range {
  int64_t begin, end;
};

// One thread's place in the team, and memory of its own.
struct Worker {
  int thread = 0;
  int n_threads = 1;
  std::byte* scratch = nullptr;  // at least the kernel's scratch bytes, 64-byte aligned
  Range rows = {0, -1};          // row-wise ops: these rows only, where end >= 0; else the thread's share
  // Where set: units of this call that threads have taken so far, 0 at its start. Whoever is free takes the next, so
  // that a slower core holds nobody up. Null: each thread its share.
  int* taken = nullptr;
  // Where set: of each thread's share, how many pieces are taken, 0 at the call's start; thread t's number is at
  // [t * kClaimStride]. Who has done its own share goes on with others' (for_pieces).
  int* claimed = nullptr;
  static constexpr int kClaimStride = 16;  // a cache line
};

// A thread's share of n units: contiguous, sizes differ by at most one.
inline Range share_of(int64_t n, int thread, int n_threads) {
  return {n * thread / n_threads, n * (thread + 1) / n_threads};
}
inline Range share(int64_t n, const Worker& w) {
  return share_of(n, w.thread, w.n_threads);
}
// The rows of n that a row-wise op works on in this call.
inline Range rows_of(int64_t n, const Worker& w) {
  return w.rows.end >= 0 ? w.rows : share(n, w);
}

// Calls each(unit) for the units of n that fall to the thread.
template <class Each>
inline void for_units(int64_t n, const Worker& w, const Each& each) {
  if (w.taken == nullptr) {
    const Range r = share(n, w);
    for (int64_t unit = r.begin; unit < r.end; ++unit) each(unit);
    return;
  }
  for (int64_t unit; (unit = __atomic_fetch_add(w.taken, 1, __ATOMIC_RELAXED)) < n;) each(unit);
}

// The same, and each(unit, next) also hears which unit the thread does after that, n if none: what it reads can be
// asked for early.
template <class Each>
inline void for_units_ahead(int64_t n, const Worker& w, const Each& each) {
  const Range r = w.taken == nullptr ? share(n, w) : Range{0, 0};
  int64_t at = r.begin;
  const auto take = [&]() -> int64_t {
    if (w.taken != nullptr) return __atomic_fetch_add(w.taken, 1, __ATOMIC_RELAXED);
    return at < r.end ? at++ : n;
  };
  for (int64_t unit = take(), next = 0; unit < n; unit = next) {
    next = take();
    each(unit, next < n ? next : n);
  }
}

// Calls each(piece, end) for pieces of the thread's share of n units, in order, then for what others have not come to
// yet: a slower core holds nobody up. end: of the share that the piece is of. Without Worker::claimed: its share,
// whole.
template <class Each>
inline void for_pieces(int64_t n, int64_t piece, const Worker& w, const Each& each) {
  if (w.claimed == nullptr) {
    const Range r = share(n, w);
    return each(r, r.end);
  }
  for (int i = 0; i < w.n_threads; ++i) {
    const int thread = w.thread + i < w.n_threads ? w.thread + i : w.thread + i - w.n_threads;
    const Range r = share_of(n, thread, w.n_threads);
    int* claimed = w.claimed + thread * Worker::kClaimStride;
    const auto left = [&](int64_t k) { return r.begin + k * piece < r.end; };
    if (i > 0 && !left(__atomic_load_n(claimed, __ATOMIC_RELAXED))) continue;
    for (int64_t k; left(k = __atomic_fetch_add(claimed, 1, __ATOMIC_RELAXED));) {
      const int64_t begin = r.begin + k * piece;
      each(Range{begin, begin + piece < r.end ? begin + piece : r.end}, r.end);
    }
  }
}

inline int row_count(const RunContext& ctx, RowSet rows) {
  return rows == RowSet::tokens ? ctx.n_rows : rows == RowSet::outputs ? ctx.n_out : ctx.n_routed;
}

// out[r] = scale * table[ids[r]]
struct EmbedArgs {
  static constexpr Op kOp = Op::embed;
  format::Format format;
  const std::byte* table;  // [n_vocab] rows of `format`, as in the file
  size_t row_bytes;
  int n_dim;
  float scale;
  float* out;  // [n_rows, n_dim]
};

// The factors of each row's rotation, by dimension: a rotated head is x * cos + partner(x) * sin, where the sines carry
// the sign. Angle of pair i = position * scale * base^(-i / n_pairs) / divisors[i]; both factors times magnitude.
struct RopeTableArgs {
  static constexpr Op kOp = Op::rope_table;
  int n_pairs;
  bool neox;  // pair i is dimensions i and i + n_pairs, else 2 i and 2 i + 1
  double base, scale;
  float magnitude;
  const float* divisors;  // [n_pairs] or null
  float* out;             // [n_rows, 2, 2 n_pairs]: cosines, then sines (minus for the first of a pair)
};

// out[r] = in[s(r)] / sqrt(mean(in[s(r)]^2) + eps) * weight; s is the identity, or out_rows where gather is set.
struct RmsNormArgs {
  static constexpr Op kOp = Op::rms_norm;
  const float* in;      // [n_rows, n_dim]
  const float* weight;  // [n_dim]
  int n_dim;
  float eps;
  RowSet rows;  // of the output
  bool gather;
  float* out;  // [n_rows or n_out, n_dim]
};

struct QuantizeArgs {
  static constexpr Op kOp = Op::quantize;
  const float* in;  // [rows, n]
  int n;
  ActivationFormat format;
  RowSet rows;
  std::byte* out;     // activation rows, or tiles of them
  size_t out_stride;  // bytes from one row (tile) to the next
};

// What the team reads after a call: each thread its share of n_units. A hint to ask for memory early.
struct NextRead {
  const std::byte* data = nullptr;  // [n_units, unit_bytes]; null: unknown
  int64_t n_units = 0;
  size_t unit_bytes = 0;
  size_t expert_bytes = 0;  // where set: so much further for each expert before one that the tokens chose
  // With expert_bytes: the units of all chosen experts are shared, one expert's after the other's; else each one's.
  bool across_experts = false;
};

// y[r] = residual[r] + (w x[r] + bias), residual and bias where given. Of a two-plane x, the planes' products are
// added.
struct MatmulArgs {
  static constexpr Op kOp = Op::matmul;
  format::Format format;
  ActivationFormat act;
  const std::byte* w;     // the whole matrix in the kernel's layout; x16 is padded to whole groups of 16 rows
  int64_t n_out;          // rows of w
  int64_t n_in;           // cols of w
  const std::byte* x;     // rows, or tiles of them, in `act` format
  size_t x_stride;        // bytes from one row (tile) to the next
  const float* bias;      // [n_out] or null
  const float* residual;  // [rows, y_stride] or null; may be y itself
  float* y;               // [rows, y_stride]
  int64_t y_stride;       // elements
  RowSet rows;
  NextRead next;
};

// How a gate and its partner become one value: act(gate) * up. swiglu_oai (gpt-oss): with g = min(gate, 7) and u = up
// within -7 and 7, g / (1 + e^(-1.702 g)) * (u + 1).
enum class ActFn : uint8_t { silu, gelu_tanh, swiglu_oai };
inline constexpr float kSwigluLimit = 7.0F;

// y[r] = act(gate x[r] + its bias) * (up x[r] + its bias): two matrices of one format and shape over the same rows.
struct GatedMatmulArgs {
  static constexpr Op kOp = Op::gated_matmul;
  MatmulArgs gate;       // without residual
  const std::byte* up;   // as gate.w
  const float* up_bias;  // [n_out] or null
  ActFn fn;
};

// An expert that a token chose.
struct ExpertChoice {
  int32_t expert;
  float weight;
};

// How router logits become weights: a softmax over all experts, each expert's sigmoid by itself, a softmax over the
// chosen ones only.
enum class Gating : uint8_t { softmax, sigmoid, softmax_chosen };

// Each token's experts: those of the n_used largest scores, larger first, of equal ones the lower number first. Score:
// the gating's value (softmax_chosen: the logit) plus bias. With n_groups > 1 only experts of the n_groups_used best
// groups take part; a group's worth is the sum of its two largest scores. Weights: the gating's values without bias;
// renormalized: divided by their sum (at least kLeastWeightSum); then times scale.
inline constexpr float kLeastWeightSum = 0x1p-14F;
struct RouteArgs {
  static constexpr Op kOp = Op::route;
  const float* logits;  // [n_rows, n_experts]
  const float* bias;    // [n_experts] or null
  int n_experts, n_used;
  Gating gating;
  bool renormalize;
  float scale;
  int n_groups, n_groups_used;  // 0 or 1: no groups
  ExpertChoice* out;            // [n_rows, n_used]
};

// Asks the system for the chosen experts' matrices of a stack that lies in a mapped file: what is not in memory is read
// while other work goes on. Changes nothing else. A thread asks for its share of the choices.
struct ReadAheadArgs {
  static constexpr Op kOp = Op::read_ahead;
  const ExpertChoice* choices;  // [n_rows, n_used]
  int n_used;
  const std::byte* stack;  // [n_experts, expert_bytes]
  size_t expert_bytes;
};

// Routed rows in order of experts, for many rows. An expert's rows fill whole tiles (format::kTileRows), the last one
// in part; expert e has tiles [first_tile[e], first_tile[e + 1]). A place is a row number in those tiles.
// Lies in memory as int32: first_tile [n_experts + 1], count [n_experts], place_of [entries], entry_of [places]; entry
// j of token r is number r * n_used + j.
template <class Int>  // int32_t for who fills them, else const
struct BucketsOf {
  Int* first_tile;
  Int* count;     // rows of each expert
  Int* place_of;  // of an entry
  Int* entry_of;  // of a place; -1: empty
  BucketsOf(Int* data, int n_experts, int64_t n_entries)
      : first_tile(data), count(data + n_experts + 1), place_of(count + n_experts), entry_of(place_of + n_entries) {}
};
using Buckets = BucketsOf<const int32_t>;
// Places for n entries at most.
inline int64_t place_count(int64_t n_entries, int n_experts) {
  const int64_t tile = format::kTileRows, partial = n_entries < n_experts ? n_entries : n_experts;
  return (n_entries + partial * (tile - 1)) / tile * tile;
}
inline int64_t bucket_ints(int64_t n_entries, int n_experts) {
  return 2 * int64_t{n_experts} + 1 + n_entries + place_count(n_entries, n_experts);
}

struct BucketArgs {
  static constexpr Op kOp = Op::bucket;
  const ExpertChoice* choices;  // [n_rows, n_used]
  int n_experts, n_used;
  int32_t* out;  // Buckets
};

// Activation rows of tokens to the places of their experts.
struct GatherArgs {
  static constexpr Op kOp = Op::gather;
  const std::byte* in;  // [n_rows] rows
  size_t in_stride;
  const int32_t* buckets;
  int n, n_experts, n_used;
  ActivationFormat format;  // of out: tiles
  std::byte* out;           // tiles
  size_t out_stride;
};

// Which matrix of a stack meets which rows.
struct Routed {
  int n_experts, n_used;
  size_t expert_bytes;          // of one matrix of the stack, in the kernel's layout
  const ExpertChoice* choices;  // [n_rows, n_used]
  const int32_t* buckets;       // null with few rows: rows are entries
  bool x_by_token;              // x has a row for each token; else for each routed row
  bool weigh;                   // products are multiplied by the choice's weight, before the bias
};

// y[i] = w_e x[i] + bias_e for each routed row i and its expert e.
struct ExpertMatmulArgs {
  static constexpr Op kOp = Op::expert_matmul;
  MatmulArgs of;  // of one expert; w: the stack; bias [n_experts, n_out]; rows: routed; without residual
  Routed routed;
};

struct ExpertGatedArgs {
  static constexpr Op kOp = Op::expert_gated;
  GatedMatmulArgs of;  // as above
  Routed routed;
};

// y[r] = residual[r] + sum over j of weight_j * (w_e x[entry] + bias_e), j ascending, each one fused multiply-add from
// zero. For few rows; x has a row for each entry; y and residual have one for each token.
struct ExpertSumArgs {
  static constexpr Op kOp = Op::expert_sum;
  MatmulArgs of;
  Routed routed;
  bool weigh;  // as CombineArgs: else each weight_j is taken as 1
};

// out[r] = the same sum of what expert_matmul wrote.
struct CombineArgs {
  static constexpr Op kOp = Op::combine;
  const float* in;              // [routed, n]
  const ExpertChoice* choices;  // [n_rows, n_used]
  const int32_t* buckets;       // or null
  int n, n_experts, n_used;
  bool weigh;  // else weights are taken as 1
  float* out;  // [n_rows, n]
};

// out[r] = sigmoid(weight . x[r]) * y[r]
struct RowGateArgs {
  static constexpr Op kOp = Op::row_gate;
  const float* x;       // [n_rows, n_in]
  const float* weight;  // [n_in]
  const float* y;       // [n_rows, n]
  int n_in, n;
  float* out;  // [n_rows, n]; may be y
};

// out = a + b
struct AddArgs {
  static constexpr Op kOp = Op::add;
  const float* a;  // [n_rows, n]
  const float* b;  // [n_rows, n]
  int n;
  float* out;  // [n_rows, n]; may be a or b
};

// rms_norm of each head of each row, in place.
struct HeadNormArgs {
  static constexpr Op kOp = Op::head_norm;
  float* x;             // [n_rows, n_heads, head_dim]
  const float* weight;  // [head_dim]
  int n_heads, head_dim;
  float eps;
};

// Rotates the first 2 * n_pairs dimensions of each head, in place.
struct RopeArgs {
  static constexpr Op kOp = Op::rope;
  float* x;            // [n_rows, n_heads, head_dim]
  const float* table;  // [n_rows, 2, 2 n_pairs]
  int n_heads, head_dim, n_pairs;
  bool neox;
};

// Each row times 1 + scale * ln(1 + floor((position + offset) / period)), in place.
struct TemperatureArgs {
  static constexpr Op kOp = Op::temperature;
  float* x;  // [n_rows, n]
  int n;
  double scale;
  int period, offset;
};

// Where one layer's keys and values lie within a page, f16. Head h: keys [head_dim][64] at k_offset + h * head_bytes,
// values [64][head_dim] at v_offset + h * head_bytes. head_bytes = head_dim * 64 * 2.
struct KvPlace {
  int kind;         // index into Span::pages
  size_t k_offset;  // bytes into a page
  size_t v_offset;
  int n_kv_heads, head_dim;
  size_t head_bytes() const { return static_cast<size_t>(head_dim) * kPagePositions * 2; }
};

// Writes each row's keys and values to its position. Values beyond the f16 range are clamped to it.
struct KvStoreArgs {
  static constexpr Op kOp = Op::kv_store;
  const float* k;  // [n_rows, n_kv_heads, head_dim]
  const float* v;  // [n_rows, n_kv_heads, head_dim]
  KvPlace place;
};

// softmax(scale * q.k, capped) v over the positions a row sees: itself and those before it, within the window.
struct AttentionArgs {
  static constexpr Op kOp = Op::attention;
  const float* q;  // [n_rows, n_heads, head_dim]
  KvPlace place;
  int n_heads;
  int window;            // 0: none
  float scale, softcap;  // softcap 0: none
  const float* sinks;    // [n_heads] extra logits without a value, or null
  float* out;            // [n_rows, n_heads, head_dim]
};

// The same for a run of one row, in two ops: what each page of positions gives by itself, and their merging in order.
// Pages are spread over threads, and heads that share keys read them together. Bits are those of AttentionArgs.
struct AttentionPartsArgs {
  static constexpr Op kOp = Op::attention_parts;
  static constexpr int kRest = 16;  // floats after the values: the largest score, the sum of numerators, padding
  AttentionArgs of;                 // but its out
  int max_pages;
  // [n_heads, max_pages, head_dim + kRest]; the first page is that of the first position seen
  float* parts;
};
struct AttentionMergeArgs {
  static constexpr Op kOp = Op::attention_merge;
  AttentionArgs of;  // but its q
  int max_pages;
  const float* parts;
};
// The pages that the run's only row sees.
struct SeenPages {
  int first, n;  // page numbers
  int position;  // of the row
  SeenPages(const AttentionArgs& a, const RunContext& ctx) {
    position = ctx.spans[0].first_position;
    first = (a.window > 0 && position - a.window + 1 > 0 ? position - a.window + 1 : 0) / kPagePositions;
    n = position / kPagePositions - first + 1;
  }
};

// out = act(gate) * up
struct ActMulArgs {
  static constexpr Op kOp = Op::act_mul;
  const float* gate;  // [rows, n]
  const float* up;    // [rows, n]
  int n;
  ActFn fn;
  RowSet rows;
  float* out;  // [rows, n]; may be gate
};

// x = cap * tanh(x / cap), in place
struct SoftcapArgs {
  static constexpr Op kOp = Op::softcap;
  float* x;  // [rows, n]
  int64_t n;
  float cap;
  RowSet rows;
};

// Copies whole groups of 16 rows [first_group, first_group + n_groups) of a disk matrix into another layout. Rows past
// n_rows are zero blocks.
struct RepackArgs {
  static constexpr Op kOp = Op::repack;
  format::Format format;
  const std::byte* in;  // [n_rows, row_bytes]
  int64_t n_rows, n_cols;
  std::byte* out;  // the whole packed matrix
};

using OpArgs = std::variant<EmbedArgs, RopeTableArgs, RmsNormArgs, QuantizeArgs, MatmulArgs, GatedMatmulArgs, RouteArgs,
                            ReadAheadArgs, BucketArgs, GatherArgs, ExpertMatmulArgs, ExpertGatedArgs, ExpertSumArgs,
                            CombineArgs, RowGateArgs, AddArgs, HeadNormArgs, RopeArgs, TemperatureArgs, KvStoreArgs,
                            AttentionArgs, AttentionPartsArgs, AttentionMergeArgs, ActMulArgs, SoftcapArgs, RepackArgs>;

// The matrix that an op multiplies with; of a stack, one expert's. Null: none, or two.
inline const MatmulArgs* matmul_of(const OpArgs& args) {
  if (const auto* m = std::get_if<MatmulArgs>(&args)) return m;
  if (const auto* m = std::get_if<ExpertMatmulArgs>(&args)) return &m->of;
  if (const auto* m = std::get_if<ExpertSumArgs>(&args)) return &m->of;
  return nullptr;
}
inline MatmulArgs* matmul_of(OpArgs& args) {
  return const_cast<MatmulArgs*>(matmul_of(static_cast<const OpArgs&>(args)));
}

}  // namespace quern::kernels
