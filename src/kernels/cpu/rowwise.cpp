// Row-wise ops in vectors of 16 floats: norms, residual add, rotation, activations, quantization. Every result has the
// bits of ref/rowwise.cpp. Memory: each reads its rows once and writes them once.
#include "format/activation.h"
#include "kernels/cpu/tier.h"

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
  const Range r = share(row_count(ctx, a.rows), w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const int64_t source = a.gather ? ctx.out_rows[row] : row;
    norm(a.in + source * a.n_dim, a.weight, a.n_dim, a.eps, a.out + row * a.n_dim);
  }
}

void head_norm(const HeadNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
  for (int64_t head = r.begin * a.n_heads; head < r.end * a.n_heads; ++head) {
    float* x = a.x + head * a.head_dim;
    norm(x, a.weight, a.head_dim, a.eps, x);
  }
}

void add(const AddArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
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
  const Range r = share(ctx.n_rows, w);
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

template <ActFn kFn>
QUERN_FN void act_mul_range(const float* gate, const float* up, int64_t n, float* out) {
  by_16(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const f32x16 g = load_n(gate + i, lanes), u = load_n(up + i, lanes);
        store_n((kFn == ActFn::silu ? silu(g) : gelu(g)) * u, out + i, lanes);
      });
}

void act_mul(const ActMulArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
  const int64_t first = r.begin * a.n, n = (r.end - r.begin) * a.n;
  if (a.fn == ActFn::silu) {
    act_mul_range<ActFn::silu>(a.gate + first, a.up + first, n, a.out + first);
  } else {
    act_mul_range<ActFn::gelu_tanh>(a.gate + first, a.up + first, n, a.out + first);
  }
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

// One block of kVectors * 16 values: format/activation.h states the rule. Sums are per kSum vectors.
template <int kVectors, int kSum>
QUERN_FN void quantize_block(const float* x, i8* codes, float* d, i32* sums) {
  const i32x16 magnitude = i32x16::broadcast(0x7fffffff);
  i32x16 largest = i32x16::zero();
  for (int v = 0; v < kVectors; ++v) largest = max(largest, as<i32>(f32x16::load(x + 16 * v)) & magnitude);
  const i32 bits = reduce_max(largest);
  float amax = 0;
  __builtin_memcpy(&amax, &bits, 4);
  const bool finite = bits < 0x7f800000;
  if (!finite || amax < format::kTinyAmax) {
    *d = finite ? 0.0F : __builtin_nanf("");
    __builtin_memset(codes, 0, kVectors * 16);
    __builtin_memset(sums, 0, kVectors / kSum * sizeof(i32));
    return;
  }
  // Whether a step is the best so far: all candidates are tried side by side.
  f32x16 inverse[format::kStepCount], squares[format::kStepCount];
#pragma GCC unroll unroll(4)
  for (int k = 0; k < format::kStepCount; ++k) {
    inverse[k] = f32x16::broadcast(static_cast<float>(127 - k) / amax);
    squares[k] = f32x16::zero();
  }
  for (int v = 0; v < kVectors; ++v) {
    const f32x16 value = f32x16::load(x + 16 * v);
#pragma GCC unroll unroll(4)
    for (int k = 0; k < format::kStepCount; ++k) {
      const f32x16 scaled = value * inverse[k], r = scaled - round(scaled);
      squares[k] = squares[k] + r * r;
    }
  }
  float least = reduce_add(squares[0]), best = 127.0F;
#pragma GCC unroll unroll(4)
  for (int k = 1; k < format::kStepCount; ++k) {
    const float error = reduce_add(squares[k]) * format::kStepWeights[k];
    best = error < least ? static_cast<float>(127 - k) : best;
    least = error < least ? error : least;
  }
  *d = amax / best;
  const f32x16 chosen = f32x16::broadcast(best / amax);
  i32x16 sum = i32x16::zero();
  for (int v = 0; v < kVectors; ++v) {
    const i32x16 q = round_i32(f32x16::load(x + 16 * v) * chosen);
    narrow<i8>(q).store(codes + 16 * v);
    sum = sum + q;
    if (v % kSum == kSum - 1) {
      sums[v / kSum] = reduce_add(sum);
      sum = i32x16::zero();
    }
  }
}

// x - d * q of one block: what rounding left over.
template <int kVectors>
QUERN_FN void leave_rest(const float* x, const i8* codes, float d, float* rest) {
  const f32x16 minus_d = f32x16::broadcast(-d);
  for (int v = 0; v < kVectors; ++v) {
    const f32x16 q = to_f32(widen<i32>(lat<i8, 16>::load(codes + 16 * v)));
    fma(minus_d, q, f32x16::load(x + 16 * v)).store(rest + 16 * v);
  }
}

template <int kBlock>
void quantize(const QuantizeArgs& a, const RunContext& ctx, const Worker& w) {
  constexpr int kSumWidth = kBlock == 32 ? 32 : 16, kVectors = kBlock / 16, kSums = kBlock / kSumWidth;
  const format::ActivationLayout layout = format::activation_layout(a.format, static_cast<size_t>(a.n));
  const int n_planes = format::plane_count(a.format);
  const Range r = share(row_count(ctx, a.rows), w);
  const size_t n_d = static_cast<size_t>(a.n / kBlock), n_sums = static_cast<size_t>(a.n / kSumWidth);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const float* x = a.in + row * a.n;
    std::byte* out = a.out + static_cast<size_t>(row) * a.out_stride;
    for (int b = 0; b < a.n / kBlock; ++b) {
      float rest[kBlock];
      const float* source = x + b * kBlock;
      for (int p = 0; p < n_planes; ++p) {
        std::byte* plane = out + static_cast<size_t>(p) * layout.plane_bytes;
        i8* codes = reinterpret_cast<i8*>(plane) + b * kBlock;
        float* d = reinterpret_cast<float*>(plane + layout.d_offset) + b;
        i32* sums = reinterpret_cast<i32*>(plane + layout.sums_offset) + b * kSums;
        quantize_block<kVectors, kSumWidth / 16>(source, codes, d, sums);
        if (p + 1 < n_planes) leave_rest<kVectors>(source, codes, *d, rest);
        source = rest;
      }
    }
    for (int p = 0; p < n_planes; ++p) {
      std::byte* plane = out + static_cast<size_t>(p) * layout.plane_bytes;
      __builtin_memset(plane + a.n, 0, layout.d_offset - static_cast<size_t>(a.n));
      __builtin_memset(plane + layout.d_offset + n_d * 4, 0, layout.sums_offset - layout.d_offset - n_d * 4);
      __builtin_memset(plane + layout.sums_offset + n_sums * 4, 0,
                       layout.plane_bytes - layout.sums_offset - n_sums * 4);
    }
  }
}

constexpr Kernel row(Op op, const char* name, KernelFn fn, ActivationFormat act = ActivationFormat::f32) {
  return {{op, format::Format::f32, act}, own_isa(), own_priority(), name, fn};
}

constexpr Kernel kRows[] = {
    row(Op::rms_norm, QUERN_NAME("rms_norm"), &Erased<&rms_norm>::call),
    row(Op::head_norm, QUERN_NAME("head_norm"), &Erased<&head_norm>::call),
    row(Op::add, QUERN_NAME("add"), &Erased<&add>::call),
    row(Op::rope, QUERN_NAME("rope"), &Erased<&rope>::call),
    row(Op::act_mul, QUERN_NAME("act_mul"), &Erased<&act_mul>::call),
    row(Op::softcap, QUERN_NAME("softcap"), &Erased<&softcap>::call),
    row(Op::quantize, QUERN_NAME("quantize_q8_32"), &Erased<&quantize<32>>::call, ActivationFormat::q8_32),
    row(Op::quantize, QUERN_NAME("quantize_q8_256"), &Erased<&quantize<256>>::call, ActivationFormat::q8_256),
    row(Op::quantize, QUERN_NAME("quantize_q8_32x2"), &Erased<&quantize<32>>::call, ActivationFormat::q8_32x2),
    row(Op::quantize, QUERN_NAME("quantize_q8_256x2"), &Erased<&quantize<256>>::call, ActivationFormat::q8_256x2),
};

}  // namespace

const KernelList kRowwise = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
