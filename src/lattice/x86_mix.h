// lattice: primitives of the x86 backends that change lane widths or cross lanes: widen, narrow, f16, dot products,
// byte shuffles.
#pragma once

namespace quern::lattice::QUERN_ISA {

// --- Widening. A source is the low bytes of a register; the name says the size of the result. ----------------------

#define QUERN_X86_EXTEND(prefix, a)                        \
  if constexpr (kIsSame<S, i8> && sizeof(D) == 2) {        \
    return prefix##_cvtepi8_epi16(a);                      \
  } else if constexpr (kIsSame<S, u8> && sizeof(D) == 2) { \
    return prefix##_cvtepu8_epi16(a);                      \
  } else if constexpr (kIsSame<S, i8>) {                   \
    return prefix##_cvtepi8_epi32(a);                      \
  } else if constexpr (kIsSame<S, u8>) {                   \
    return prefix##_cvtepu8_epi32(a);                      \
  } else if constexpr (kIsSame<S, i16>) {                  \
    return prefix##_cvtepi16_epi32(a);                     \
  } else {                                                 \
    return prefix##_cvtepu16_epi32(a);                     \
  }
template <class D, class S>
QUERN_FN __m128i x86_extend16(__m128i a) {
  QUERN_X86_EXTEND(_mm, a)
}
template <class D, class S>
QUERN_FN __m256i x86_extend32(__m128i a) {
  QUERN_X86_EXTEND(_mm256, a)
}
template <class D, class S, class V>
QUERN_FN __m512i x86_extend64(V a) {  // V: __m256i for twice, __m128i for four times the width
  QUERN_X86_EXTEND(_mm512, a)
}

template <class D, class S, int N>
QUERN_FN vec<D, N> p_widen(vec<S, N> a) {
  using R = vec<D, N>;
  if constexpr (sizeof(R) == 32) {
    return (R)x86_extend32<D, S>((__m128i)a);
  } else if constexpr (sizeof(a) == 32) {
    return (R)x86_extend64<D, S>((__m256i)a);
  } else {
    return (R)x86_extend64<D, S>((__m128i)a);
  }
}
template <class D, class S, int N>
QUERN_FN vec<D, N / 2> p_widen_lo(vec<S, N> a) {
  return (vec<D, N / 2>)x86_extend16<D, S>((__m128i)a);
}
template <class D, class S, int N>
QUERN_FN vec<D, N / 2> p_widen_hi(vec<S, N> a) {
  return (vec<D, N / 2>)x86_extend16<D, S>(_mm_srli_si128((__m128i)a, 8));
}
// Half `kPart` of 16 bytes to 32 bytes of lanes four times as wide.
template <class D, class S, int N, int kPart>
QUERN_FN vec<D, N / 2> p_widen_quarter(vec<S, N> a) {
  const __m128i part = kPart == 0 ? (__m128i)a : _mm_srli_si128((__m128i)a, 8);
  return (vec<D, N / 2>)x86_extend32<D, S>(part);
}

// --- Saturating narrowing. -----------------------------------------------------------------------------------------

// AVX-512 narrows one register. To unsigned it reads the source as unsigned, so negative values are raised to 0 first.
template <class D, class S, int N>
QUERN_FN vec<D, N> x86_narrow_avx512(vec<S, N> a) {
  using R = vec<D, N>;
  if constexpr (!kIsSigned<D>) a = p_max<S, N>(a, vec<S, N>{});
#define QUERN_X86_NARROW(op)           \
  if constexpr (sizeof(a) == 32) {     \
    return (R)_mm256_##op((__m256i)a); \
  } else {                             \
    return (R)_mm512_##op((__m512i)a); \
  }
  if constexpr (sizeof(S) == 2) {
    if constexpr (kIsSigned<D>) {
      QUERN_X86_NARROW(cvtsepi16_epi8)
    } else {
      QUERN_X86_NARROW(cvtusepi16_epi8)
    }
  } else if constexpr (sizeof(D) == 2) {
    if constexpr (kIsSigned<D>) {
      QUERN_X86_NARROW(cvtsepi32_epi16)
    } else {
      QUERN_X86_NARROW(cvtusepi32_epi16)
    }
  } else if constexpr (kIsSigned<D>) {
    QUERN_X86_NARROW(cvtsepi32_epi8)
  } else {
    QUERN_X86_NARROW(cvtusepi32_epi8)
  }
#undef QUERN_X86_NARROW
}
// Two registers to one, each group of 16 bytes by itself.
template <class D, class S, int N, class V>
QUERN_FN vec<D, N> x86_pack(V a, V b) {
  using R = vec<D, N>;
  if constexpr (sizeof(S) == 4) {
    if constexpr (kIsSigned<D>) {
      QUERN_X86_INT2(R, packs_epi32, a, b)
    } else {
      QUERN_X86_INT2(R, packus_epi32, a, b)
    }
  } else if constexpr (kIsSigned<D>) {
    QUERN_X86_INT2(R, packs_epi16, a, b)
  } else {
    QUERN_X86_INT2(R, packus_epi16, a, b)
  }
}
template <class D, class S, int N>
QUERN_FN vec<D, N> p_narrow_pair(vec<S, N / 2> lo, vec<S, N / 2> hi) {
  using R = vec<D, N>;
  const R packed = x86_pack<D, S, N>(lo, hi);
  if constexpr (sizeof(R) == 16) {
    return packed;
  } else if constexpr (sizeof(R) == 32) {
    return (R)_mm256_permute4x64_epi64((__m256i)packed, 0xd8);
  } else {
    return (R)_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), (__m512i)packed);
  }
}
template <class D, class S, int N>
QUERN_FN vec<D, N> p_narrow(vec<S, N> a) {
  if constexpr (kAvx512) {
    return x86_narrow_avx512<D, S, N>(a);
  } else {
    return x86_pack<D, S, N>(p_lower<S, N>(a), p_upper<S, N>(a));
  }
}

// --- f16. ----------------------------------------------------------------------------------------------------------

template <int N>
QUERN_FN vec<f32, N> p_from_f16(vec<u16, N> h) {
  if constexpr (N == 8) {
    return (vec<f32, N>)_mm256_cvtph_ps((__m128i)h);
  } else {
    return (vec<f32, N>)_mm512_cvtph_ps((__m256i)h);
  }
}
template <int N>
QUERN_FN vec<u16, N> p_to_f16(vec<f32, N> a) {
  if constexpr (N == 8) {
    return (vec<u16, N>)_mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT);
  } else {
    return (vec<u16, N>)_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT);
  }
}

// --- Dot products. -------------------------------------------------------------------------------------------------

// acc + a·b for u8 a and i8 b, any values.
template <int N>
QUERN_FN vec<i32, N> x86_dpbusd(vec<i32, N> acc, vec<u8, 4 * N> a, vec<i8, 4 * N> b) {
  using R = vec<i32, N>;
  if constexpr (N == 4) {
    return (R)_mm_dpbusd_epi32((__m128i)acc, (__m128i)a, (__m128i)b);
  } else if constexpr (N == 8) {
    return (R)_mm256_dpbusd_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
  } else {
    return (R)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
  }
}
template <int N>
QUERN_FN vec<i32, N> x86_madd(vec<i16, 2 * N> a, vec<i16, 2 * N> b) {
  using R = vec<i32, N>;
  QUERN_X86_INT2(R, madd_epi16, a, b)
}
template <int M>
QUERN_FN vec<i16, M / 2> x86_maddubs(vec<u8, M> a, vec<i8, M> b) {
  using R = vec<i16, M / 2>;
  QUERN_X86_INT2(R, maddubs_epi16, a, b)
}
template <int N>
QUERN_FN vec<i32, N> x86_add(vec<i32, N> a, vec<i32, N> b) {
  return (vec<i32, N>)((vec<u32, N>)a + (vec<u32, N>)b);
}

template <class A, int N>
QUERN_FN vec<i32, N> p_idot4(vec<i32, N> acc, vec<A, 4 * N> a, vec<i8, 4 * N> b) {
  if constexpr (kAvx512) {
    if constexpr (kIsSame<A, u8>) {
      return x86_dpbusd<N>(acc, a, b);
    } else {
      // a + 128 is unsigned; 128 times the sum of b comes off again. That sum is shared where b is.
      const vec<u8, 4 * N> k128 = p_splat<u8, 4 * N>(0x80);
      const vec<i32, N> excess = x86_dpbusd<N>(vec<i32, N>{}, k128, b);
      const vec<i32, N> sum = x86_dpbusd<N>(acc, (vec<u8, 4 * N>)a ^ k128, b);
      return (vec<i32, N>)((vec<u32, N>)sum - (vec<u32, N>)excess);
    }
  } else {
    // Even and odd bytes as 16-bit lanes: maddubs would saturate a pair of products.
    using H = vec<i16, 2 * N>;
    using UH = vec<u16, 2 * N>;
    H a_even, a_odd;
    if constexpr (kIsSame<A, u8>) {
      a_even = (H)((UH)a & p_splat<u16, 2 * N>(0xff));
      a_odd = (H)((UH)a >> p_splat<u16, 2 * N>(8));
    } else {
      a_even = (H)((UH)a << p_splat<u16, 2 * N>(8)) >> p_splat<i16, 2 * N>(8);
      a_odd = (H)a >> p_splat<i16, 2 * N>(8);
    }
    const H b_even = (H)((UH)b << p_splat<u16, 2 * N>(8)) >> p_splat<i16, 2 * N>(8);
    const H b_odd = (H)b >> p_splat<i16, 2 * N>(8);
    return x86_add<N>(x86_add<N>(acc, x86_madd<N>(a_even, b_even)), x86_madd<N>(a_odd, b_odd));
  }
}
// Pairs stay within 2 * 127 * 128 = 32512 (u8 a <= 127) or 2 * 128 * 127 (i8, b not -128), so maddubs cannot saturate.
template <class A, int N>
QUERN_FN vec<i32, N> p_idot4_small(vec<i32, N> acc, vec<A, 4 * N> a, vec<i8, 4 * N> b) {
  if constexpr (kIsSame<A, u8>) {
    if constexpr (kAvx512) {
      return x86_dpbusd<N>(acc, a, b);
    } else {
      return x86_add<N>(acc, x86_madd<N>(x86_maddubs<4 * N>(a, b), p_splat<i16, 2 * N>(1)));
    }
  } else if constexpr (kAvx512) {
    // |a| times b with the sign of a.
    using B = vec<i8, 4 * N>;
    const B zero = {};
    const vec<u8, 4 * N> size = (vec<u8, 4 * N>)p_max<i8, 4 * N>(a, (B)((vec<u8, 4 * N>)zero - (vec<u8, 4 * N>)a));
    const B turned = a < zero ? (B)((vec<u8, 4 * N>)zero - (vec<u8, 4 * N>)b) : b;
    return x86_dpbusd<N>(acc, size, turned);
  } else {
    vec<i8, 4 * N> turned;
    vec<u8, 4 * N> size;
    if constexpr (N == 4) {
      turned = (vec<i8, 4 * N>)_mm_sign_epi8((__m128i)b, (__m128i)a);
      size = (vec<u8, 4 * N>)_mm_abs_epi8((__m128i)a);
    } else {
      turned = (vec<i8, 4 * N>)_mm256_sign_epi8((__m256i)b, (__m256i)a);
      size = (vec<u8, 4 * N>)_mm256_abs_epi8((__m256i)a);
    }
    return x86_add<N>(acc, x86_madd<N>(x86_maddubs<4 * N>(size, turned), p_splat<i16, 2 * N>(1)));
  }
}
// Pairs stay within 2 * 255 * 64 = 32640.
template <int N>
QUERN_FN vec<i32, N> p_idot4_narrow(vec<i32, N> acc, vec<u8, 4 * N> a, vec<i8, 4 * N> b) {
  return p_idot4_small<u8, N>(acc, a, b);
}
template <int N>
QUERN_FN vec<i32, N> p_idot2(vec<i32, N> acc, vec<i16, 2 * N> a, vec<i16, 2 * N> b) {
  using R = vec<i32, N>;
  if constexpr (!kAvx512) {
    return x86_add<N>(acc, x86_madd<N>(a, b));
  } else if constexpr (N == 4) {
    return (R)_mm_dpwssd_epi32((__m128i)acc, (__m128i)a, (__m128i)b);
  } else if constexpr (N == 8) {
    return (R)_mm256_dpwssd_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
  } else {
    return (R)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
  }
}

// --- Bytes. --------------------------------------------------------------------------------------------------------

// Indices are below 16.
template <int N>
QUERN_FN vec<u8, N> p_shuffle(vec<u8, N> table, vec<u8, N> index) {
  using V = vec<u8, N>;
  QUERN_X86_INT2(V, shuffle_epi8, table, index)
}
template <class T, int N>
QUERN_FN vec<T, N> p_repeat16(vec<T, 16 / sizeof(T)> a) {
  if constexpr (N * sizeof(T) == 32) {
    return (vec<T, N>)_mm256_broadcastsi128_si256((__m128i)a);
  } else {
    return (vec<T, N>)_mm512_broadcast_i32x4((__m128i)a);
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_zip_lo(vec<T, N> a, vec<T, N> b) {
  using V = vec<T, N>;
  if constexpr (sizeof(T) == 1) {
    QUERN_X86_INT2(V, unpacklo_epi8, a, b)
  } else if constexpr (sizeof(T) == 2) {
    QUERN_X86_INT2(V, unpacklo_epi16, a, b)
  } else {
    QUERN_X86_INT2(V, unpacklo_epi32, a, b)
  }
}
template <class T, int N>
QUERN_FN vec<T, N> p_zip_hi(vec<T, N> a, vec<T, N> b) {
  using V = vec<T, N>;
  if constexpr (sizeof(T) == 1) {
    QUERN_X86_INT2(V, unpackhi_epi8, a, b)
  } else if constexpr (sizeof(T) == 2) {
    QUERN_X86_INT2(V, unpackhi_epi16, a, b)
  } else {
    QUERN_X86_INT2(V, unpackhi_epi32, a, b)
  }
}

}  // namespace quern::lattice::QUERN_ISA
