// lattice backend: AVX-512 F, BW, DQ, VL, VNNI. Registers of 64 bytes; narrower lattices use the VL forms.
#pragma once

namespace quern::lattice::QUERN_ISA {
inline constexpr int kRegBytes = 64;
inline constexpr bool kAvx512 = true;
}  // namespace quern::lattice::QUERN_ISA

#include "lattice/x86.h"
#include "lattice/x86_mix.h"
