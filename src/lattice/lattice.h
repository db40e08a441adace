// lattice: vector types with one meaning on every instruction set.
//
// Owns: lattice<T, N> (i8 u8 i16 u16 i32 u32 f32; 16, 32, 64 bytes or wider), its operators, conversions, dot products,
//       byte shuffles, canonical reductions and elementary functions (math.h); the compiler flags of each tier.
// Never: formats, ops, memory management, containers of the standard library, choosing a tier at run time.
// In -> out: scalars and bytes in memory -> the same bits on generic, avx2, avx512 and neon.
//
// Use: a kernel is written once (x.inl) and compiled once per tier. The translation unit of a tier says which, and is
// compiled with the tier's flags, ${QUERN_ISA_FLAGS_avx512} in CMake:
//     #define QUERN_ISA avx512
//     #include "lattice/lattice.h"
//     namespace quern::kernels::QUERN_ISA {
//     using namespace quern::lattice::QUERN_ISA;
//     #include "x.inl"
//     }
// Everything lives in quern::lattice::QUERN_ISA and is always_inline, so no symbol compiled with a tier's flags can be
// taken by a translation unit of another (tools/check_isa_symbols.py proves it of objects). After the using-directive
// write f32x16 or lat<f32, 16>: plain `lattice` would also name this folder's namespace. Functions are found through
// their arguments.
//
// N is the same on all tiers. Where a register is narrower, a lattice is a pair of halves (recursively); the widths
// that kernels use, 16 f32/i32, 32 i16, 64 i8/u8, are one register on avx512, two on avx2, four on neon and generic.
//
// clang-format off
//   L is lattice<T, N>, U and D element types, m a mask (L::mask: integer lanes as wide as T's, all ones or zero)
//   make      L::load(p) L::load_aligned(p) L::zero() L::broadcast(x) L::iota() L::broadcast4(p): 4 bytes to all lanes
//   store     v.store(p) v.store_aligned(p) v.lane(i) (slow)
//   view      as<U>(v): the same bits; lower(v) upper(v) combine(lo, hi)
//   integer   + - * & | ^ ~ unary - and compound, all wrap; << >> by int or per lane, the count masked by lane width;
//             min max abs; add_sat sub_sat (8 and 16 bit)
//   f32       + - * / unary - abs sqrt round (nearest even) floor; fma(a, b, c) = a * b + c rounded once;
//             min(a, b) = a < b ? a : b; max(a, b) = a > b ? a : b, so b where one is NaN; & | ^ ~ on the bits
//   compare   == != < <= > >= give m; select(m, a, b): a where m is not 0; any(m) all(m): is any bit, are all bits set
//   widen     widen<D>(v) keeps N (2 or 4 times as wide); widen_lo<D>(v) widen_hi<D>(v): the lower, upper half of lanes
//   narrow    narrow<D>(v) keeps N, saturates: i32 -> i16 u16 i8 u8, i16 -> i8 u8
//   float     to_f32(i32 or u32); round_i32(f32): nearest even, NaN and out of range give 0x80000000
//   f16 bf16  L::load_f16(p) v.store_f16(p) L::load_bf16(p) v.store_bf16(p); from_f16 to_f16 from_bf16 to_bf16 with u16
//             lanes; stores round to nearest even
//   dot       idot4(acc, u8 or i8 a, i8 b), idot2(acc, i16 a, i16 b): exact sums of 4, 2 neighbouring products;
//             idot4_small: cheaper where u8 a <= 127, or for i8 a where no b is -128
//   bytes     lookup16(table, i) shuffle(t, i) in each 16-byte group, i & 15; lookup16_small shuffle_small: every i < 16;
//             zip_lo(a, b) zip_hi(a, b) in each 16-byte group; repeat16<L>(v)
//   reduce    reduce_add reduce_max reduce_min: lanes i and i + N/2 first, then i + N/4, …, then i + 1
//   memory    prefetch(p) prefetch_nta(p)
//   math.h    exp sigmoid silu tanh gelu gelu_quick
// clang-format on
//
// f32 lanes follow IEEE 754 with denormals; which NaN a lane holds after arithmetic is not part of the promise.
#pragma once

#ifndef QUERN_ISA
#error "define QUERN_ISA as generic, avx2, avx512 or neon before this include"
#endif

// Every function of this folder: inlined also without optimisation, so no code of a tier is ever emitted by itself.
#define QUERN_FN inline __attribute__((always_inline))

#define QUERN_LATTICE_TEXT_(x) #x
#define QUERN_LATTICE_TEXT(x) QUERN_LATTICE_TEXT_(x)
// clang-format off
#include "lattice/vec.h"
#include QUERN_LATTICE_TEXT(lattice/QUERN_ISA.h)
#include "lattice/core.h"
#include "lattice/convert.h"
#include "lattice/mix.h"
// clang-format on
