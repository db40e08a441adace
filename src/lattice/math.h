// lattice: elementary functions on f32 lanes. Only + - * / fma, compares and bit operations, in a fixed order, so every
// tier gives the same bits (NaN payloads aside). The errors stated here, in units in the last place, are the limits
// that tests/lattice holds them to against double precision.
//
// Use: after lattice.h, which says the tier: #include "lattice/math.h".
#pragma once

#include "lattice/lattice.h"

namespace quern::lattice::QUERN_ISA {

// e^x, 1 ulp. Below ln 2^-126 = -87.3365 it is 0 (no denormal results); above 88.7228 infinity; NaN stays NaN.
//
// x = n ln 2 + r, |r| <= ln 2 / 2: adding 1.5 * 2^23 leaves n in the low bits of the sum; e^r by a polynomial of degree
// 6 (minimax of (e^r - 1 - r) / r^2, relative error 0.05 ulp); 2^n goes into the exponent by integer addition, which
// also serves n = 128, where 2^n alone would be infinite.
template <int N>
QUERN_FN lattice<f32, N> exp(lattice<f32, N> x) {
  using F = lattice<f32, N>;
  const auto k = [](f32 c) __attribute__((always_inline)) {
    return F::broadcast(c);
  };
  const F shift = k(0x1.8p23F);
  const F moved = fma(x, k(0x1.715476p+0F), shift);
  const F n = moved - shift;
  const F r = fma(n, k(-0x1.7f7d1cp-20F), fma(n, k(-0x1.62e4p-1F), x));
  F p = fma(k(0x1.6a23dp-10F), r, k(0x1.123a2p-7F));
  p = fma(p, r, k(0x1.5558f2p-5F));
  p = fma(p, r, k(0x1.555492p-3F));
  p = fma(p, r, k(0x1.fffffcp-2F));
  p = fma(p, r, k(1.0F));
  p = fma(p, r, k(1.0F));
  const F scaled = as<f32>(as<u32>(p) + (as<u32>(moved) << 23));
  const F large = x * k(__builtin_inff());  // infinity, or the NaN of x
  const F upper_done = select(x <= k(0x1.62e42ep+6F), scaled, large);
  return select(x < k(-0x1.5d589ep+6F), F::zero(), upper_done);
}

// 1 / (1 + e^-x), 2.5 ulp above -87.33; 0 below.
template <int N>
QUERN_FN lattice<f32, N> sigmoid(lattice<f32, N> x) {
  const auto one = lattice<f32, N>::broadcast(1.0F);
  return one / (one + exp(-x));
}

// x / (1 + e^-x), 3 ulp above -88.7; -0 below. Minus infinity gives NaN, as the formula does.
template <int N>
QUERN_FN lattice<f32, N> silu(lattice<f32, N> x) {
  return x / (lattice<f32, N>::broadcast(1.0F) + exp(-x));
}

// tanh x, 1.5 ulp. Below 0.625 an odd polynomial of degree 11, from there on 1 - 2 / (e^2|x| + 1); the sign of x.
template <int N>
QUERN_FN lattice<f32, N> tanh(lattice<f32, N> x) {
  using F = lattice<f32, N>;
  const auto k = [](f32 c) __attribute__((always_inline)) {
    return F::broadcast(c);
  };
  const F size = abs(x), square = x * x;
  F p = fma(k(-0x1.75e1cp-8F), square, k(0x1.522698p-6F));
  p = fma(p, square, k(-0x1.b83c5ap-5F));
  p = fma(p, square, k(0x1.110726p-3F));
  p = fma(p, square, k(-0x1.555532p-2F));
  const F small = fma(p * square, size, size);
  const F far = k(1.0F) - k(2.0F) / (exp(size + size) + k(1.0F));
  return select(size < k(0.625F), small, far) | (x & k(-0.0F));
}

// GELU, tanh form: 0.5 x (1 + tanh u) with u = sqrt(2 / pi) x (1 + 0.044715 x^2), written as x / (1 + e^-2u), which is
// the same value without the cancellation for negative x. 3 ulp above -1; below, 1.2e-7 absolutely. Minus infinity
// gives NaN.
template <int N>
QUERN_FN lattice<f32, N> gelu(lattice<f32, N> x) {
  using F = lattice<f32, N>;
  const auto k = [](f32 c) __attribute__((always_inline)) {
    return F::broadcast(c);
  };
  const F minus_2u = x * fma(x * x, k(-0x1.2444f2p-4F), k(-0x1.988454p+0F));
  return x / (k(1.0F) + exp(minus_2u));
}

// GELU, sigmoid form: x / (1 + e^(-1.702 x)); errors as gelu.
template <int N>
QUERN_FN lattice<f32, N> gelu_quick(lattice<f32, N> x) {
  using F = lattice<f32, N>;
  return x / (F::broadcast(1.0F) + exp(x * F::broadcast(-1.702F)));
}

}  // namespace quern::lattice::QUERN_ISA
