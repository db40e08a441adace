#include "measure/paired.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/file_io.h"

namespace quern::measure {
namespace {

// The 97.5 % point of Student's t.
double t_point(size_t freedom) {
  constexpr double kPoints[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (freedom <= std::size(kPoints)) return kPoints[freedom - 1];
  return 1.960 + 2.46 / static_cast<double>(freedom);  // within 0.001 beyond 30
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Result<Ratio> paired_ratio(const std::vector<double>& ours, const std::vector<double>& theirs) {
  if (ours.empty() || ours.size() != theirs.size())
    return Error{Status::invalid_argument, "a ratio needs as many samples of one side as of the other"};
  std::vector<double> logs;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double log = std::log(ours[i] / theirs[i]);
    if (!(ours[i] > 0) || !(theirs[i] > 0) || !std::isfinite(log))
      return Error{Status::invalid_argument, "a rate is not a positive number"};
    logs.push_back(log);
  }
  const auto n = static_cast<double>(logs.size());
  double mean = 0, squares = 0;
  for (const double x : logs) mean += x / n;
  for (const double x : logs) squares += (x - mean) * (x - mean);
  Ratio ratio;
  ratio.middle = ratio.low = ratio.high = std::exp(mean);
  if (logs.size() < 2) return ratio;
  const double half = t_point(logs.size() - 1) * std::sqrt(squares / (n - 1) / n);
  ratio.low = std::exp(mean - half);
  ratio.high = std::exp(mean + half);
  ratio.known = true;
  return ratio;
}

CpuTicks read_cpu_ticks(const std::string& root) {
  CpuTicks ticks;
  const auto text = read_file(root + "/proc/stat", 1 << 20);
  if (!text.ok()) return ticks;
  std::istringstream line(text->substr(0, text->find('\n')));
  std::string label;
  line >> label;
  uint64_t value = 0;
  // user nice system idle iowait irq softirq steal; guest times after them are part of user and nice
  for (int i = 0; i < 8 && line >> value; ++i) {
    ticks.total += value;
    if (i == 3 || i == 4) ticks.idle += value;
    if (i == 7) ticks.steal = value;
  }
  return ticks;
}

double steal_between(const CpuTicks& before, const CpuTicks& after) {
  if (after.total <= before.total || after.steal < before.steal) return 0;
  return static_cast<double>(after.steal - before.steal) / static_cast<double>(after.total - before.total);
}

}  // namespace quern::measure
