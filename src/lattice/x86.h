// lattice: primitives of the x86 backends on registers of 16, 32 and 64 bytes: splat, halves, min/max, saturation,
// float maths. Which sizes are instantiated, and whether AVX-512 forms may be used, is decided by kRegBytes and
// kAvx512.
#pragma once

// GCC 12 takes the "undefined" operand of unmasked AVX-512 intrinsics for a use of an uninitialised variable.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace quern::lattice::QUERN_ISA {

// The body of a primitive that is one integer (float) intrinsic for each register size: return op(a, b).
#define QUERN_X86_INT2(V, op, a, b)                    \
  if constexpr (sizeof(V) == 16) {                     \
    return (V)_mm_##op((__m128i)(a), (__m128i)(b));    \
  } else if constexpr (sizeof(V) == 32) {              \
    return (V)_mm256_##op((__m256i)(a), (__m256i)(b)); \
  } else {                                             \
    return (V)_mm512_##op((__m512i)(a), (__m512i)(b)); \
  }
#define QUERN_X86_SHIFT16(V, op, a, count)        \
  if constexpr (sizeof(V) == 16) {                \
    return (V)_mm_##op((__m128i)(a), (count));    \
  } else if constexpr (sizeof(V) == 32) {         \
    return (V)_mm256_##op((__m256i)(a), (count)); \
  } else {                                        \
    return (V)_mm512_##op((__m512i)(a), (count)); \
  }
#define QUERN_X86_PS2(V, op, a, b)                   \
  if constexpr (sizeof(V) == 16) {                   \
    return (V)_mm_##op((__m128)(a), (__m128)(b));    \
  } else if constexpr (sizeof(V) == 32) {            \
    return (V)_mm256_##op((__m256)(a), (__m256)(b)); \
  } else {                                           \
    return (V)_mm512_##op((__m512)(a), (__m512)(b)); \
  }

template <class T, int N>
QUERN_FN vec<T, N> p_splat(T x) {
  using V = vec<T, N>;
  if constexpr (kIsFloat<T>) {
    if constexpr (sizeof(V) == 16) {
      return (V)_mm_set1_ps(x);
    } else if constexpr (sizeof(V) == 32) {
      return (V)_mm256_set1_ps(x);
    } else {
      return (V)_mm512_set1_ps(x);
    }
  } else if constexpr (sizeof(T) == 1) {
    if constexpr (sizeof(V) == 16) {
      return (V)_mm_set1_epi8(static_cast<char>(x));
    } else if constexpr (sizeof(V) == 32) {
      return (V)_mm256_set1_epi8(static_cast<char>(x));
    } else {
      return (V)_mm512_set1_epi8(static_cast<char>(x));
    }
  } else if constexpr (sizeof(T) == 2) {
    if constexpr (sizeof(V) == 16) {
      return (V)_mm_set1_epi16(static_cast<short>(x));
    } else if constexpr (sizeof(V) == 32) {
      return (V)_mm256_set1_epi16(static_cast<short>(x));
    } else {
      return (V)_mm512_set1_epi16(static_cast<short>(x));
    }
  } else {
    if constexpr (sizeof(V) == 16) {
      return (V)_mm_set1_epi32(static_cast<int>(x));
    } else if constexpr (sizeof(V) == 32) {
      return (V)_mm256_set1_epi32(static_cast<int>(x));
    } else {
      return (V)_mm512_set1_epi32(static_cast<int>(x));
    }
  }
}

// Halves of a register of 32 or 64 bytes.
template <class T, int N>
QUERN_FN vec<T, N / 2> p_lower(vec<T, N> a) {
  if constexpr (sizeof(a) == 32) {
    return (vec<T, N / 2>)_mm256_castsi256_si128((__m256i)a);
  } else {
    return (vec<T, N / 2>)_mm512_castsi512_si256((__m512i)a);
  }
}
template <class T, int N>
QUERN_FN vec<T, N / 2> p_upper(vec<T, N> a) {
  if constexpr (sizeof(a) == 32) {
    return (vec<T, N / 2>)_mm256_extracti128_si256((__m256i)a, 1);
  } else {
    return (vec<T, N / 2>)_mm512_extracti64x4_epi64((__m512i)a, 1);
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_combine(vec<T, N / 2> lo, vec<T, N / 2> hi) {
  if constexpr (sizeof(lo) == 16) {
    return (vec<T, N>)_mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)lo), (__m128i)hi, 1);
  } else {
    return (vec<T, N>)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)lo), (__m256i)hi, 1);
  }
}

template <class T, int N>
QUERN_FN vec<T, N> p_min(vec<T, N> a, vec<T, N> b) {
  using V = vec<T, N>;
  if constexpr (kIsSame<T, f32>) {
    QUERN_X86_PS2(V, min_ps, a, b)
  } else if constexpr (kIsSame<T, i8>) {
    QUERN_X86_INT2(V, min_epi8, a, b)
  } else if constexpr (kIsSame<T, u8>) {
    QUERN_X86_INT2(V, min_epu8, a, b)
  } else if constexpr (kIsSame<T, i16>) {
    QUERN_X86_INT2(V, min_epi16, a, b)
  } else if constexpr (kIsSame<T, u16>) {
    QUERN_X86_INT2(V, min_epu16, a, b)
  } else if constexpr (kIsSame<T, i32>) {
    QUERN_X86_INT2(V, min_epi32, a, b)
  } else {
    QUERN_X86_INT2(V, min_epu32, a, b)
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_max(vec<T, N> a, vec<T, N> b) {
  using V = vec<T, N>;
  if constexpr (kIsSame<T, f32>) {
    QUERN_X86_PS2(V, max_ps, a, b)
  } else if constexpr (kIsSame<T, i8>) {
    QUERN_X86_INT2(V, max_epi8, a, b)
  } else if constexpr (kIsSame<T, u8>) {
    QUERN_X86_INT2(V, max_epu8, a, b)
  } else if constexpr (kIsSame<T, i16>) {
    QUERN_X86_INT2(V, max_epi16, a, b)
  } else if constexpr (kIsSame<T, u16>) {
    QUERN_X86_INT2(V, max_epu16, a, b)
  } else if constexpr (kIsSame<T, i32>) {
    QUERN_X86_INT2(V, max_epi32, a, b)
  } else {
    QUERN_X86_INT2(V, max_epu32, a, b)
  }
}
// All lanes by one count, which is already masked. AVX2 shifts 16-bit lanes by one count only, not each by its own.
template <class T, int N>
QUERN_FN vec<T, N> p_shl_all(vec<T, N> a, int n) {
  using V = vec<T, N>;
  using U = vec<bits_of<T>, N>;
  if (sizeof(T) != 2 || __builtin_constant_p(n)) return (V)((U)a << p_splat<bits_of<T>, N>(static_cast<bits_of<T>>(n)));
  QUERN_X86_SHIFT16(V, sll_epi16, a, _mm_cvtsi32_si128(n))
}
template <class T, int N>
QUERN_FN vec<T, N> p_shr_all(vec<T, N> a, int n) {
  using V = vec<T, N>;
  if (sizeof(T) != 2 || __builtin_constant_p(n)) return a >> p_splat<T, N>(static_cast<T>(n));
  if constexpr (kIsSigned<T>) {
    QUERN_X86_SHIFT16(V, sra_epi16, a, _mm_cvtsi32_si128(n))
  } else {
    QUERN_X86_SHIFT16(V, srl_epi16, a, _mm_cvtsi32_si128(n))
  }
}

template <class T, int N>
QUERN_FN vec<T, N> p_add_sat(vec<T, N> a, vec<T, N> b) {
  using V = vec<T, N>;
  if constexpr (kIsSame<T, i8>) {
    QUERN_X86_INT2(V, adds_epi8, a, b)
  } else if constexpr (kIsSame<T, u8>) {
    QUERN_X86_INT2(V, adds_epu8, a, b)
  } else if constexpr (kIsSame<T, i16>) {
    QUERN_X86_INT2(V, adds_epi16, a, b)
  } else if constexpr (kIsSame<T, u16>) {
    QUERN_X86_INT2(V, adds_epu16, a, b)
  } else {
    static_assert(kNever<T>, "saturating sums are for 8 and 16 bits");
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_sub_sat(vec<T, N> a, vec<T, N> b) {
  using V = vec<T, N>;
  if constexpr (kIsSame<T, i8>) {
    QUERN_X86_INT2(V, subs_epi8, a, b)
  } else if constexpr (kIsSame<T, u8>) {
    QUERN_X86_INT2(V, subs_epu8, a, b)
  } else if constexpr (kIsSame<T, i16>) {
    QUERN_X86_INT2(V, subs_epi16, a, b)
  } else if constexpr (kIsSame<T, u16>) {
    QUERN_X86_INT2(V, subs_epu16, a, b)
  } else {
    static_assert(kNever<T>, "saturating sums are for 8 and 16 bits");
  }
}

template <int N>
QUERN_FN vec<f32, N> p_fma(vec<f32, N> a, vec<f32, N> b, vec<f32, N> c) {
  using V = vec<f32, N>;
  if constexpr (N == 4) {
    return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  } else if constexpr (N == 8) {
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  } else {
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  }
}
template <class T, int N>
QUERN_FN vec<f32, N> p_sqrt(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  if constexpr (N == 4) {
    return (vec<f32, N>)_mm_sqrt_ps((__m128)a);
  } else if constexpr (N == 8) {
    return (vec<f32, N>)_mm256_sqrt_ps((__m256)a);
  } else {
    return (vec<f32, N>)_mm512_sqrt_ps((__m512)a);
  }
}
template <int kMode, int N>
QUERN_FN vec<f32, N> x86_round(vec<f32, N> a) {
  if constexpr (N == 4) {
    return (vec<f32, N>)_mm_round_ps((__m128)a, kMode | _MM_FROUND_NO_EXC);
  } else if constexpr (N == 8) {
    return (vec<f32, N>)_mm256_round_ps((__m256)a, kMode | _MM_FROUND_NO_EXC);
  } else {
    return (vec<f32, N>)_mm512_roundscale_ps((__m512)a, kMode | _MM_FROUND_NO_EXC);
  }
}
template <class T, int N>
QUERN_FN vec<f32, N> p_round(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  return x86_round<_MM_FROUND_TO_NEAREST_INT, N>(a);
}
template <class T, int N>
QUERN_FN vec<f32, N> p_floor(vec<f32, N> a) {
  static_assert(kIsFloat<T>);
  return x86_round<_MM_FROUND_TO_NEG_INF, N>(a);
}
// The instruction's own rule for NaN and range is the one lattice promises.
template <int N>
QUERN_FN vec<i32, N> p_round_i32(vec<f32, N> a) {
  if constexpr (N == 4) {
    return (vec<i32, N>)_mm_cvtps_epi32((__m128)a);
  } else if constexpr (N == 8) {
    return (vec<i32, N>)_mm256_cvtps_epi32((__m256)a);
  } else {
    return (vec<i32, N>)_mm512_cvtps_epi32((__m512)a);
  }
}

template <class T, int N>
QUERN_FN bool p_any(vec<T, N> m) {
  if constexpr (sizeof(m) == 16) {
    return _mm_testz_si128((__m128i)m, (__m128i)m) == 0;
  } else if constexpr (sizeof(m) == 32) {
    return _mm256_testz_si256((__m256i)m, (__m256i)m) == 0;
  } else {
    return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0;
  }
}

}  // namespace quern::lattice::QUERN_ISA
