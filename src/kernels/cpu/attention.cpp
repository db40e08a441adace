// Keys and values into pages, and attention over pages, f16 keys and values widened to f32 (docs/NUMERICS.md;
// reference: ref/attention.cpp; online softmax after Milakov and Gimelshein, tiles after FlashAttention). A unit is a
// tile of tokens of one sequence times the heads that share a key head, so each key and value is widened once for
// several queries. Bytes moved per query tile: the keys and values it sees, once.
#include "kernels/cpu/tier.h"

namespace quern::kernels::QUERN_ISA {
namespace {

constexpr float kNoScore = -1e30F;  // as in ref/elementary.h

// Register tile of the two products: queries by vectors of 16 positions or dimensions.
constexpr int kRowTile = kWide ? 6 : 2, kVecTile = kWide ? 4 : 2;
// Queries of a unit, at least one token's heads: with a head's page of keys and values they fill the first cache.
constexpr int kMaxQueries = 36;

// What becomes of a product: stored, or merged into what is there as c * worth[r] + product * worth[8 + r].
enum class Take : uint8_t { store, merge };

struct Factors {
  const float* a;  // [kRows][lda]
  int64_t lda;
  const u16* b;  // f16 [n][ldb]
  int64_t ldb;
  int n;
  float* c;  // [kRows][ldc]
  int64_t ldc;
  const float* worth;  // [16], for Take::merge
};

// Vector `at` and kVecs - 1 more of the product sum over k of a[r][k] * b[k][16 v ..], k ascending, one chain per
// output. Not inlined: in a larger function compilers move sums to memory.
template <int kRows, int kVecs, Take kTake>
__attribute__((noinline)) void multiply(const Factors& f, int at) {
  f32x16 acc[kRows][kVecs];
#pragma GCC unroll unroll(6)
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll unroll(4)
    for (int v = 0; v < kVecs; ++v) acc[r][v] = f32x16::zero();
  }
  const u16* b = f.b + 16 * at;
  const float* a = f.a;
  const int64_t lda = f.lda, ldb = f.ldb;
  for (int k = 0; k < f.n; ++k) {
    f32x16 x[kVecs];
#pragma GCC unroll unroll(4)
    for (int v = 0; v < kVecs; ++v) x[v] = f32x16::load_f16(b + k * ldb + 16 * v);
#pragma GCC unroll unroll(6)
    for (int r = 0; r < kRows; ++r) {
      const f32x16 s = f32x16::broadcast(a[r * lda + k]);
#pragma GCC unroll unroll(4)
      for (int v = 0; v < kVecs; ++v) acc[r][v] = fma(s, x[v], acc[r][v]);
    }
  }
#pragma GCC unroll unroll(6)
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll unroll(4)
    for (int v = 0; v < kVecs; ++v) {
      float* c = f.c + r * f.ldc + 16 * (at + v);
      if constexpr (kTake == Take::merge) {
        acc[r][v] = fma(acc[r][v], f32x16::broadcast(f.worth[8 + r]), f32x16::load(c) * f32x16::broadcast(f.worth[r]));
      }
      acc[r][v].store(c);
    }
  }
}

// Vectors [first, end) of the product.
template <int kRows, Take kTake>
QUERN_FN void product(const Factors& f, int first, int end) {
  int at = first;
  for (; at + kVecTile <= end; at += kVecTile) multiply<kRows, kVecTile, kTake>(f, at);
  if constexpr (kVecTile > 2) {
    for (; at + 2 <= end; at += 2) multiply<kRows, 2, kTake>(f, at);
  }
  for (; at < end; ++at) multiply<kRows, 1, kTake>(f, at);
}

// The memory of a unit: its queries and sums, and one row tile's scores.
struct Tile {
  float *q, *out, *max, *sum, *score;
  static size_t bytes(int64_t head_dim, int64_t group) {
    const int64_t rows = group > kMaxQueries ? group : kMaxQueries;
    return static_cast<size_t>(rows * (2 * head_dim + 2) + kRowTile * kPagePositions) * sizeof(float) + 256;
  }
  Tile(std::byte* scratch, int64_t head_dim, int64_t rows) {
    score = reinterpret_cast<float*>(scratch);
    q = score + kRowTile * kPagePositions;
    out = q + rows * head_dim;
    max = out + rows * head_dim;
    sum = max + rows;
  }
};

// Positions of a page that a row sees.
struct Seen {
  int first, end;
};

// The four reductions at once (lattice/mix.h) of kRows vectors; a lane that is the canonical tree's.
template <int kRows, bool kMax>
QUERN_FN void reduce_rows(const f32x16* v, float* out /*[kRows]*/) {
  for (int r = 0; r < kRows; r += 4) {
    f32x16 part[4];
    float all[16];
    for (int i = 0; i < 4; ++i) part[i] = v[r + i < kRows ? r + i : r];
    (kMax ? reduce4_max(part) : reduce4_add(part)).store(all);
    for (int i = 0; i < 4 && r + i < kRows; ++i) out[r + i] = all[4 * i];
  }
}

// Vectors [first, end) of kRows rows' scores to softmax numerators; their sums, and the largest scores in `top`. Rows
// go side by side through each stage: a single row's would wait for its own results.
template <int kRows>
QUERN_FN void soften(float* scores, const AttentionArgs& a, const Seen* seen, int first, int end, float* top,
                     float* sums) {
  f32x16 row[kRows];
  for (int r = 0; r < kRows; ++r) {
    row[r] = f32x16::broadcast(kNoScore);
    for (int v = first; v < end; ++v) {
      float* at = scores + r * kPagePositions + 16 * v;
      f32x16 s = f32x16::load(at) * f32x16::broadcast(a.scale);
      if (a.softcap > 0) {
        const f32x16 cap = f32x16::broadcast(a.softcap);
        s = cap * tanh(s / cap);
      }
      if (16 * v < seen[r].first || 16 * v + 16 > seen[r].end) {
        const i32x16 j = i32x16::iota() + i32x16::broadcast(16 * v);
        const auto visible = (j >= i32x16::broadcast(seen[r].first)) & (j < i32x16::broadcast(seen[r].end));
        s = select(visible, s, f32x16::broadcast(-__builtin_inff()));
      }
      row[r] = max(row[r], s);
      s.store(at);
    }
  }
  reduce_rows<kRows, true>(row, top);
  for (int r = 0; r < kRows; ++r) {
    row[r] = f32x16::zero();
    for (int v = first; v < end; ++v) {
      float* at = scores + r * kPagePositions + 16 * v;
      const f32x16 e = exp(f32x16::load(at) - f32x16::broadcast(top[r]));
      row[r] = row[r] + e;
      e.store(at);
    }
  }
  reduce_rows<kRows, false>(row, sums);
}

QUERN_FN float exp1(float x) {
  return exp(lat<f32, 4>::broadcast(x)).lane(0);
}

struct Unit {
  const Span* span;
  int first_row;  // in the run
  int n_tokens;
  int first_head, n_heads;  // sharing one key head
  int first_position;       // of the first token
};

// A page of keys and values of one head.
struct Page {
  const u16* keys;    // [head_dim][64]
  const u16* values;  // [64][head_dim]
  int base;           // its first position
};

QUERN_FN Page page_at(const KvPlace& place, const Span& span, int number, int kv_head) {
  const std::byte* memory = span.pages[place.kind][number] + static_cast<size_t>(kv_head) * place.head_bytes();
  return {reinterpret_cast<const u16*>(memory + place.k_offset), reinterpret_cast<const u16*>(memory + place.v_offset),
          number * kPagePositions};
}

// Rows [row, row + kRows) of a unit meet a page.
template <int kRows>
void attend_rows(const AttentionArgs& a, const Unit& u, const Tile& tile, const Page& page, int row) {
  const int hd = a.place.head_dim;
  Seen seen[kRows], all{kPagePositions, 0};
  for (int r = 0; r < kRows; ++r) {
    const int position = u.first_position + (row + r) / u.n_heads - page.base;
    const int first = a.window > 0 && position - a.window + 1 > 0 ? position - a.window + 1 : 0;
    seen[r] = {first, position + 1 < kPagePositions ? position + 1 : kPagePositions};
    if (seen[r].first < all.first) all.first = seen[r].first;
    if (seen[r].end > all.end) all.end = seen[r].end;
  }
  if (all.first >= all.end) return;
  const int first = all.first / 16, end = (all.end + 15) / 16;
  product<kRows, Take::store>(
      {tile.q + row * hd, hd, page.keys, kPagePositions, hd, tile.score, kPagePositions, nullptr}, first, end);
  // Lanes r: what the old sums are worth under the new maximum; lanes 8 + r: the new ones.
  alignas(64) float worth[16] = {};
  float sums[kRows], tops[kRows];
  soften<kRows>(tile.score, a, seen, first, end, tops, sums);
  for (int r = 0; r < kRows; ++r) {
    const float old = tile.max[row + r], larger = old < tops[r] ? tops[r] : old;
    worth[r] = old - larger;
    worth[8 + r] = tops[r] - larger;
    tile.max[row + r] = larger;
  }
  exp(f32x16::load(worth)).store(worth);
  for (int r = 0; r < kRows; ++r)
    tile.sum[row + r] = __builtin_fmaf(sums[r], worth[8 + r], tile.sum[row + r] * worth[r]);
  product<kRows, Take::merge>({tile.score + all.first, kPagePositions, page.values + all.first * hd, hd,
                               all.end - all.first, tile.out + row * hd, hd, worth},
                              0, hd / 16);
}

// out = values over their total, a head's sink counted in.
QUERN_FN void scale_by_total(const AttentionArgs& a, int head, float largest, float total, float* values) {
  const int hd = a.place.head_dim;
  float scale = 1.0F;
  if (a.sinks != nullptr) {
    const float next = largest < a.sinks[head] ? a.sinks[head] : largest;
    scale = exp1(largest - next);
    total = __builtin_fmaf(total, scale, exp1(a.sinks[head] - next));
  }
  const f32x16 inverse = f32x16::broadcast(scale / total);
  for (int i = 0; i < hd; i += 16) (f32x16::load(values + i) * inverse).store(values + i);
}

void finish(const AttentionArgs& a, const Unit& u, const Tile& tile, int row) {
  const int hd = a.place.head_dim, t = row / u.n_heads, head = u.first_head + row % u.n_heads;
  float* out = a.out + (static_cast<int64_t>(u.first_row + t) * a.n_heads + head) * hd;
  __builtin_memcpy(out, tile.out + row * hd, static_cast<size_t>(hd) * sizeof(float));
  scale_by_total(a, head, tile.max[row], tile.sum[row], out);
}

void attend(const AttentionArgs& a, const Unit& u, std::byte* scratch) {
  const int hd = a.place.head_dim, n_rows = u.n_tokens * u.n_heads,
            kv_head = u.first_head / (a.n_heads / a.place.n_kv_heads);
  const Tile tile(scratch, hd, n_rows);
  for (int t = 0; t < u.n_tokens; ++t) {
    const float* q = a.q + (static_cast<int64_t>(u.first_row + t) * a.n_heads + u.first_head) * hd;
    __builtin_memcpy(tile.q + t * u.n_heads * hd, q, static_cast<size_t>(u.n_heads * hd) * sizeof(float));
  }
  __builtin_memset(tile.out, 0, static_cast<size_t>(n_rows * hd) * sizeof(float));
  for (int r = 0; r < n_rows; ++r) tile.max[r] = kNoScore, tile.sum[r] = 0;
  const int last_position = u.first_position + u.n_tokens - 1;
  const int first_seen = a.window > 0 && u.first_position - a.window + 1 > 0 ? u.first_position - a.window + 1 : 0;
  for (int chunk = first_seen / kPagePositions; chunk <= last_position / kPagePositions; ++chunk) {
    const Page page = page_at(a.place, *u.span, chunk, kv_head);
    int row = 0;
    for (; row + kRowTile <= n_rows; row += kRowTile) attend_rows<kRowTile>(a, u, tile, page, row);
    if constexpr (kRowTile > 3) {
      for (; row + 3 <= n_rows; row += 3) attend_rows<3>(a, u, tile, page, row);
    }
    for (; row < n_rows; ++row) attend_rows<1>(a, u, tile, page, row);
  }
  for (int r = 0; r < n_rows; ++r) finish(a, u, tile, r);
}

// Tokens of a unit: row tiles come out whole where that is possible.
int unit_tokens(int heads) {
  int tokens = kMaxQueries / heads;
  while (tokens > 1 && tokens * heads % kRowTile != 0 && (tokens - 1) * heads >= kMaxQueries / 2) --tokens;
  return tokens > 1 ? tokens : 1;
}

void attention(const AttentionArgs& a, const RunContext& ctx, const Worker& w) {
  const int group = a.n_heads / a.place.n_kv_heads;
  // One token with few key heads: heads one by one, so that more threads have work.
  const int heads = ctx.n_rows == 1 && a.place.n_kv_heads % w.n_threads != 0 ? 1 : group;
  const int tokens = unit_tokens(heads), head_units = a.n_heads / heads;
  for (int s = 0; s < ctx.n_spans; ++s) {
    const Span& span = ctx.spans[s];
    const int64_t tiles = (span.n_rows + tokens - 1) / tokens, n = tiles * head_units;
    const auto take = [&](int64_t unit) {
      // The last tokens see most: they go first.
      const int t = static_cast<int>(tiles - 1 - unit / head_units) * tokens;
      const int h = static_cast<int>(unit % head_units) * heads;
      const int n_tokens = span.n_rows - t < tokens ? span.n_rows - t : tokens;
      attend(a, {&span, span.first_row + t, n_tokens, h, heads, span.first_position + t}, w.scratch);
    };
    if (w.taken != nullptr && ctx.n_spans == 1) {
      for_units(n, w, take);
    } else {
      for (int64_t unit = (w.thread + s) % w.n_threads; unit < n; unit += w.n_threads) take(unit);
    }
  }
}

// One row, rows of one key head: the part of one page for heads [head, head + kRows).
template <int kRows>
void part_rows(const AttentionPartsArgs& args, const Page& page, const Seen& seen, int head, int page_index,
               float* score) {
  const AttentionArgs& a = args.of;
  const int hd = a.place.head_dim, first = seen.first / 16, end = (seen.end + 15) / 16;
  const int64_t stride = int64_t{args.max_pages} * (hd + AttentionPartsArgs::kRest);
  float* part = args.parts + head * stride + int64_t{page_index} * (hd + AttentionPartsArgs::kRest);
  product<kRows, Take::store>({a.q + head * hd, hd, page.keys, kPagePositions, hd, score, kPagePositions, nullptr},
                              first, end);
  Seen all[kRows];
  for (int r = 0; r < kRows; ++r) all[r] = seen;
  float sums[kRows], tops[kRows];
  soften<kRows>(score, a, all, first, end, tops, sums);
  product<kRows, Take::store>({score + seen.first, kPagePositions, page.values + seen.first * hd, hd,
                               seen.end - seen.first, part, stride, nullptr},
                              0, hd / 16);
  for (int r = 0; r < kRows; ++r) {
    part[r * stride + hd] = tops[r];
    part[r * stride + hd + 1] = sums[r];
  }
}

// Keys and values of a unit: pages of one key head after another.
QUERN_FN Page page_of(const AttentionArgs& a, const RunContext& ctx, const SeenPages& pages, int64_t unit) {
  return page_at(a.place, ctx.spans[0], pages.first + static_cast<int>(unit % pages.n),
                 static_cast<int>(unit / pages.n));
}

// Asks for a whole page; what is begun and not full is small and was written a moment ago.
QUERN_FN void prefetch_page(const Page& page, const KvPlace& place, int position) {
  if (page.base + kPagePositions > position + 1) return;
  for (size_t i = 0; i < place.head_bytes() / sizeof(u16); i += 32) {
    prefetch(page.keys + i);
    prefetch(page.values + i);
  }
}

void attention_parts(const AttentionPartsArgs& args, const RunContext& ctx, const Worker& w) {
  const AttentionArgs& a = args.of;
  const int group = a.n_heads / a.place.n_kv_heads;
  const SeenPages pages(a, ctx);
  float* score = reinterpret_cast<float*>(w.scratch);
  const Range r = share(int64_t{a.place.n_kv_heads} * pages.n, w);
  for (int64_t unit = r.begin; unit < r.end; ++unit) {
    const int index = static_cast<int>(unit % pages.n);
    const Page page = page_of(a, ctx, pages, unit);
    if (unit + 1 < r.end) prefetch_page(page_of(a, ctx, pages, unit + 1), a.place, pages.position);
    const int last = pages.position - page.base, first = last - a.window + 1;
    const Seen seen{a.window > 0 && first > 0 ? first : 0, last + 1 < kPagePositions ? last + 1 : kPagePositions};
    int head = static_cast<int>(unit / pages.n) * group;
    const int heads_end = head + group;
    for (; head + kRowTile <= heads_end; head += kRowTile) part_rows<kRowTile>(args, page, seen, head, index, score);
    if constexpr (kRowTile > 3) {
      for (; head + 4 <= heads_end; head += 4) part_rows<4>(args, page, seen, head, index, score);
      for (; head + 3 <= heads_end; head += 3) part_rows<3>(args, page, seen, head, index, score);
    }
    for (; head < heads_end; ++head) part_rows<1>(args, page, seen, head, index, score);
  }
}

void attention_merge(const AttentionMergeArgs& args, const RunContext& ctx, const Worker& w) {
  const AttentionArgs& a = args.of;
  const Range r = rows_of(ctx.n_rows, w);
  if (r.begin >= r.end) return;
  const int hd = a.place.head_dim;
  const SeenPages pages(a, ctx);
  for (int head = 0; head < a.n_heads; ++head) {
    const float* part = args.parts + int64_t{head} * args.max_pages * (hd + AttentionPartsArgs::kRest);
    float* out = a.out + head * hd;
    float largest = kNoScore, total = 0;
    for (int page = 0; page < pages.n; ++page, part += hd + AttentionPartsArgs::kRest) {
      const float top = part[hd], next = largest < top ? top : largest;
      alignas(16) const float differences[4] = {largest - next, top - next, 0, 0};
      const lat<f32, 4> worth = exp(lat<f32, 4>::load(differences));
      const float keep = worth.lane(0), take = worth.lane(1);
      total = __builtin_fmaf(part[hd + 1], take, total * keep);
      for (int i = 0; i < hd; i += 16) {
        const f32x16 before = page == 0 ? f32x16::zero() : f32x16::load(out + i);
        fma(f32x16::load(part + i), f32x16::broadcast(take), before * f32x16::broadcast(keep)).store(out + i);
      }
      largest = next;
    }
    scale_by_total(a, head, largest, total, out);
  }
}

size_t score_bytes(const Shape&) {
  return sizeof(float) * kRowTile * kPagePositions;
}

// Sixteen numbers as f16, clamped to its range so that no stored value is infinite.
QUERN_FN void store_clamped(const f32x16& x, u16* out) {
  const f32x16 limit = f32x16::broadcast(65504.0F);
  const f32x16 low = select(x < -limit, -limit, x);
  select(limit < low, limit, low).store_f16(out);
}

// Values lie by position, keys by dimension: a key's numbers are scattered over its page.
void kv_store(const KvStoreArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const int hd = a.place.head_dim;
  for (int s = 0; s < ctx.n_spans; ++s) {
    const Span& span = ctx.spans[s];
    const int64_t begin = r.begin > span.first_row ? r.begin : span.first_row, span_end = span.first_row + span.n_rows;
    const int64_t end = r.end < span_end ? r.end : span_end;
    for (int64_t row = begin; row < end; ++row) {
      const int position = span.first_position + static_cast<int>(row) - span.first_row,
                slot = position % kPagePositions;
      std::byte* page = span.pages[a.place.kind][position / kPagePositions];
      for (int h = 0; h < a.place.n_kv_heads; ++h) {
        const int64_t in = (row * a.place.n_kv_heads + h) * hd;
        const size_t head = static_cast<size_t>(h) * a.place.head_bytes();
        u16* keys = reinterpret_cast<u16*>(page + a.place.k_offset + head) + slot;
        u16* values = reinterpret_cast<u16*>(page + a.place.v_offset + head) + slot * hd;
        for (int d = 0; d < hd; d += 16) {
          u16 key[16];
          store_clamped(f32x16::load(a.k + in + d), key);
          for (int i = 0; i < 16; ++i) keys[(d + i) * kPagePositions] = key[i];
          store_clamped(f32x16::load(a.v + in + d), values + d);
        }
      }
    }
  }
}

size_t scratch_bytes(const Shape& shape) {
  return Tile::bytes(shape.n_in, shape.n_out);
}
bool whole_vectors(const Shape& shape) {
  return shape.n_in % 16 == 0;
}
bool fits(const Shape& shape) {
  return shape.n_in % 16 == 0 && shape.n_out <= 256;
}

constexpr Kernel kRows[] = {
    {{Op::kv_store}, own_isa(), own_priority(), QUERN_NAME("kv_store_f16"), &Erased<&kv_store>::call, &whole_vectors},
    {{Op::attention},
     own_isa(),
     own_priority(),
     QUERN_NAME("attention_f16"),
     &Erased<&attention>::call,
     &fits,
     &scratch_bytes},
    {{Op::attention_parts},
     own_isa(),
     own_priority(),
     QUERN_NAME("attention_parts_f16"),
     &Erased<&attention_parts>::call,
     &fits,
     &score_bytes},
    {{Op::attention_merge},
     own_isa(),
     own_priority(),
     QUERN_NAME("attention_merge"),
     &Erased<&attention_merge>::call,
     &whole_vectors},
};

}  // namespace

const KernelList kAttention = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
