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
// As idot4, exact and cheaper on some tiers, where the caller knows: u8 a: every a <= 127, or every b within -64 and
// 64; i8 a: no b is -128.
template <class A, int N>
QUERN_FN lattice<i32, N> idot4_small(lattice<i32, N> acc, lattice<A, 4 * N> a, lattice<i8, 4 * N> b) {
  static_assert(sizeof(A) == 1);
  if constexpr (kNative<i32, N>) {
    return lattice<i32, N>(p_idot4_small<A, N>(acc.v, a.v, b.v));
  } else {
    return lattice<i32, N>(idot4_small(acc.lo, a.lo, b.lo), idot4_small(acc.hi, a.hi, b.hi));
  }
}
// As idot4 of u8 a, exact and cheaper on some tiers, where the caller knows that every b is within -64 and 64.
template <int N>
QUERN_FN lattice<i32, N> idot4_narrow(lattice<i32, N> acc, lattice<u8, 4 * N> a, lattice<i8, 4 * N> b) {
  if constexpr (kNative<i32, N>) {
    return lattice<i32, N>(p_idot4_narrow<N>(acc.v, a.v, b.v));
  } else {
    return lattice<i32, N>(idot4_narrow(acc.lo, a.lo, b.lo), idot4_narrow(acc.hi, a.hi, b.hi));
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

// Four reductions at once, by the same tree: lanes 4 i to 4 i + 3 are that of v[i]. (max of floats: only lane 4 i, the
// order of the operands would matter to NaN and zeros.)
#define QUERN_REDUCE4(name, step)                                                             \
  template <class T>                                                                          \
  QUERN_FN lattice<T, 4> name##_quarter(lattice<T, 4> a) {                                    \
    using V = lattice<T, 4>;                                                                  \
    const V b = step(a, V(p_swap8<T>(a.v)));                                                  \
    return step(b, V(p_swap4<T>(b.v)));                                                       \
  }                                                                                           \
  template <class T>                                                                          \
  QUERN_FN lattice<T, 16> name(const lattice<T, 16>* v /*[4]*/) {                             \
    static_assert(sizeof(T) == 4);                                                            \
    if constexpr (kNative<T, 16>) {                                                           \
      using V = lattice<T, 16>;                                                               \
      const V a = step(V(p_halves<T, 0>(v[0].v, v[1].v)), V(p_halves<T, 8>(v[0].v, v[1].v))); \
      const V b = step(V(p_halves<T, 0>(v[2].v, v[3].v)), V(p_halves<T, 8>(v[2].v, v[3].v))); \
      const V c = step(V(p_quarters<T, 0>(a.v, b.v)), V(p_quarters<T, 4>(a.v, b.v)));         \
      const V d = step(c, V(p_swap8_all<T>(c.v)));                                            \
      return step(d, V(p_swap4_all<T>(d.v)));                                                 \
    } else {                                                                                  \
      lattice<T, 4> r[4];                                                                     \
      for (int i = 0; i < 4; ++i) {                                                           \
        const lattice<T, 8> half = step(lower(v[i]), upper(v[i]));                            \
        r[i] = name##_quarter<T>(step(lower(half), upper(half)));                             \
      }                                                                                       \
      return combine(combine(r[0], r[1]), combine(r[2], r[3]));                               \
    }                                                                                         \
  }
// Lanes kFirst to kFirst + 7 of a, then of b.
template <class T, int kFirst>
QUERN_FN vec<T, 16> p_halves(vec<T, 16> a, vec<T, 16> b) {
  constexpr int f = kFirst;
  return __builtin_shufflevector(a, b, f, f + 1, f + 2, f + 3, f + 4, f + 5, f + 6, f + 7, f + 16, f + 17, f + 18,
                                 f + 19, f + 20, f + 21, f + 22, f + 23);
}
// Four lanes from kFirst and from kFirst + 8 of a, then of b.
template <class T, int kFirst>
QUERN_FN vec<T, 16> p_quarters(vec<T, 16> a, vec<T, 16> b) {
  constexpr int f = kFirst;
  return __builtin_shufflevector(a, b, f, f + 1, f + 2, f + 3, f + 8, f + 9, f + 10, f + 11, f + 16, f + 17, f + 18,
                                 f + 19, f + 24, f + 25, f + 26, f + 27);
}
// Within each four lanes: 2 3 0 1, and 1 0 3 2.
template <class T>
QUERN_FN vec<T, 16> p_swap8_all(vec<T, 16> a) {
  return __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}
template <class T>
QUERN_FN vec<T, 16> p_swap4_all(vec<T, 16> a) {
  return __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
}
QUERN_REDUCE4(reduce4_add, operator+)
QUERN_REDUCE4(reduce4_max, max)

}  // namespace quern::lattice::QUERN_ISA
