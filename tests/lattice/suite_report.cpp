// The comparison of the lattice suite. Compiled for the baseline processor, like the test program.
#include <cstdio>
#include <cstring>

#include "suite.h"

namespace quern::lattice_suite {
namespace {

uint32_t lane_bits(const void* p, size_t lane_bytes, int i) {
  uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(p) + lane_bytes * static_cast<size_t>(i), lane_bytes);
  return bits;
}
bool is_nan(uint32_t bits) {
  return (bits & 0x7fffffffU) > 0x7f800000U;
}

}  // namespace

void compare(Report& report, const char* what, const char* type, Kind kind, size_t lane_bytes, const void* got,
             const void* want, int n) {
  report.compared += n;
  if (std::memcmp(got, want, lane_bytes * static_cast<size_t>(n)) == 0) return;
  for (int i = 0; i < n; ++i) {
    const uint32_t g = lane_bits(got, lane_bytes, i), w = lane_bits(want, lane_bytes, i);
    if (g == w || (kind == Kind::number && is_nan(g) && is_nan(w))) continue;
    if (report.failed++ == 0) {
      std::snprintf(report.first, sizeof report.first, "%s on %s, lane %d: got 0x%0*x, want 0x%0*x", what, type, i,
                    static_cast<int>(2 * lane_bytes), g, static_cast<int>(2 * lane_bytes), w);
    }
  }
}

}  // namespace quern::lattice_suite
