// lattice: operations across lanes: dot products of neighbours, byte shuffles, reductions.
#pragma once

namespace quern::lattice::QUERN_ISA {

// acc[i] + sum over k < 4 of a[4i+k] * b[4i+k], exact (the i32 sum wraps). A is u8 or i8.
template <class A, int N>
QUERN_FN lattice<i32, N> idot4(lattice<i32, N> acc, lattice<A, 4 * N> a, lattice<i8, 4 * N> b) {
  static_assert(sizeof(A) == 1);
  if constexpr (kNative<i32, N>) {
    return lattice<i32, N>(p_idot4<A, N>(acc.v, a.v, b.v));
  } else {
    return lattice<i32, N>(idot4(acc.lo, a.lo, b.lo), idot4(acc.hi, a.hi, b.hi));
  }
}
// As idot4, exact and cheaper on some tiers, where the caller knows: u8 a: every a <= 127; i8 a: no b is -128.
template <class A, int N>
QUERN_FN lattice<i32, N> idot4_small(lattice<i32, N> acc, lattice<A, 4 * N> a, lattice<i8, 4 * N> b) {
  static_assert(sizeof(A) == 1);
  if constexpr (kNative<i32, N>) {
    return lattice<i32, N>(p_idot4_small<A, N>(acc.v, a.v, b.v));
  } else {
    return lattice<i32, N>(idot4_small(acc.lo, a.lo, b.lo), idot4_small(acc.hi, a.hi, b.hi));
  }
}
// acc[i] + a[2i] * b[2i] + a[2i+1] * b[2i+1]; the i32 sum wraps.
template <int N>
QUERN_FN lattice<i32, N> idot2(lattice<i32, N> acc, lattice<i16, 2 * N> a, lattice<i16, 2 * N> b) {
  if constexpr (kNative<i32, N>) {
    return lattice<i32, N>(p_idot2<N>(acc.v, a.v, b.v));
  } else {
    return lattice<i32, N>(idot2(acc.lo, a.lo, b.lo), idot2(acc.hi, a.hi, b.hi));
  }
}

// Within each group of 16 bytes: lane i takes table[index[i]] of its group. T is u8 or i8; every index is below 16.
template <class T, int N>
QUERN_FN lattice<T, N> shuffle_small(lattice<T, N> table, lattice<u8, N> index) {
  static_assert(sizeof(T) == 1);
  if constexpr (kNative<T, N>) {
    return lattice<T, N>((vec<T, N>)p_shuffle<N>((vec<u8, N>)table.v, index.v));
  } else {
    return lattice<T, N>(shuffle_small(table.lo, index.lo), shuffle_small(table.hi, index.hi));
  }
}
// The same for any index, of which the low 4 bits count.
template <class T, int N>
QUERN_FN lattice<T, N> shuffle(lattice<T, N> table, lattice<u8, N> index) {
  return shuffle_small(table, index & lattice<u8, N>::broadcast(15));
}
// A 16-byte lattice repeated until it fills R.
template <class R, class T, int N>
QUERN_FN R repeat16(lattice<T, N> a) {
  static_assert(N * sizeof(T) == 16 && kIsSame<typename R::element, T>);
  if constexpr (!kNative<T, R::kLanes>) {
    return R(repeat16<typename R::half>(a), repeat16<typename R::half>(a));
  } else if constexpr (R::kBytes == 16) {
    return a;
  } else {
    return R(p_repeat16<T, R::kLanes>(a.v));
  }
}
// table[index[i] & 15] for every lane. T is u8 or i8.
template <class T, int N>
QUERN_FN lattice<T, N> lookup16(lattice<T, 16> table, lattice<u8, N> index) {
  return shuffle(repeat16<lattice<T, N>>(table), index);
}

// The same where every index is below 16.
template <class T, int N>
QUERN_FN lattice<T, N> lookup16_small(lattice<T, 16> table, lattice<u8, N> index) {
  return shuffle_small(repeat16<lattice<T, N>>(table), index);
}

// Within each group of 16 bytes: a and b interleaved (a0 b0 a1 b1 …) from their lower, upper 8 bytes.
template <class T, int N>
QUERN_FN lattice<T, N> zip_lo(lattice<T, N> a, lattice<T, N> b) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N>(p_zip_lo<T, N>(a.v, b.v));
  } else {
    return lattice<T, N>(zip_lo(a.lo, b.lo), zip_lo(a.hi, b.hi));
  }
}
template <class T, int N>
QUERN_FN lattice<T, N> zip_hi(lattice<T, N> a, lattice<T, N> b) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N>(p_zip_hi<T, N>(a.v, b.v));
  } else {
    return lattice<T, N>(zip_hi(a.lo, b.lo), zip_hi(a.hi, b.hi));
  }
}

// Canonical reductions, one fixed tree on every tier: lane i meets lane i + N/2, then i + N/4, …, then i + 1.
#define QUERN_REDUCE(name, step)               \
  template <class T, int N>                    \
  QUERN_FN T name(lattice<T, N> a) {           \
    static_assert(sizeof(T) == 4);             \
    if constexpr (N > 4) {                     \
      return name(step(lower(a), upper(a)));   \
    } else {                                   \
      using V = lattice<T, 4>;                 \
      const V b = step(a, V(p_swap8<T>(a.v))); \
      const V c = step(b, V(p_swap4<T>(b.v))); \
      return c.v[0];                           \
    }                                          \
  }
// Lanes 2 3 0 1, lanes 1 0 3 2 of four.
template <class T>
QUERN_FN vec<T, 4> p_swap8(vec<T, 4> a) {
  return __builtin_shufflevector(a, a, 2, 3, 0, 1);
}
template <class T>
QUERN_FN vec<T, 4> p_swap4(vec<T, 4> a) {
  return __builtin_shufflevector(a, a, 1, 0, 3, 2);
}
QUERN_REDUCE(reduce_add, operator+)
QUERN_REDUCE(reduce_max, max)
QUERN_REDUCE(reduce_min, min)

}  // namespace quern::lattice::QUERN_ISA
