// Lattice suite: f32 operators, and the elementary functions' values for the tests of math.h.
#include "lattice/math.h"
#include "suite_data.h"

namespace quern::lattice::QUERN_ISA {
namespace {

template <class Body>
void each_float(Body body) {
  each_width<f32>(body);
}
f32 with_bits(f32 a, u32 keep, u32 flip) {
  u32 bits;
  std::memcpy(&bits, &a, 4);
  return from_bits((bits & keep) ^ flip);
}
u32 bits(f32 a) {
  u32 x;
  std::memcpy(&x, &a, 4);
  return x;
}

constexpr Kind kNum = Kind::number;
QUERN_CASE2(add, each_float, kNum, a + b, a + b)
QUERN_CASE2(sub, each_float, kNum, a - b, a - b)
QUERN_CASE2(mul, each_float, kNum, a* b, a* b)
QUERN_CASE2(div, each_float, kNum, a / b, a / b)
QUERN_CASE3(fused_multiply_add, each_float, kNum, fma(a, b, c), __builtin_fmaf(a, b, c))
QUERN_CASE3(fma_of_negatives, each_float, kNum, fma(-a, b, -c), __builtin_fmaf(-a, b, -c))
// These move bits, so also a NaN comes through as it is.
QUERN_CASE2(minimum, each_float, Kind::bits, min(a, b), a < b ? a : b)
QUERN_CASE2(maximum, each_float, Kind::bits, max(a, b), a > b ? a : b)
QUERN_CASE1(negate, each_float, Kind::bits, -a, with_bits(a, ~0U, 0x80000000U))
QUERN_CASE1(absolute, each_float, Kind::bits, abs(a), with_bits(a, 0x7fffffffU, 0))
QUERN_CASE2(bit_and, each_float, Kind::bits, a& b, from_bits(bits(a) & bits(b)))
QUERN_CASE2(bit_or, each_float, Kind::bits, a | b, from_bits(bits(a) | bits(b)))
QUERN_CASE2(bit_xor, each_float, Kind::bits, a ^ b, from_bits(bits(a) ^ bits(b)))
QUERN_CASE1(bit_not, each_float, Kind::bits, ~a, from_bits(~bits(a)))
QUERN_CASE3(select_by_compare, each_float, Kind::bits, select(a < b, a, c), a < b ? a : c)
QUERN_CASE1(square_root, each_float, kNum, sqrt(a), __builtin_sqrtf(a))
QUERN_CASE1(round_even, each_float, kNum, round(a), __builtin_nearbyintf(a))
QUERN_CASE1(floor_down, each_float, kNum, floor(a), __builtin_floorf(a))
QUERN_CASE2(equal, each_float, kNum, a == b, a == b ? -1 : 0)
QUERN_CASE2(not_equal, each_float, kNum, a != b, a != b ? -1 : 0)
QUERN_CASE2(less, each_float, kNum, a < b, a < b ? -1 : 0)
QUERN_CASE2(less_equal, each_float, kNum, a <= b, a <= b ? -1 : 0)
QUERN_CASE2(greater, each_float, kNum, a > b, a > b ? -1 : 0)
QUERN_CASE2(greater_equal, each_float, kNum, a >= b, a >= b ? -1 : 0)

void compound(Report& report) {
  each_float([&]<class T, int N>() {
    using L = lattice<T, N>;
    const Inputs<T> in;
    T got[4][N], want[4][N];
    for (int i = 0; i < kInputs; i += N) {
      const L a = L::load(in.a + i), b = L::load(in.b + i);
      L r[4] = {a, a, a, a};
      r[0] += b, r[1] -= b, r[2] *= b, r[3] /= b;
      for (int k = 0; k < 4; ++k) r[k].store(got[k]);
      (a + b).store(want[0]), (a - b).store(want[1]), (a * b).store(want[2]), (a / b).store(want[3]);
      compare(report, "compound", Name<T, N>().text, kNum, sizeof(T), got, want, 4 * N);
    }
  });
}

// Negative controls.
QUERN_CASE3(control_fma_rounds_twice, each_float, kNum, a* b + c, __builtin_fmaf(a, b, c))
QUERN_CASE2(control_min_swapped, each_float, Kind::bits, min(b, a), a < b ? a : b)
QUERN_CASE1(control_round_up, each_float, kNum, floor(a + L::broadcast(0.5F)), __builtin_nearbyintf(a))
QUERN_CASE1(control_no_negative_zero, each_float, kNum, round(a) + L::zero(), __builtin_nearbyintf(a))
QUERN_CASE1(control_denormals_lost, each_float, kNum, select(abs(a) < L::broadcast(0x1p-126F), L::zero(), a), a)

constexpr lattice_suite::Case kCases[] = {
    QUERN_ROW(add),
    QUERN_ROW(sub),
    QUERN_ROW(mul),
    QUERN_ROW(div),
    QUERN_ROW(fused_multiply_add),
    QUERN_ROW(fma_of_negatives),
    QUERN_ROW(minimum),
    QUERN_ROW(maximum),
    QUERN_ROW(negate),
    QUERN_ROW(absolute),
    QUERN_ROW(bit_and),
    QUERN_ROW(bit_or),
    QUERN_ROW(bit_xor),
    QUERN_ROW(bit_not),
    QUERN_ROW(select_by_compare),
    QUERN_ROW(square_root),
    QUERN_ROW(round_even),
    QUERN_ROW(floor_down),
    QUERN_ROW(equal),
    QUERN_ROW(not_equal),
    QUERN_ROW(less),
    QUERN_ROW(less_equal),
    QUERN_ROW(greater),
    QUERN_ROW(greater_equal),
    QUERN_ROW(compound),
    QUERN_CONTROL(control_fma_rounds_twice),
    QUERN_CONTROL(control_min_swapped),
    QUERN_CONTROL(control_round_up),
    QUERN_CONTROL(control_no_negative_zero),
    QUERN_CONTROL(control_denormals_lost),
};

template <class F>
void map(F function, const float* in, float* out, int n) {
  for (int i = 0; i < n; i += 16) function(f32x16::load(in + i)).store(out + i);
}

}  // namespace

lattice_suite::Cases suite_floats() {
  return {kCases, sizeof kCases / sizeof kCases[0]};
}

void suite_evaluate(lattice_suite::Function f, const float* in, float* out, int n) {
  using lattice_suite::Function;
  switch (f) {
    case Function::exp:
      return map([](f32x16 x) { return exp(x); }, in, out, n);
    case Function::sigmoid:
      return map([](f32x16 x) { return sigmoid(x); }, in, out, n);
    case Function::silu:
      return map([](f32x16 x) { return silu(x); }, in, out, n);
    case Function::tanh:
      return map([](f32x16 x) { return tanh(x); }, in, out, n);
    case Function::gelu:
      return map([](f32x16 x) { return gelu(x); }, in, out, n);
    case Function::gelu_quick:
      return map([](f32x16 x) { return gelu_quick(x); }, in, out, n);
  }
}

}  // namespace quern::lattice::QUERN_ISA
