// Row-wise ops in vectors of 16 floats: norms, residual add, rotation, activations. Every result has the
// bits of ref/rowwise.cpp. Memory: each reads its rows once and writes them once.
#include "kernels/cpu/activations.h"

namespace quern::kernels::QUERN_ISA {
namespace {

// out = in * (1 / sqrt(mean(in^2) + eps)) * weight
QUERN_FN void norm(const float* in, const float* weight, int n, float eps, float* out) {
  f32x16 squares = f32x16::zero();
  by_16(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const f32x16 x = load_n(in + i, lanes);
        squares = fma(x, x, squares);
      });
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const f32x16 scale = f32x16::broadcast(1.0F / __builtin_sqrtf(mean + eps));
  by_16(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        store_n(load_n(in + i, lanes) * scale * load_n(weight + i, lanes), out + i, lanes);
      });
}

void rms_norm(const RmsNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(row_count(ctx, a.rows), w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const int64_t source = a.gather ? ctx.out_rows[row] : row;
    norm(a.in + source * a.n_dim, a.weight, a.n_dim, a.eps, a.out + row * a.n_dim);
  }
}

void head_norm(const HeadNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t head = r.begin * a.n_heads; head < r.end * a.n_heads; ++head) {
    float* x = a.x + head * a.head_dim;
    norm(x, a.weight, a.head_dim, a.eps, x);
  }
}

void add(const AddArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const int64_t first = r.begin * a.n;
  by_16((r.end - r.begin) * a.n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
    store_n(load_n(a.a + first + i, lanes) + load_n(a.b + first + i, lanes), a.out + first + i, lanes);
  });
}

// Neighbours swapped: lanes 1 0 3 2 ...
QUERN_FN f32x16 swap_neighbours(const f32x16& x) {
  alignas(16) static constexpr u8 kSwap[16] = {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11};
  return as<float>(shuffle_small(as<u8>(x), repeat16<u8x64>(u8x16::load(kSwap))));
}

QUERN_FN void rope_neox(float* x, const float* cosines, const float* sines, int n_pairs) {
  by_16(
      n_pairs, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const f32x16 x0 = load_n(x + i, lanes), x1 = load_n(x + n_pairs + i, lanes);
        const f32x16 c = load_n(cosines + i, lanes), s0 = load_n(sines + i, lanes),
                     s1 = load_n(sines + n_pairs + i, lanes);
        store_n(fma(x0, c, x1 * s0), x + i, lanes);
        store_n(fma(x1, c, x0 * s1), x + n_pairs + i, lanes);
      });
}

QUERN_FN void rope_neighbours(float* x, const float* cosines, const float* sines, int n_pairs) {
  by_16(
      2 * int64_t{n_pairs}, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const f32x16 v = load_n(x + i, lanes);
        store_n(fma(v, load_n(cosines + i, lanes), swap_neighbours(v) * load_n(sines + i, lanes)), x + i, lanes);
      });
}

void rope(const RopeArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const float* cosines = a.table + row * 4 * a.n_pairs;
    const float* sines = cosines + 2 * a.n_pairs;
    for (int h = 0; h < a.n_heads; ++h) {
      float* x = a.x + (row * a.n_heads + h) * a.head_dim;
      if (a.neox) {
        rope_neox(x, cosines, sines, a.n_pairs);
      } else {
        rope_neighbours(x, cosines, sines, a.n_pairs);
      }
    }
  }
}

void act_mul(const ActMulArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(row_count(ctx, a.rows), w);
  const int64_t first = r.begin * a.n, n = (r.end - r.begin) * a.n;
  const float* gate = a.gate + first;
  const float* up = a.up + first;
  float* out = a.out + first;
  with_fn(
      a.fn, [&](auto fn) __attribute__((always_inline)) {
        by_16(
            n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
              store_n(gated<decltype(fn)::kValue>(load_n(gate + i, lanes), load_n(up + i, lanes)), out + i, lanes);
            });
      });
}

void softcap(const SoftcapArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(row_count(ctx, a.rows) * a.n, w);
  const f32x16 cap = f32x16::broadcast(a.cap);
  float* x = a.x + r.begin;
  by_16(
      r.end - r.begin, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        store_n(cap * tanh(load_n(x + i, lanes) / cap), x + i, lanes);
      });
}

constexpr Kernel row(Op op, const char* name, KernelFn fn) {
  return {{op}, own_isa(), own_priority(), name, fn};
}

constexpr Kernel kRows[] = {
    row(Op::rms_norm, QUERN_NAME("rms_norm"), &Erased<&rms_norm>::call),
    row(Op::head_norm, QUERN_NAME("head_norm"), &Erased<&head_norm>::call),
    row(Op::add, QUERN_NAME("add"), &Erased<&add>::call),
    row(Op::rope, QUERN_NAME("rope"), &Erased<&rope>::call),
    row(Op::act_mul, QUERN_NAME("act_mul"), &Erased<&act_mul>::call),
    row(Op::softcap, QUERN_NAME("softcap"), &Erased<&softcap>::call),
};

}  // namespace

const KernelList kRowwise = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
