// Two programs measured in alternation: the order of turns, the ratio with its 95 % interval, and what the machine did
// meanwhile. Starting programs is the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quern::measure {

double median(std::vector<double> values);  // 0 of none

// Ratio of paired samples, ours over theirs. The interval is Student's t on the logarithms, so it is right for ratios
// and never below 0.
struct Ratio {
  double middle = 0;  // exp of the mean logarithm
  double low = 0, high = 0;
  bool known = false;  // an interval needs two pairs or more
  bool shows_difference() const { return known && (low > 1 || high < 1); }
};
// [n] each, positive. Errors: invalid_argument for other lengths, no pairs, or a rate that is not positive and finite.
Result<Ratio> paired_ratio(const std::vector<double>& ours, const std::vector<double>& theirs);

// Who goes first in round i: A B, B A, A B, B A, … so that a drift of the machine falls on both alike.
inline bool ours_first(int round) {
  return round % 2 == 0;
}

// Processor time since boot, in ticks, from /proc/stat. All 0 where it cannot be read.
struct CpuTicks {
  uint64_t total = 0, idle = 0, steal = 0;
};
CpuTicks read_cpu_ticks(const std::string& root = "");
// Ticks taken by other guests of the host over all ticks, 0 to 1.
double steal_between(const CpuTicks& before, const CpuTicks& after);
inline constexpr double kMuchSteal = 0.02;

}  // namespace quern::measure
