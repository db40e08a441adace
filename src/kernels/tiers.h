// The lists that registry.cpp joins. A vector tier is one source per family, compiled once per instruction set; each
// such object exports one list and nothing else that is not in its own namespace (tools/check_isa_symbols.py).
#pragma once

#include "kernels/registry.h"

namespace quern::kernels {

struct KernelList {
  const Kernel* rows;
  int n;
};

#define QUERN_TIER_FAMILIES(X) X(kRowwise) X(kExperts) X(kQuantize) X(kAttention) X(kMatmul32) X(kMatmul256) X(kMatmulFloat)

#define QUERN_DECLARE_LIST(name) extern const KernelList name;
#define QUERN_DECLARE_TIER(isa)           \
  namespace isa {                         \
  QUERN_TIER_FAMILIES(QUERN_DECLARE_LIST) \
  }

QUERN_DECLARE_TIER(generic)
QUERN_DECLARE_TIER(avx2)
QUERN_DECLARE_TIER(avx512)
QUERN_DECLARE_TIER(neon)

#undef QUERN_DECLARE_TIER
#undef QUERN_DECLARE_LIST

}  // namespace quern::kernels
