// What this processor can run: instruction-set tiers (CPUID and what the operating system saves, XCR0).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern {

// The tiers that kernels are written for. A processor supports a set of them; generic always.
enum class Isa : uint8_t { generic, avx2, avx512, neon };
inline constexpr int kIsaCount = 4;

const char* isa_name(Isa isa);
Result<Isa> parse_isa(std::string_view name);

struct CpuInfo {
  std::string name;                   // as the processor states it
  std::vector<std::string> features;  // of those Quern looks at, the ones present and usable
  uint32_t isa_mask = 1;              // bit (1 << Isa) for each usable tier
  Isa best = Isa::generic;
  bool supports(Isa isa) const { return (isa_mask >> static_cast<int>(isa)) & 1; }
};

// Detected afresh at each call (microseconds).
CpuInfo detect_cpu();

}  // namespace quern
