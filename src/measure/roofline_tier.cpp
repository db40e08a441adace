// The inner loops of the roofline probe, compiled once per instruction set. A round is a register tile as a matmul has
// it: kA x kB independent sums. Operands are loaded anew each round, so that nothing can be computed ahead.
#include "measure/roofline_tier.h"

#include "lattice/lattice.h"

namespace quern::measure::QUERN_ISA {
namespace {

using namespace quern::lattice::QUERN_ISA;  // NOLINT(google-build-using-namespace): the tier's own namespace

constexpr bool kWide = kRegBytes == 64;
constexpr int kA = 2, kB = kWide ? 6 : 4;
constexpr int kWords = kRegBytes / 4;
using Ints = lat<i32, kWords>;
using Floats = lat<f32, kWords>;
using Codes = lat<i8, kRegBytes>;
using UCodes = lat<u8, kRegBytes>;
using Words = lat<u32, kWords>;

uint32_t read(const std::byte* p, size_t bytes) {
  constexpr int kUnroll = 512 / kRegBytes;
  constexpr int kSums = kUnroll < 8 ? kUnroll : 8;
  Words sums[kSums];
  for (Words& s : sums) s = Words::zero();
  for (const std::byte* end = p + bytes; p < end; p += 512) {
    for (int line = 0; line < 512; line += 64) prefetch(p + 4096 + line);
#pragma GCC unroll 32
    for (int i = 0; i < kUnroll; ++i)
      sums[i % kSums] = sums[i % kSums] ^ Words::load(reinterpret_cast<const u32*>(p + i * kRegBytes));
  }
  for (int i = 1; i < kSums; ++i) sums[0] = sums[0] ^ sums[i];
  return reduce_add(sums[0]);
}

uint64_t int_dots(const std::byte* a, const std::byte* b, int64_t n, int32_t* sink) {
  Ints sums[kA][kB];
#pragma GCC unroll 2
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kB; ++j) sums[i][j] = Ints::zero();
  }
  for (int64_t round = 0; round < n; ++round) {
    asm volatile("" ::: "memory");
    UCodes x[kA];
#pragma GCC unroll 2
    for (int i = 0; i < kA; ++i) x[i] = UCodes::load(reinterpret_cast<const u8*>(a + i * kRegBytes));
#pragma GCC unroll 6
    for (int j = 0; j < kB; ++j) {
      const Codes y = Codes::broadcast4(b + j * 4);  // as a tile does; a whole vector would be read once a dot
#pragma GCC unroll 2
      for (int i = 0; i < kA; ++i) sums[i][j] = idot4_small(sums[i][j], x[i], y);
    }
  }
  Ints sum = Ints::zero();
#pragma GCC unroll 2
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kB; ++j) sum = sum + sums[i][j];
  }
  sum.store(sink);
  return static_cast<uint64_t>(n) * kA * kB * kRegBytes;
}

uint64_t float_fmas(const float* a, const float* b, int64_t n, float* sink) {
  Floats sums[kA][kB];
#pragma GCC unroll 2
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kB; ++j) sums[i][j] = Floats::zero();
  }
  for (int64_t round = 0; round < n; ++round) {
    asm volatile("" ::: "memory");
    Floats x[kA];
#pragma GCC unroll 2
    for (int i = 0; i < kA; ++i) x[i] = Floats::load(a + i * kWords);
#pragma GCC unroll 6
    for (int j = 0; j < kB; ++j) {
      const Floats y = Floats::broadcast(b[j]);
#pragma GCC unroll 2
      for (int i = 0; i < kA; ++i) sums[i][j] = fma(x[i], y, sums[i][j]);
    }
  }
  Floats sum = Floats::zero();
#pragma GCC unroll 2
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kB; ++j) sum = sum + sums[i][j];
  }
  sum.store(sink);
  return static_cast<uint64_t>(n) * kA * kB * kWords;
}

}  // namespace

extern const TierProbe kProbe;
const TierProbe kProbe = {&read, &int_dots, &float_fmas};

}  // namespace quern::measure::QUERN_ISA
