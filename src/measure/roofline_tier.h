// The inner loops of the roofline probe, one set per instruction set (roofline_tier.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::measure {

struct TierProbe {
  // Reads [bytes] once, a multiple of 512; gives the exclusive or of what it read.
  uint32_t (*read)(const std::byte* p, size_t bytes);
  // Makes n rounds of dot products on operands [1024 bytes each, 64-byte aligned]; gives multiply-adds made.
  uint64_t (*int_dots)(const std::byte* a, const std::byte* b, int64_t n, int32_t* sink /*[16]*/);
  uint64_t (*float_fmas)(const float* a, const float* b, int64_t n, float* sink /*[16]*/);
};

#define QUERN_DECLARE_PROBE(isa) \
  namespace isa {                \
  extern const TierProbe kProbe; \
  }
QUERN_DECLARE_PROBE(generic)
QUERN_DECLARE_PROBE(avx2)
QUERN_DECLARE_PROBE(avx512)
QUERN_DECLARE_PROBE(neon)
#undef QUERN_DECLARE_PROBE

}  // namespace quern::measure
