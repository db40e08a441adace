// lattice: the type, loads and stores, operators, compares, min/max. Conversions are in convert.h; dot products,
// shuffles and reductions in mix.h.
#pragma once

namespace quern::lattice::QUERN_ISA {

template <class T, int N>
struct lattice;

// A lattice that fits a register holds it (v); a wider one is a pair of halves, never an array: compilers keep nested
// members in registers where they would spill an indexed array. For the same reason lattices are passed by value.
template <class T, int N, bool kOneRegister>
struct storage;
template <class T, int N>
struct storage<T, N, true> {
  vec<T, N> v;
  storage() = default;
  QUERN_FN explicit storage(vec<T, N> x) : v(x) {}
};
template <class T, int N>
struct storage<T, N, false> {
  lattice<T, N / 2> lo, hi;
  storage() = default;
  QUERN_FN storage(lattice<T, N / 2> l, lattice<T, N / 2> h) : lo(l), hi(h) {}
};

template <class T, int N>
inline constexpr bool kNative = N* static_cast<int>(sizeof(T)) <= kRegBytes;

template <class T, int N>
struct lattice : storage<T, N, kNative<T, N>> {
  static_assert((N & (N - 1)) == 0 && N * sizeof(T) >= 16, "lanes are a power of two and fill at least 16 bytes");
  static constexpr int kLanes = N;
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  using element = T;
  using mask = lattice<mask_of<T>, N>;
  using half = lattice<T, N / 2>;

  lattice() = default;  // lanes not set
  using storage<T, N, kNative<T, N>>::storage;

  // From [N] elements, aligned as T is.
  static QUERN_FN lattice load(const T* p) {
    if constexpr (kNative<T, N>) {
      vec<T, N> v;
      std::memcpy(&v, p, sizeof v);
      return lattice(v);
    } else {
      return lattice(half::load(p), half::load(p + N / 2));
    }
  }
  // From [N] elements at an address that is a multiple of min(kBytes, 64).
  static QUERN_FN lattice load_aligned(const T* p) {
    constexpr size_t kAlign = kBytes < 64 ? kBytes : 64;
    return load(static_cast<const T*>(__builtin_assume_aligned(p, kAlign)));
  }
  QUERN_FN void store(T* p) const {
    if constexpr (kNative<T, N>) {
      std::memcpy(p, &this->v, sizeof this->v);
    } else {
      this->lo.store(p);
      this->hi.store(p + N / 2);
    }
  }
  QUERN_FN void store_aligned(T* p) const {
    constexpr size_t kAlign = kBytes < 64 ? kBytes : 64;
    store(static_cast<T*>(__builtin_assume_aligned(p, kAlign)));
  }

  static QUERN_FN lattice broadcast(T x) {
    if constexpr (kNative<T, N>) {
      return lattice(p_splat<T, N>(x));
    } else {
      return lattice(half::broadcast(x), half::broadcast(x));
    }
  }
  static QUERN_FN lattice zero() { return broadcast(T(0)); }
  // Lanes 0, 1, 2, …
  static QUERN_FN lattice iota() {
    T e[N];
    for (int i = 0; i < N; ++i) e[i] = static_cast<T>(i);
    return load(e);
  }
  // 4 bytes at p, any alignment, repeated over all lanes.
  static QUERN_FN lattice broadcast4(const void* p);

  // [N] f16 or bf16 values as their 16 bits.
  static QUERN_FN lattice load_f16(const u16* p) requires kIsFloat<T>;
  static QUERN_FN lattice load_bf16(const u16* p) requires kIsFloat<T>;
  QUERN_FN void store_f16(u16* p) const requires kIsFloat<T>;
  QUERN_FN void store_bf16(u16* p) const requires kIsFloat<T>;

  // Through memory: for tests and tails, not for inner loops.
  QUERN_FN T lane(int i) const {
    T e[N];
    store(e);
    return e[i];
  }
};

template <class T, int N>
using lat = lattice<T, N>;
using f32x8 = lattice<f32, 8>;
using f32x16 = lattice<f32, 16>;
using f32x32 = lattice<f32, 32>;
using i32x8 = lattice<i32, 8>;
using i32x16 = lattice<i32, 16>;
using u32x16 = lattice<u32, 16>;
using i16x16 = lattice<i16, 16>;
using i16x32 = lattice<i16, 32>;
using u16x16 = lattice<u16, 16>;
using u16x32 = lattice<u16, 32>;
using i8x16 = lattice<i8, 16>;
using i8x32 = lattice<i8, 32>;
using i8x64 = lattice<i8, 64>;
using u8x16 = lattice<u8, 16>;
using u8x32 = lattice<u8, 32>;
using u8x64 = lattice<u8, 64>;

// The same bits seen as lanes of U.
template <class U, class T, int N>
QUERN_FN auto as(lattice<T, N> a) {
  constexpr int M = N * static_cast<int>(sizeof(T) / sizeof(U) ? sizeof(T) / sizeof(U) : 1) /
                    static_cast<int>(sizeof(U) / sizeof(T) ? sizeof(U) / sizeof(T) : 1);
  using R = lattice<U, M>;
  if constexpr (kNative<T, N>) {
    return R((vec<U, M>)a.v);
  } else {
    return R(as<U>(a.lo), as<U>(a.hi));
  }
}

template <class T, int N>
QUERN_FN lattice<T, N> lattice<T, N>::broadcast4(const void* p) {
  u32 x;
  std::memcpy(&x, p, 4);
  return as<T>(lattice<u32, kBytes / 4>::broadcast(x));
}

template <class T, int N>
QUERN_FN lattice<T, N / 2> lower(lattice<T, N> a) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N / 2>(p_lower<T, N>(a.v));
  } else {
    return a.lo;
  }
}
template <class T, int N>
QUERN_FN lattice<T, N / 2> upper(lattice<T, N> a) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N / 2>(p_upper<T, N>(a.v));
  } else {
    return a.hi;
  }
}
template <class T, int N>
QUERN_FN lattice<T, 2 * N> combine(lattice<T, N> lo, lattice<T, N> hi) {
  if constexpr (kNative<T, 2 * N>) {
    return lattice<T, 2 * N>(p_combine<T, 2 * N>(lo.v, hi.v));
  } else {
    return lattice<T, 2 * N>(lo, hi);
  }
}

// --- Primitives that the compiler's own vector operators give on every backend. -----------------------------------

template <class T, int N>
QUERN_FN vec<T, N> p_add(vec<T, N> a, vec<T, N> b) {
  if constexpr (kIsFloat<T>) {
    return a + b;
  } else {
    using U = vec<bits_of<T>, N>;
    return (vec<T, N>)((U)a + (U)b);
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_sub(vec<T, N> a, vec<T, N> b) {
  if constexpr (kIsFloat<T>) {
    return a - b;
  } else {
    using U = vec<bits_of<T>, N>;
    return (vec<T, N>)((U)a - (U)b);
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_mul(vec<T, N> a, vec<T, N> b) {
  if constexpr (kIsFloat<T>) {
    return a * b;
  } else {
    using U = vec<bits_of<T>, N>;
    return (vec<T, N>)((U)a * (U)b);
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_div(vec<T, N> a, vec<T, N> b) {
  static_assert(kIsFloat<T>, "integers have no division");
  return a / b;
}
// Bitwise on any element type, floats by their bits.
template <class T, int N>
QUERN_FN vec<T, N> p_and(vec<T, N> a, vec<T, N> b) {
  using U = vec<bits_of<T>, N>;
  return (vec<T, N>)((U)a & (U)b);
}
template <class T, int N>
QUERN_FN vec<T, N> p_or(vec<T, N> a, vec<T, N> b) {
  using U = vec<bits_of<T>, N>;
  return (vec<T, N>)((U)a | (U)b);
}
template <class T, int N>
QUERN_FN vec<T, N> p_xor(vec<T, N> a, vec<T, N> b) {
  using U = vec<bits_of<T>, N>;
  return (vec<T, N>)((U)a ^ (U)b);
}
template <class T, int N>
QUERN_FN vec<T, N> p_not(vec<T, N> a) {
  return (vec<T, N>)(~(vec<bits_of<T>, N>)a);
}
// Counts are already masked.
template <class T, int N>
QUERN_FN vec<T, N> p_shl(vec<T, N> a, vec<T, N> count) {
  using U = vec<bits_of<T>, N>;
  return (vec<T, N>)((U)a << (U)count);
}
template <class T, int N>
QUERN_FN vec<T, N> p_shr(vec<T, N> a, vec<T, N> count) {
  return a >> count;
}
template <class T, int N>
QUERN_FN vec<T, N> p_select(vec<mask_of<T>, N> m, vec<T, N> a, vec<T, N> b) {
  return (m != (vec<mask_of<T>, N>){}) ? a : b;
}
template <class T, int N>
QUERN_FN vec<T, N> p_abs(vec<T, N> a) {
  static_assert(kIsSigned<T>, "unsigned lanes have no sign");
  if constexpr (kIsFloat<T>) {
    return (vec<T, N>)((vec<u32, N>)a & p_splat<u32, N>(0x7fffffffU));
  } else {
    return p_max<T, N>(a, p_sub<T, N>(vec<T, N>{}, a));  // the lowest value stays itself
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_neg(vec<T, N> a) {
  if constexpr (kIsFloat<T>) {
    return (vec<T, N>)((vec<u32, N>)a ^ p_splat<u32, N>(0x80000000U));
  } else {
    return p_sub<T, N>(vec<T, N>{}, a);
  }
}

// --- Lifting primitives to any N. ---------------------------------------------------------------------------------

#define QUERN_LIFT1(name, prim)                     \
  template <class T, int N>                         \
  QUERN_FN lattice<T, N> name(lattice<T, N> a) {    \
    if constexpr (kNative<T, N>) {                  \
      return lattice<T, N>(prim<T, N>(a.v));        \
    } else {                                        \
      return lattice<T, N>(name(a.lo), name(a.hi)); \
    }                                               \
  }
#define QUERN_LIFT2(name, prim)                                   \
  template <class T, int N>                                       \
  QUERN_FN lattice<T, N> name(lattice<T, N> a, lattice<T, N> b) { \
    if constexpr (kNative<T, N>) {                                \
      return lattice<T, N>(prim<T, N>(a.v, b.v));                 \
    } else {                                                      \
      return lattice<T, N>(name(a.lo, b.lo), name(a.hi, b.hi));   \
    }                                                             \
  }
#define QUERN_LIFT_COMPARE(name, op)                                       \
  template <class T, int N>                                                \
  QUERN_FN lattice<mask_of<T>, N> name(lattice<T, N> a, lattice<T, N> b) { \
    if constexpr (kNative<T, N>) {                                         \
      return lattice<mask_of<T>, N>((vec<mask_of<T>, N>)(a.v op b.v));     \
    } else {                                                               \
      return lattice<mask_of<T>, N>(name(a.lo, b.lo), name(a.hi, b.hi));   \
    }                                                                      \
  }
#define QUERN_COMPOUND(op)                                               \
  template <class T, int N, class B>                                     \
  QUERN_FN lattice<T, N>& operator op##=(lattice<T, N>& a, const B& b) { \
    return a = a op b;                                                   \
  }

QUERN_LIFT2(operator+, p_add)
QUERN_LIFT2(operator-, p_sub)
QUERN_LIFT2(operator*, p_mul)
QUERN_LIFT2(operator/, p_div)
QUERN_LIFT2(operator&, p_and)
QUERN_LIFT2(operator|, p_or)
QUERN_LIFT2(operator^, p_xor)
QUERN_LIFT1(operator~, p_not)
QUERN_LIFT1(operator-, p_neg)
QUERN_LIFT2(min, p_min)  // f32: a < b ? a : b, so b where either is NaN and where both are zero
QUERN_LIFT2(max, p_max)  // f32: a > b ? a : b
QUERN_LIFT1(abs, p_abs)
QUERN_LIFT2(add_sat, p_add_sat)
QUERN_LIFT2(sub_sat, p_sub_sat)
QUERN_LIFT1(sqrt, p_sqrt)
QUERN_LIFT1(round, p_round)  // to nearest, ties to even, keeps the sign of zero
QUERN_LIFT1(floor, p_floor)
QUERN_LIFT2(shift_left_masked, p_shl)
QUERN_LIFT2(shift_right_masked, p_shr)
QUERN_LIFT_COMPARE(operator==, ==)
QUERN_LIFT_COMPARE(operator!=, !=)
QUERN_LIFT_COMPARE(operator<, <)
QUERN_LIFT_COMPARE(operator<=, <=)
QUERN_LIFT_COMPARE(operator>, >)
QUERN_LIFT_COMPARE(operator>=, >=)

template <class T>
inline constexpr int kLaneBits = 8 * static_cast<int>(sizeof(T));

template <class T, int N>
QUERN_FN lattice<T, N> operator<<(lattice<T, N> a, lattice<T, N> count) {
  return shift_left_masked(a, count & lattice<T, N>::broadcast(T(kLaneBits<T> - 1)));
}
template <class T, int N>
QUERN_FN lattice<T, N> operator>>(lattice<T, N> a, lattice<T, N> count) {
  return shift_right_masked(a, count & lattice<T, N>::broadcast(T(kLaneBits<T> - 1)));
}
// All lanes by one count, which is already masked.
template <class T, int N>
QUERN_FN lattice<T, N> shift_left_all(lattice<T, N> a, int n) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N>(p_shl_all<T, N>(a.v, n));
  } else {
    return lattice<T, N>(shift_left_all(a.lo, n), shift_left_all(a.hi, n));
  }
}
template <class T, int N>
QUERN_FN lattice<T, N> shift_right_all(lattice<T, N> a, int n) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N>(p_shr_all<T, N>(a.v, n));
  } else {
    return lattice<T, N>(shift_right_all(a.lo, n), shift_right_all(a.hi, n));
  }
}
// Bytes shift as 32-bit lanes and drop what crossed a border: no instruction set shifts bytes.
template <class T, int N>
QUERN_FN lattice<T, N> operator<<(lattice<T, N> a, int count) {
  static_assert(!kIsFloat<T>, "floats do not shift");
  const int n = count & (kLaneBits<T> - 1);
  if constexpr (sizeof(T) == 1) {
    return as<T>(as<u32>(a) << n) & lattice<T, N>::broadcast(static_cast<T>(0xffU << n));
  } else {
    return shift_left_all(a, n);
  }
}
template <class T, int N>
QUERN_FN lattice<T, N> operator>>(lattice<T, N> a, int count) {
  static_assert(!kIsFloat<T>, "floats do not shift");
  const int n = count & (kLaneBits<T> - 1);
  if constexpr (kIsSame<T, u8>) {
    return as<u8>(as<u32>(a) >> n) & lattice<u8, N>::broadcast(static_cast<u8>(0xffU >> n));
  } else if constexpr (kIsSame<T, i8>) {
    // Sign extension of a logical shift: flip and subtract the moved sign bit.
    const lattice<i8, N> sign = lattice<i8, N>::broadcast(static_cast<i8>(0x80U >> n));
    return (as<i8>(as<u8>(a) >> n) ^ sign) - sign;
  } else {
    return shift_right_all(a, n);
  }
}

QUERN_COMPOUND(+)
QUERN_COMPOUND(-)
QUERN_COMPOUND(*)
QUERN_COMPOUND(/)
QUERN_COMPOUND(&)
QUERN_COMPOUND(|)
QUERN_COMPOUND(^)
QUERN_COMPOUND(<<)
QUERN_COMPOUND(>>)

// a where the mask lane is not 0, else b.
template <class T, int N>
QUERN_FN lattice<T, N> select(lattice<mask_of<T>, N> m, lattice<T, N> a, lattice<T, N> b) {
  if constexpr (kNative<T, N>) {
    return lattice<T, N>(p_select<T, N>(m.v, a.v, b.v));
  } else {
    return lattice<T, N>(select(m.lo, a.lo, b.lo), select(m.hi, a.hi, b.hi));
  }
}

// a * b + c, rounded once.
template <int N>
QUERN_FN lattice<f32, N> fma(lattice<f32, N> a, lattice<f32, N> b, lattice<f32, N> c) {
  if constexpr (kNative<f32, N>) {
    return lattice<f32, N>(p_fma<N>(a.v, b.v, c.v));
  } else {
    return lattice<f32, N>(fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi));
  }
}

// Whether any, all bits are set: for masks.
template <class T, int N>
QUERN_FN bool any(lattice<T, N> m) {
  if constexpr (kNative<T, N>) {
    return p_any<T, N>(m.v);
  } else {
    return any(m.lo | m.hi);
  }
}
template <class T, int N>
QUERN_FN bool all(lattice<T, N> m) {
  return !any(~m);
}

QUERN_FN void prefetch(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
QUERN_FN void prefetch_nta(const void* p) {
  __builtin_prefetch(p, 0, 0);
}

}  // namespace quern::lattice::QUERN_ISA
