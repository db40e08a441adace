// Keys and values into pages, and attention over pages, f16 keys and values widened to f32 (docs/NUMERICS.md;
// reference: ref/attention.cpp; online softmax after Milakov and Gimelshein, tiles after FlashAttention). A unit is a
// tile of tokens of one sequence times the heads that share a key head, so each key and value is widened once for
// several queries. Bytes moved per query tile: the keys and values it sees, once.
#include "kernels/cpu/tier.h"

namespace quern::kernels::QUERN_ISA {
namespace {

constexpr float kNoScore = -1e30F;  // as in ref/elementary.h
constexpr int kMaxQueries = 64;     // rows of a tile, at least one token's heads

// Register tile of the two products: kRows queries by kVecs vectors.
constexpr int kRowTile = kWide ? 6 : 2, kVecTile = kWide ? 4 : 2;

// c[r][16 v ..] = sum over k of a[r][k] * b[k][16 v ..], k ascending, one chain per output. b: f16 [n][ldb].
template <int kRows, int kVecs>
QUERN_FN void multiply(const float* a, int64_t lda, const u16* b, int64_t ldb, int n, float* c, int64_t ldc) {
  f32x16 acc[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) acc[r][v] = f32x16::zero();
  }
  for (int k = 0; k < n; ++k) {
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
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) acc[r][v].store(c + r * ldc + 16 * v);
  }
}

// All rows and columns of the product; columns are a multiple of 16.
template <int kVecs>
QUERN_FN void multiply_rows(const float* a, int64_t lda, int n_rows, const u16* b, int64_t ldb, int n, float* c,
                            int64_t ldc) {
  int r = 0;
  for (; r + kRowTile <= n_rows; r += kRowTile)
    multiply<kRowTile, kVecs>(a + r * lda, lda, b, ldb, n, c + r * ldc, ldc);
  if constexpr (kRowTile > 4) {
    if (r + 4 <= n_rows) multiply<4, kVecs>(a + r * lda, lda, b, ldb, n, c + r * ldc, ldc), r += 4;
  }
  if constexpr (kRowTile > 2) {
    if (r + 2 <= n_rows) multiply<2, kVecs>(a + r * lda, lda, b, ldb, n, c + r * ldc, ldc), r += 2;
  }
  if (r < n_rows) multiply<1, kVecs>(a + r * lda, lda, b, ldb, n, c + r * ldc, ldc);
}

void product(const float* a, int64_t lda, int n_rows, const u16* b, int64_t ldb, int n, float* c, int64_t ldc,
             int n_columns) {
  int column = 0;
  for (; column + 16 * kVecTile <= n_columns; column += 16 * kVecTile) {
    multiply_rows<kVecTile>(a, lda, n_rows, b + column, ldb, n, c + column, ldc);
  }
  for (; column < n_columns; column += 16) multiply_rows<1>(a, lda, n_rows, b + column, ldb, n, c + column, ldc);
}

// The memory of one tile.
struct Tile {
  float *q, *out, *part, *score, *max, *sum;
  static size_t bytes(int64_t head_dim, int64_t group) {
    const int64_t rows = group > kMaxQueries ? group : kMaxQueries;
    return static_cast<size_t>(rows * (3 * head_dim + kPagePositions + 2)) * sizeof(float) + 256;
  }
  Tile(std::byte* scratch, int64_t head_dim, int64_t rows) {
    q = reinterpret_cast<float*>(scratch);
    out = q + rows * head_dim;
    part = out + rows * head_dim;
    score = part + rows * head_dim;
    max = score + rows * kPagePositions;
    sum = max + rows;
  }
};

// Scores of one row of a chunk to softmax numerators; returns their sum, and the largest score in *chunk_max.
QUERN_FN float soften(float* score, float scale, float softcap, int first_visible, int end_visible, float* chunk_max) {
  constexpr int kVecs = kPagePositions / 16;
  f32x16 s[kVecs];
  f32x16 largest = f32x16::broadcast(kNoScore);
  const bool masked = first_visible > 0 || end_visible < kPagePositions;
  for (int v = 0; v < kVecs; ++v) {
    s[v] = f32x16::load(score + 16 * v) * f32x16::broadcast(scale);
    if (softcap > 0) {
      const f32x16 cap = f32x16::broadcast(softcap);
      s[v] = cap * tanh(s[v] / cap);
    }
    if (masked) {
      const i32x16 j = i32x16::iota() + i32x16::broadcast(16 * v);
      const auto visible = (j >= i32x16::broadcast(first_visible)) & (j < i32x16::broadcast(end_visible));
      s[v] = select(visible, s[v], f32x16::broadcast(-__builtin_inff()));
    }
    largest = max(largest, s[v]);
  }
  const float top = reduce_max(largest);
  f32x16 partial = f32x16::zero();
  for (int v = 0; v < kVecs; ++v) {
    const f32x16 e = exp(s[v] - f32x16::broadcast(top));
    partial = partial + e;
    e.store(score + 16 * v);
  }
  *chunk_max = top;
  return reduce_add(partial);
}

QUERN_FN float exp1(float x) {
  return exp(lat<f32, 4>::broadcast(x)).lane(0);
}

struct Unit {
  const Span* span;
  int first_row;  // in the run
  int n_tokens;
  int first_head, n_heads;  // sharing one key head
};

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
  const int first_position = u.span->first_position + u.first_row - u.span->first_row,
            last_position = first_position + u.n_tokens - 1;
  const int first_seen = a.window > 0 && first_position - a.window + 1 > 0 ? first_position - a.window + 1 : 0;
  const size_t k_offset = a.place.k_offset + static_cast<size_t>(kv_head) * a.place.head_bytes();
  const size_t v_offset = a.place.v_offset + static_cast<size_t>(kv_head) * a.place.head_bytes();
  for (int chunk = first_seen / kPagePositions; chunk <= last_position / kPagePositions; ++chunk) {
    const std::byte* page = u.span->pages[a.place.kind][chunk];
    const int base = chunk * kPagePositions;
    product(tile.q, hd, n_rows, reinterpret_cast<const u16*>(page + k_offset), kPagePositions, hd, tile.score,
            kPagePositions, kPagePositions);
    float take[kMaxQueries > 256 ? kMaxQueries : 256];
    float keep[kMaxQueries > 256 ? kMaxQueries : 256];
    for (int r = 0; r < n_rows; ++r) {
      const int position = first_position + r / u.n_heads;
      const int first = a.window > 0 ? position - a.window + 1 - base : 0;
      float chunk_max = 0;
      const float sum =
          soften(tile.score + r * kPagePositions, a.scale, a.softcap, first, position + 1 - base, &chunk_max);
      const float new_max = tile.max[r] < chunk_max ? chunk_max : tile.max[r];
      keep[r] = exp1(tile.max[r] - new_max);
      take[r] = exp1(chunk_max - new_max);
      tile.sum[r] = __builtin_fmaf(sum, take[r], tile.sum[r] * keep[r]);
      tile.max[r] = new_max;
    }
    product(tile.score, kPagePositions, n_rows, reinterpret_cast<const u16*>(page + v_offset), hd, kPagePositions,
            tile.part, hd, hd / 16 * 16);
    for (int r = 0; r < n_rows; ++r) {
      for (int i = 0; i < hd; i += 16) {
        float* out = tile.out + r * hd + i;
        fma(f32x16::load(tile.part + r * hd + i), f32x16::broadcast(take[r]),
            f32x16::load(out) * f32x16::broadcast(keep[r]))
            .store(out);
      }
    }
  }
  for (int r = 0; r < n_rows; ++r) {
    const int t = r / u.n_heads, head = u.first_head + r % u.n_heads;
    float sum = tile.sum[r], scale = 1.0F;
    if (a.sinks != nullptr) {
      const float new_max = tile.max[r] < a.sinks[head] ? a.sinks[head] : tile.max[r];
      scale = exp1(tile.max[r] - new_max);
      sum = __builtin_fmaf(tile.sum[r], scale, exp1(a.sinks[head] - new_max));
    }
    const f32x16 inverse = f32x16::broadcast(scale / sum);
    float* out = a.out + (static_cast<int64_t>(u.first_row + t) * a.n_heads + head) * hd;
    for (int i = 0; i < hd; i += 16) (f32x16::load(tile.out + r * hd + i) * inverse).store(out + i);
  }
}

void attention(const AttentionArgs& a, const RunContext& ctx, const Worker& w) {
  const int group = a.n_heads / a.place.n_kv_heads;
  // One token: heads one by one, so that more threads have work.
  const int heads = ctx.n_rows == 1 ? 1 : group;
  const int tokens = kMaxQueries / heads > 1 ? kMaxQueries / heads : 1;
  int64_t unit = 0;
  for (int s = 0; s < ctx.n_spans; ++s) {
    const Span& span = ctx.spans[s];
    for (int t = 0; t < span.n_rows; t += tokens) {
      for (int h = 0; h < a.n_heads; h += heads, ++unit) {
        // Later tiles see more keys: neighbouring units go to different threads.
        if (unit % w.n_threads != w.thread) continue;
        const int n_tokens = span.n_rows - t < tokens ? span.n_rows - t : tokens;
        attend(a, {&span, span.first_row + t, n_tokens, h, heads}, w.scratch);
      }
    }
  }
}

// Sixteen numbers as f16, clamped to its range so that no stored value is infinite.
QUERN_FN void store_clamped(const f32x16& x, u16* out) {
  const f32x16 limit = f32x16::broadcast(65504.0F);
  const f32x16 low = select(x < -limit, -limit, x);
  select(limit < low, limit, low).store_f16(out);
}

// Values lie by position, keys by dimension: a key's numbers are scattered over its page.
void kv_store(const KvStoreArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
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
};

}  // namespace

const KernelList kAttention = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
