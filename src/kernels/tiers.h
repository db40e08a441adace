// The tiers that registry.cpp joins, in order. A tier is one function that returns its rows.
#pragma once

#include <span>

#include "kernels/registry.h"

namespace quern::kernels {

using TierRows = std::span<const Kernel> (*)();

namespace ref {
std::span<const Kernel> rows();
}
#if defined(__x86_64__)
namespace generic {
std::span<const Kernel> rows();
}
namespace avx2 {
std::span<const Kernel> rows();
}
namespace avx512 {
std::span<const Kernel> rows();
}
inline constexpr TierRows kTierRows[] = {&ref::rows, &generic::rows, &avx2::rows, &avx512::rows};
#elif defined(__aarch64__)
namespace generic {
std::span<const Kernel> rows();
}
namespace neon {
std::span<const Kernel> rows();
}
inline constexpr TierRows kTierRows[] = {&ref::rows, &generic::rows, &neon::rows};
#else
namespace generic {
std::span<const Kernel> rows();
}
inline constexpr TierRows kTierRows[] = {&ref::rows, &generic::rows};
#endif

}  // namespace quern::kernels
