// lattice backend: plain C++ on groups of 16 bytes, for any processor. Lane loops that the compiler may vectorise; the
// slow, obvious meaning of each primitive.
#pragma once

namespace quern::lattice::QUERN_ISA {

inline constexpr int kRegBytes = 16;

template <class T, int N>
QUERN_FN vec<T, N> p_splat(T x) {
  bits_of<T> bits;
  std::memcpy(&bits, &x, sizeof x);
  return (vec<T, N>)(vec<bits_of<T>, N>{} + bits);
}
// A register is 16 bytes, so it has no halves.
template <class T, int N>
vec<T, N / 2> p_lower(vec<T, N> a) = delete;
template <class T, int N>
vec<T, N / 2> p_upper(vec<T, N> a) = delete;

template <class T, int N>
QUERN_FN vec<T, N> p_min(vec<T, N> a, vec<T, N> b) {
  return a < b ? a : b;
}
template <class T, int N>
QUERN_FN vec<T, N> p_max(vec<T, N> a, vec<T, N> b) {
  return a > b ? a : b;
}
// x clamped to the values of T.
template <class T>
QUERN_FN T saturate(i32 x) {
  constexpr i32 kLow = kIsSigned<T> ? -(1 << (8 * sizeof(T) - 1)) : 0;
  constexpr i32 kHigh = kIsSigned<T> ? (1 << (8 * sizeof(T) - 1)) - 1 : (1 << (8 * sizeof(T))) - 1;
  return static_cast<T>(x < kLow ? kLow : x > kHigh ? kHigh : x);
}
// All lanes by one count, which is already masked.
template <class T, int N>
QUERN_FN vec<T, N> p_shl_all(vec<T, N> a, int n) {
  using U = vec<bits_of<T>, N>;
  return (vec<T, N>)((U)a << p_splat<bits_of<T>, N>(static_cast<bits_of<T>>(n)));
}
template <class T, int N>
QUERN_FN vec<T, N> p_shr_all(vec<T, N> a, int n) {
  return a >> p_splat<T, N>(static_cast<T>(n));
}

template <class T, int N>
QUERN_FN vec<T, N> p_add_sat(vec<T, N> a, vec<T, N> b) {
  static_assert(sizeof(T) <= 2, "saturating sums are for 8 and 16 bits");
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = saturate<T>(i32{a[i]} + i32{b[i]});
  return r;
}
template <class T, int N>
QUERN_FN vec<T, N> p_sub_sat(vec<T, N> a, vec<T, N> b) {
  static_assert(sizeof(T) <= 2, "saturating sums are for 8 and 16 bits");
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = saturate<T>(i32{a[i]} - i32{b[i]});
  return r;
}

template <int N>
QUERN_FN vec<f32, N> p_fma(vec<f32, N> a, vec<f32, N> b, vec<f32, N> c) {
  vec<f32, N> r;
  for (int i = 0; i < N; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
template <class T, int N>
QUERN_FN vec<f32, N> p_sqrt(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  vec<f32, N> r;
  for (int i = 0; i < N; ++i) r[i] = __builtin_sqrtf(a[i]);
  return r;
}
// The sign of s on the size of a.
template <int N>
QUERN_FN vec<f32, N> with_sign(vec<f32, N> a, vec<f32, N> s) {
  const vec<u32, N> sign = p_splat<u32, N>(0x80000000U);
  return (vec<f32, N>)(((vec<u32, N>)a & ~sign) | ((vec<u32, N>)s & sign));
}
// Adding and taking off 2^23 leaves no fraction bits; from 2^23 on there are none.
template <class T, int N>
QUERN_FN vec<f32, N> p_round(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  const vec<f32, N> big = p_splat<f32, N>(8388608.0F);
  const vec<f32, N> size = (vec<f32, N>)((vec<u32, N>)a & p_splat<u32, N>(0x7fffffffU));
  const vec<f32, N> whole = with_sign<N>((size + big) - big, a);
  return size < big ? whole : a;
}
template <class T, int N>
QUERN_FN vec<f32, N> p_floor(vec<f32, N> a) {
  const vec<f32, N> r = p_round<T, N>(a);
  return with_sign<N>(r > a ? r - p_splat<f32, N>(1.0F) : r, a);
}
template <int N>
QUERN_FN vec<i32, N> p_round_i32(vec<f32, N> a) {
  const vec<f32, N> r = p_round<f32, N>(a), limit = p_splat<f32, N>(2147483648.0F);
  const vec<i32, N> inside = (r >= -limit) & (r < limit);
  const vec<f32, N> safe = inside ? r : vec<f32, N>{};
  return inside ? __builtin_convertvector(safe, vec<i32, N>) : p_splat<i32, N>(INT32_MIN);
}
template <class T, int N>
QUERN_FN bool p_any(vec<T, N> m) {
  u32 bits[4];
  std::memcpy(bits, &m, 16);
  return (bits[0] | bits[1] | bits[2] | bits[3]) != 0;
}

template <class D, class S, int N>
QUERN_FN vec<D, N / 2> p_widen_lo(vec<S, N> a) {
  vec<D, N / 2> r{};
  for (int i = 0; i < N / 2; ++i) r[i] = static_cast<D>(a[i]);
  return r;
}
template <class D, class S, int N>
QUERN_FN vec<D, N / 2> p_widen_hi(vec<S, N> a) {
  vec<D, N / 2> r{};
  for (int i = 0; i < N / 2; ++i) r[i] = static_cast<D>(a[N / 2 + i]);
  return r;
}
template <class D, class S, int N>
QUERN_FN vec<D, N> p_narrow_pair(vec<S, N / 2> lo, vec<S, N / 2> hi) {
  vec<D, N> r{};
  for (int i = 0; i < N / 2; ++i) {
    r[i] = saturate<D>(lo[i]);
    r[N / 2 + i] = saturate<D>(hi[i]);
  }
  return r;
}

// Half bits in the low 16 of each lane.
QUERN_FN vec<f32, 4> half_to_float(vec<u32, 4> h) {
  const auto k = [](u32 x) __attribute__((always_inline)) {
    return p_splat<u32, 4>(x);
  };
  const vec<u32, 4> sign = (h & k(0x8000U)) << k(16), size = h & k(0x7fffU), wide = size << k(13);
  const vec<u32, 4> normal = wide + k(112U << 23);
  const vec<u32, 4> top = wide | k(0x7f800000U) | (size > k(0x7c00U) ? k(0x00400000U) : k(0));
  // A denormal is its bits times 2^-24, exactly.
  const vec<f32, 4> tiny = __builtin_convertvector((vec<i32, 4>)size, vec<f32, 4>) * p_splat<f32, 4>(0x1p-24F);
  const vec<u32, 4> finite = size < k(0x0400U) ? (vec<u32, 4>)tiny : normal;
  return (vec<f32, 4>)((size >= k(0x7c00U) ? top : finite) | sign);
}
QUERN_FN vec<u32, 4> float_to_half(vec<f32, 4> a) {
  const auto k = [](u32 x) __attribute__((always_inline)) {
    return p_splat<u32, 4>(x);
  };
  const vec<u32, 4> bits = (vec<u32, 4>)a, size = bits & k(0x7fffffffU), sign = (bits >> k(16)) & k(0x8000U);
  // The carry of rounding reaches infinity by itself from 65520 on.
  const vec<u32, 4> normal = (size - k(112U << 23) + k(0xfffU) + ((size >> k(13)) & k(1))) >> k(13);
  // Below 2^-14 the addition of 0.5 rounds to multiples of 2^-24.
  const vec<f32, 4> moved = (vec<f32, 4>)size + p_splat<f32, 4>(0.5F);
  const vec<u32, 4> tiny = (vec<u32, 4>)moved - k(0x3f000000U);
  const vec<u32, 4> finite = size < k(0x38800000U) ? tiny : normal;
  const vec<u32, 4> nan = k(0x7e00U) | ((size >> k(13)) & k(0x3ffU));
  const vec<u32, 4> top = size > k(0x7f800000U) ? nan : k(0x7c00U);
  return (size >= k(0x47800000U) ? top : finite) | sign;
}
template <int N>
QUERN_FN vec<f32, N / 2> p_from_f16_lo(vec<u16, N> h) {
  return half_to_float(p_widen_lo<u32, u16, N>(h));
}
template <int N>
QUERN_FN vec<f32, N / 2> p_from_f16_hi(vec<u16, N> h) {
  return half_to_float(p_widen_hi<u32, u16, N>(h));
}
template <int N>
QUERN_FN vec<u16, N> p_to_f16_pair(vec<f32, N / 2> lo, vec<f32, N / 2> hi) {
  return p_narrow_pair<u16, i32, N>((vec<i32, N / 2>)float_to_half(lo), (vec<i32, N / 2>)float_to_half(hi));
}

template <class A, int N>
QUERN_FN vec<i32, N> p_idot4(vec<i32, N> acc, vec<A, 4 * N> a, vec<i8, 4 * N> b) {
  for (int i = 0; i < N; ++i) {
    i32 sum = 0;
    for (int k = 4 * i; k < 4 * i + 4; ++k) sum += i32{a[k]} * i32{b[k]};
    acc[i] = static_cast<i32>(static_cast<u32>(acc[i]) + static_cast<u32>(sum));
  }
  return acc;
}
template <class A, int N>
QUERN_FN vec<i32, N> p_idot4_small(vec<i32, N> acc, vec<A, 4 * N> a, vec<i8, 4 * N> b) {
  return p_idot4<A, N>(acc, a, b);
}
template <int N>
QUERN_FN vec<i32, N> p_idot4_narrow(vec<i32, N> acc, vec<u8, 4 * N> a, vec<i8, 4 * N> b) {
  return p_idot4<u8, N>(acc, a, b);
}
template <int N>
QUERN_FN vec<i32, N> p_idot2(vec<i32, N> acc, vec<i16, 2 * N> a, vec<i16, 2 * N> b) {
  for (int i = 0; i < N; ++i) {
    const u32 even = static_cast<u32>(i32{a[2 * i]} * i32{b[2 * i]});
    const u32 odd = static_cast<u32>(i32{a[2 * i + 1]} * i32{b[2 * i + 1]});
    acc[i] = static_cast<i32>(static_cast<u32>(acc[i]) + even + odd);
  }
  return acc;
}

// Indices are below 16.
template <int N>
QUERN_FN vec<u8, N> p_shuffle(vec<u8, N> table, vec<u8, N> index) {
  vec<u8, N> r;
  for (int i = 0; i < N; ++i) r[i] = table[index[i] & 15];
  return r;
}
template <class T, int N>
QUERN_FN vec<T, N> p_zip_lo(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = i % 2 == 0 ? a[i / 2] : b[i / 2];
  return r;
}
template <class T, int N>
QUERN_FN vec<T, N> p_zip_hi(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = i % 2 == 0 ? a[N / 2 + i / 2] : b[N / 2 + i / 2];
  return r;
}

}  // namespace quern::lattice::QUERN_ISA
