// The lattice conformance suite as the test program sees it: tables of cases, one set per tier, and the comparison that
// every case ends in. Included by code of every tier, so it holds no inline function and no library container.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::lattice_suite {

struct Report {
  int64_t compared = 0, failed = 0;
  char first[256] = "";  // the first difference, in words
};

enum class Kind : uint8_t { integer, number, bits };  // number: f32, where any NaN equals any NaN

// Compares n lanes of lane_bytes (1, 2 or 4) bit for bit. `what` and `type` name the case in the report.
void compare(Report& report, const char* what, const char* type, Kind kind, size_t lane_bytes, const void* got,
             const void* want, int n);

struct Case {
  const char* name;
  void (*run)(Report&);
  bool must_fail;  // a negative control: a wrong implementation that the comparison has to find
};
struct Cases {
  const Case* rows;
  int n;
};

enum class Function : uint8_t { exp, sigmoid, silu, tanh, gelu, gelu_quick };
inline constexpr int kFunctionCount = 6;

// What one tier's objects export.
struct Suite {
  Cases (*integers)();
  Cases (*floats)();
  Cases (*converts)();
  Cases (*mixes)();
  void (*evaluate)(Function f, const float* in, float* out, int n);  // n is a multiple of 16
};

}  // namespace quern::lattice_suite
