// lattice backend: aarch64 Advanced SIMD with dot products (armv8.2-a+dotprod). Registers of 16 bytes.
#pragma once

#include <arm_neon.h>

namespace quern::lattice::QUERN_ISA {

inline constexpr int kRegBytes = 16;

template <class T, int N>
QUERN_FN vec<T, N> p_splat(T x) {
  if constexpr (kIsFloat<T>) {
    return (vec<T, N>)vdupq_n_f32(x);
  } else if constexpr (sizeof(T) == 1) {
    return (vec<T, N>)vdupq_n_u8(static_cast<u8>(x));
  } else if constexpr (sizeof(T) == 2) {
    return (vec<T, N>)vdupq_n_u16(static_cast<u16>(x));
  } else {
    return (vec<T, N>)vdupq_n_u32(static_cast<u32>(x));
  }
}
// A register is 16 bytes, so it has no halves.
template <class T, int N>
vec<T, N / 2> p_lower(vec<T, N> a) = delete;
template <class T, int N>
vec<T, N / 2> p_upper(vec<T, N> a) = delete;

// fmin and fmax of NEON treat NaN and zeros differently from a < b ? a : b.
template <class T, int N>
QUERN_FN vec<T, N> p_min(vec<T, N> a, vec<T, N> b) {
  return a < b ? a : b;
}
template <class T, int N>
QUERN_FN vec<T, N> p_max(vec<T, N> a, vec<T, N> b) {
  return a > b ? a : b;
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
  if constexpr (kIsSame<T, i8>) {
    return (vec<T, N>)vqaddq_s8((int8x16_t)a, (int8x16_t)b);
  } else if constexpr (kIsSame<T, u8>) {
    return (vec<T, N>)vqaddq_u8((uint8x16_t)a, (uint8x16_t)b);
  } else if constexpr (kIsSame<T, i16>) {
    return (vec<T, N>)vqaddq_s16((int16x8_t)a, (int16x8_t)b);
  } else if constexpr (kIsSame<T, u16>) {
    return (vec<T, N>)vqaddq_u16((uint16x8_t)a, (uint16x8_t)b);
  } else {
    static_assert(kNever<T>, "saturating sums are for 8 and 16 bits");
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_sub_sat(vec<T, N> a, vec<T, N> b) {
  if constexpr (kIsSame<T, i8>) {
    return (vec<T, N>)vqsubq_s8((int8x16_t)a, (int8x16_t)b);
  } else if constexpr (kIsSame<T, u8>) {
    return (vec<T, N>)vqsubq_u8((uint8x16_t)a, (uint8x16_t)b);
  } else if constexpr (kIsSame<T, i16>) {
    return (vec<T, N>)vqsubq_s16((int16x8_t)a, (int16x8_t)b);
  } else if constexpr (kIsSame<T, u16>) {
    return (vec<T, N>)vqsubq_u16((uint16x8_t)a, (uint16x8_t)b);
  } else {
    static_assert(kNever<T>, "saturating sums are for 8 and 16 bits");
  }
}

template <int N>
QUERN_FN vec<f32, N> p_fma(vec<f32, N> a, vec<f32, N> b, vec<f32, N> c) {
  return (vec<f32, N>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
template <class T, int N>
QUERN_FN vec<f32, N> p_sqrt(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  return (vec<f32, N>)vsqrtq_f32((float32x4_t)a);
}
template <class T, int N>
QUERN_FN vec<f32, N> p_round(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  return (vec<f32, N>)vrndnq_f32((float32x4_t)a);
}
template <class T, int N>
QUERN_FN vec<f32, N> p_floor(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  return (vec<f32, N>)vrndmq_f32((float32x4_t)a);
}
// The instruction saturates and takes NaN to 0; lattice promises 0x80000000 for NaN and too large values.
template <int N>
QUERN_FN vec<i32, N> p_round_i32(vec<f32, N> a) {
  const vec<i32, N> r = (vec<i32, N>)vcvtnq_s32_f32((float32x4_t)a);
  return a < p_splat<f32, N>(2147483648.0F) ? r : p_splat<i32, N>(INT32_MIN);
}
template <class T, int N>
QUERN_FN bool p_any(vec<T, N> m) {
  return vmaxvq_u32((uint32x4_t)m) != 0;
}

template <class D, class S, int N>
QUERN_FN vec<D, N / 2> p_widen_lo(vec<S, N> a) {
  if constexpr (kIsSame<S, i8>) {
    return (vec<D, N / 2>)vmovl_s8(vget_low_s8((int8x16_t)a));
  } else if constexpr (kIsSame<S, u8>) {
    return (vec<D, N / 2>)vmovl_u8(vget_low_u8((uint8x16_t)a));
  } else if constexpr (kIsSame<S, i16>) {
    return (vec<D, N / 2>)vmovl_s16(vget_low_s16((int16x8_t)a));
  } else {
    return (vec<D, N / 2>)vmovl_u16(vget_low_u16((uint16x8_t)a));
  }
}
template <class D, class S, int N>
QUERN_FN vec<D, N / 2> p_widen_hi(vec<S, N> a) {
  if constexpr (kIsSame<S, i8>) {
    return (vec<D, N / 2>)vmovl_high_s8((int8x16_t)a);
  } else if constexpr (kIsSame<S, u8>) {
    return (vec<D, N / 2>)vmovl_high_u8((uint8x16_t)a);
  } else if constexpr (kIsSame<S, i16>) {
    return (vec<D, N / 2>)vmovl_high_s16((int16x8_t)a);
  } else {
    return (vec<D, N / 2>)vmovl_high_u16((uint16x8_t)a);
  }
}
template <class D, class S, int N>
QUERN_FN vec<D, N> p_narrow_pair(vec<S, N / 2> lo, vec<S, N / 2> hi) {
  if constexpr (sizeof(S) == 4 && kIsSigned<D>) {
    return (vec<D, N>)vqmovn_high_s32(vqmovn_s32((int32x4_t)lo), (int32x4_t)hi);
  } else if constexpr (sizeof(S) == 4) {
    return (vec<D, N>)vqmovun_high_s32(vqmovun_s32((int32x4_t)lo), (int32x4_t)hi);
  } else if constexpr (kIsSigned<D>) {
    return (vec<D, N>)vqmovn_high_s16(vqmovn_s16((int16x8_t)lo), (int16x8_t)hi);
  } else {
    return (vec<D, N>)vqmovun_high_s16(vqmovun_s16((int16x8_t)lo), (int16x8_t)hi);
  }
}

template <int N>
QUERN_FN vec<f32, N / 2> p_from_f16_lo(vec<u16, N> h) {
  return (vec<f32, N / 2>)vcvt_f32_f16(vget_low_f16((float16x8_t)h));
}
template <int N>
QUERN_FN vec<f32, N / 2> p_from_f16_hi(vec<u16, N> h) {
  return (vec<f32, N / 2>)vcvt_high_f32_f16((float16x8_t)h);
}
template <int N>
QUERN_FN vec<u16, N> p_to_f16_pair(vec<f32, N / 2> lo, vec<f32, N / 2> hi) {
  return (vec<u16, N>)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)lo), (float32x4_t)hi);
}

template <class A, int N>
QUERN_FN vec<i32, N> p_idot4(vec<i32, N> acc, vec<A, 4 * N> a, vec<i8, 4 * N> b) {
  int32x4_t sum = (int32x4_t)acc;
  if constexpr (kIsSame<A, u8>) {
    // a - 128 is signed; 128 = 64 + 64 times the sum of b is added again. That sum is shared where b is.
    const int8x16_t moved = (int8x16_t)veorq_u8((uint8x16_t)a, vdupq_n_u8(0x80));
    const int32x4_t share = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(64), (int8x16_t)b);
    sum = vaddq_s32(vdotq_s32(sum, moved, (int8x16_t)b), vshlq_n_s32(share, 1));
  } else {
    sum = vdotq_s32(sum, (int8x16_t)a, (int8x16_t)b);
  }
  return (vec<i32, N>)sum;
}
template <class A, int N>
QUERN_FN vec<i32, N> p_idot4_small(vec<i32, N> acc, vec<A, 4 * N> a, vec<i8, 4 * N> b) {
  return (vec<i32, N>)vdotq_s32((int32x4_t)acc, (int8x16_t)a, (int8x16_t)b);
}
template <int N>
QUERN_FN vec<i32, N> p_idot4_narrow(vec<i32, N> acc, vec<u8, 4 * N> a, vec<i8, 4 * N> b) {
  return p_idot4<u8, N>(acc, a, b);
}
template <int N>
QUERN_FN vec<i32, N> p_idot2(vec<i32, N> acc, vec<i16, 2 * N> a, vec<i16, 2 * N> b) {
  const int32x4_t lo = vmull_s16(vget_low_s16((int16x8_t)a), vget_low_s16((int16x8_t)b));
  const int32x4_t hi = vmull_high_s16((int16x8_t)a, (int16x8_t)b);
  return (vec<i32, N>)vaddq_s32((int32x4_t)acc, vpaddq_s32(lo, hi));
}

// Indices are below 16.
template <int N>
QUERN_FN vec<u8, N> p_shuffle(vec<u8, N> table, vec<u8, N> index) {
  return (vec<u8, N>)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
}
template <class T, int N>
QUERN_FN vec<T, N> p_zip_lo(vec<T, N> a, vec<T, N> b) {
  if constexpr (sizeof(T) == 1) {
    return (vec<T, N>)vzip1q_u8((uint8x16_t)a, (uint8x16_t)b);
  } else if constexpr (sizeof(T) == 2) {
    return (vec<T, N>)vzip1q_u16((uint16x8_t)a, (uint16x8_t)b);
  } else {
    return (vec<T, N>)vzip1q_u32((uint32x4_t)a, (uint32x4_t)b);
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_zip_hi(vec<T, N> a, vec<T, N> b) {
  if constexpr (sizeof(T) == 1) {
    return (vec<T, N>)vzip2q_u8((uint8x16_t)a, (uint8x16_t)b);
  } else if constexpr (sizeof(T) == 2) {
    return (vec<T, N>)vzip2q_u16((uint16x8_t)a, (uint16x8_t)b);
  } else {
    return (vec<T, N>)vzip2q_u32((uint32x4_t)a, (uint32x4_t)b);
  }
}

}  // namespace quern::lattice::QUERN_ISA
