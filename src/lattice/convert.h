// lattice: conversions between lane widths, between integers and floats, and the f16 and bf16 storage formats.
#pragma once

namespace quern::lattice::QUERN_ISA {

template <class D, class S, int N>
QUERN_FN lattice<D, N> widen(lattice<S, N> a);

// Sign (from i8, i16) or zero (from u8, u16) extension of the lower or upper half of the lanes to twice the width.
template <class D, class S, int N>
QUERN_FN lattice<D, N / 2> widen_lo(lattice<S, N> a) {
  static_assert(sizeof(D) == 2 * sizeof(S) && !kIsFloat<D>);
  if constexpr (!kNative<S, N>) {
    return widen<D>(a.lo);
  } else if constexpr (N * sizeof(S) > 16) {
    return widen<D>(lower(a));
  } else {
    return lattice<D, N / 2>(p_widen_lo<D, S, N>(a.v));
  }
}
template <class D, class S, int N>
QUERN_FN lattice<D, N / 2> widen_hi(lattice<S, N> a) {
  static_assert(sizeof(D) == 2 * sizeof(S) && !kIsFloat<D>);
  if constexpr (!kNative<S, N>) {
    return widen<D>(a.hi);
  } else if constexpr (N * sizeof(S) > 16) {
    return widen<D>(upper(a));
  } else {
    return lattice<D, N / 2>(p_widen_hi<D, S, N>(a.v));
  }
}
// The same number of lanes, two or four times as wide.
template <class D, class S, int N>
QUERN_FN lattice<D, N> widen(lattice<S, N> a) {
  static_assert(sizeof(D) > sizeof(S) && !kIsFloat<D> && !kIsFloat<S>);
  static_assert(kIsSigned<D> || !kIsSigned<S>, "a signed value does not widen to unsigned");
  if constexpr (kNative<D, N>) {
    return lattice<D, N>(p_widen<D, S, N>(a.v));
  } else if constexpr (sizeof(D) == 4 * sizeof(S)) {
    if constexpr (N * sizeof(S) > 16) {
      return lattice<D, N>(widen<D>(lower(a)), widen<D>(upper(a)));
    } else if constexpr (kRegBytes == 32) {
      return lattice<D, N>(lattice<D, N / 2>(p_widen_quarter<D, S, N, 0>(a.v)),
                           lattice<D, N / 2>(p_widen_quarter<D, S, N, 1>(a.v)));
    } else {
      return widen<D>(widen<choose<kIsSigned<S>, i16, u16>>(a));
    }
  } else {
    return lattice<D, N>(widen_lo<D>(a), widen_hi<D>(a));
  }
}

// The same number of lanes, saturated to the range of D: i32 -> i16 u16 i8 u8, i16 -> i8 u8.
template <class D, class S, int N>
QUERN_FN lattice<D, N> narrow(lattice<S, N> a) {
  static_assert(sizeof(D) < sizeof(S) && kIsSigned<S> && !kIsFloat<S>);
  if constexpr (!kNative<D, N>) {
    return lattice<D, N>(narrow<D>(a.lo), narrow<D>(a.hi));
  } else if constexpr (kNative<S, N>) {
    if constexpr (sizeof(S) == 4 * sizeof(D) && kRegBytes < 64) {
      return narrow<D>(narrow<i16>(a));
    } else {
      return lattice<D, N>(p_narrow<D, S, N>(a.v));
    }
  } else if constexpr (sizeof(S) == 2 * sizeof(D)) {
    return lattice<D, N>(p_narrow_pair<D, S, N>(a.lo.v, a.hi.v));
  } else {
    return narrow<D>(narrow<i16>(a));  // saturating twice is saturating once
  }
}

// Nearest even.
template <class T, int N>
QUERN_FN lattice<f32, N> to_f32(lattice<T, N> a) {
  static_assert(sizeof(T) == 4 && !kIsFloat<T>);
  if constexpr (kNative<T, N>) {
    return lattice<f32, N>(__builtin_convertvector(a.v, vec<f32, N>));
  } else {
    return lattice<f32, N>(to_f32(a.lo), to_f32(a.hi));
  }
}
// Nearest even; NaN and values outside of i32 give 0x80000000.
template <int N>
QUERN_FN lattice<i32, N> round_i32(lattice<f32, N> a) {
  if constexpr (kNative<f32, N>) {
    return lattice<i32, N>(p_round_i32<N>(a.v));
  } else {
    return lattice<i32, N>(round_i32(a.lo), round_i32(a.hi));
  }
}

// IEEE half precision, exact; a NaN keeps its sign and payload and becomes quiet.
template <int N>
QUERN_FN lattice<f32, N> from_f16(lattice<u16, N> h) {
  if constexpr (kNative<f32, N>) {
    return lattice<f32, N>(p_from_f16<N>(h.v));
  } else if constexpr (N * sizeof(u16) > 16) {
    return lattice<f32, N>(from_f16(lower(h)), from_f16(upper(h)));
  } else {
    return lattice<f32, N>(lattice<f32, N / 2>(p_from_f16_lo<N>(h.v)), lattice<f32, N / 2>(p_from_f16_hi<N>(h.v)));
  }
}
// Nearest even with denormals; too large becomes infinity; a NaN keeps its sign and upper payload and becomes quiet.
template <int N>
QUERN_FN lattice<u16, N> to_f16(lattice<f32, N> a) {
  if constexpr (kNative<f32, N>) {
    return lattice<u16, N>(p_to_f16<N>(a.v));
  } else if constexpr (N * sizeof(u16) > 16) {
    return combine(to_f16(a.lo), to_f16(a.hi));
  } else {
    return lattice<u16, N>(p_to_f16_pair<N>(a.lo.v, a.hi.v));
  }
}

// bfloat16: the upper half of a float.
template <int N>
QUERN_FN lattice<f32, N> from_bf16(lattice<u16, N> h) {
  return as<f32>(widen<u32>(h) << 16);
}
// Nearest even; a NaN keeps its sign and upper payload and becomes quiet.
template <int N>
QUERN_FN lattice<u16, N> to_bf16(lattice<f32, N> a) {
  using U = lattice<u32, N>;
  const U bits = as<u32>(a), top = bits >> 16;
  const U nearest = (bits + U::broadcast(0x7fffU) + (top & U::broadcast(1))) >> 16;
  const U quiet = top | U::broadcast(0x40U);
  return narrow<u16>(as<i32>(select(a == a, nearest, quiet)));
}

template <class T, int N>
QUERN_FN lattice<T, N> lattice<T, N>::load_f16(const u16* p) requires kIsFloat<T> {
  return from_f16(lattice<u16, N>::load(p));
}
template <class T, int N>
QUERN_FN lattice<T, N> lattice<T, N>::load_bf16(const u16* p) requires kIsFloat<T> {
  return from_bf16(lattice<u16, N>::load(p));
}
template <class T, int N>
QUERN_FN void lattice<T, N>::store_f16(u16* p) const requires kIsFloat<T> {
  to_f16(*this).store(p);
}
template <class T, int N>
QUERN_FN void lattice<T, N>::store_bf16(u16* p) const requires kIsFloat<T> {
  to_bf16(*this).store(p);
}

}  // namespace quern::lattice::QUERN_ISA
