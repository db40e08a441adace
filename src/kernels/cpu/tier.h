// What every vector kernel source starts from: the tier's lattice types, and small helpers over rows. Sources in this
// folder are compiled once per instruction set with QUERN_ISA defined; they use no standard-library templates, so that
// no shared symbol is ever compiled with a tier's flags.
#pragma once

#include "kernels/ops.h"
#include "kernels/registry.h"
#include "kernels/tiers.h"
#include "lattice/lattice.h"
#include "lattice/math.h"

#define QUERN_TIER_TEXT_(x) #x
#define QUERN_TIER_TEXT(x) QUERN_TIER_TEXT_(x)
// "avx512.matmul"
#define QUERN_NAME(text) QUERN_TIER_TEXT(QUERN_ISA) "." text

namespace quern::kernels::QUERN_ISA {

using namespace quern::lattice::QUERN_ISA;  // NOLINT(google-build-using-namespace): the tier's own namespace

constexpr Isa own_isa() {
  constexpr char kName[] = QUERN_TIER_TEXT(QUERN_ISA);
  return kName[0] == 'g' ? Isa::generic : kName[0] == 'n' ? Isa::neon : kName[3] == '2' ? Isa::avx2 : Isa::avx512;
}
// Above ref (0); a better tier above a lesser one.
constexpr int own_priority() {
  return own_isa() == Isa::generic ? 10 : own_isa() == Isa::avx512 ? 30 : 20;
}

inline constexpr bool kWide = kRegBytes == 64;  // 32 registers of 64 bytes
// How far to unroll a loop of n turns. Sanitizers multiply code; they want to see it, not to see it unrolled.
constexpr int unroll(int n) {
#ifdef QUERN_SANITIZED
  return n > 0 ? 1 : 0;
#else
  return n;
#endif
}
// Loops over the vectors of a block: where registers are few, unrolling only makes code.
inline constexpr int kDeep = kWide ? unroll(8) : 1;

// Calls each(i, lanes that are real) for 16-lane groups of n elements; whole groups have 16.
template <class Each>
QUERN_FN void by_16(int64_t n, const Each& each) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) each(i, 16);
  if (i < n) each(i, static_cast<int>(n - i));
}

// 16 elements at p of which the first n are real; the others read as zero.
QUERN_FN f32x16 load_n(const float* p, int n) {
  if (n == 16) return f32x16::load(p);
  float part[16] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i];
  return f32x16::load(part);
}

QUERN_FN void store_n(const f32x16& v, float* p, int n) {
  if (n == 16) {
    v.store(p);
    return;
  }
  float part[16];
  v.store(part);
  for (int i = 0; i < n; ++i) p[i] = part[i];
}

}  // namespace quern::kernels::QUERN_ISA
