// lattice: element types and native vectors, the ground that a backend stands on. A backend (generic.h, x86.h, neon.h)
// defines kRegBytes and the p_* primitives over vec<T, N> of at most kRegBytes; core.h lifts them to any N.
#pragma once

#include <cstdint>
#include <cstring>

namespace quern::lattice::QUERN_ISA {

using i8 = int8_t;
using u8 = uint8_t;
using i16 = int16_t;
using u16 = uint16_t;
using i32 = int32_t;
using u32 = uint32_t;
using f32 = float;

// One native vector. The compiler gives it element-wise operators; signed arithmetic goes through vec<unsigned> because
// signed overflow is undefined there too.
template <class T, int N>
struct vec_of {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int N>
using vec = typename vec_of<T, N>::type;

template <class T>
struct traits;
template <>
struct traits<i8> {
  using mask = i8;
  using bits = u8;
  static constexpr bool kSigned = true, kFloat = false;
};
template <>
struct traits<u8> {
  using mask = i8;
  using bits = u8;
  static constexpr bool kSigned = false, kFloat = false;
};
template <>
struct traits<i16> {
  using mask = i16;
  using bits = u16;
  static constexpr bool kSigned = true, kFloat = false;
};
template <>
struct traits<u16> {
  using mask = i16;
  using bits = u16;
  static constexpr bool kSigned = false, kFloat = false;
};
template <>
struct traits<i32> {
  using mask = i32;
  using bits = u32;
  static constexpr bool kSigned = true, kFloat = false;
};
template <>
struct traits<u32> {
  using mask = i32;
  using bits = u32;
  static constexpr bool kSigned = false, kFloat = false;
};
template <>
struct traits<f32> {
  using mask = i32;
  using bits = u32;
  static constexpr bool kSigned = true, kFloat = true;
};

template <class T>
using mask_of = typename traits<T>::mask;
template <class T>
using bits_of = typename traits<T>::bits;
template <class T>
inline constexpr bool kIsSigned = traits<T>::kSigned;
template <class T>
inline constexpr bool kIsFloat = traits<T>::kFloat;
template <class A, class B>
inline constexpr bool kIsSame = false;
template <class A>
inline constexpr bool kIsSame<A, A> = true;
template <bool kFirst, class A, class B>
struct choose_type {
  using type = A;
};
template <class A, class B>
struct choose_type<false, A, B> {
  using type = B;
};
template <bool kFirst, class A, class B>
using choose = typename choose_type<kFirst, A, B>::type;
// A template branch that must not be reached: static_assert(kNever<T>).
template <class T>
inline constexpr bool kNever = false;

}  // namespace quern::lattice::QUERN_ISA
