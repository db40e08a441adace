// lattice backend: SSE4.1, AVX2, FMA, F16C. Registers of 32 bytes.
#pragma once

namespace quern::lattice::QUERN_ISA {
inline constexpr int kRegBytes = 32;
inline constexpr bool kAvx512 = false;
}  // namespace quern::lattice::QUERN_ISA

#include "lattice/x86.h"
#include "lattice/x86_mix.h"
