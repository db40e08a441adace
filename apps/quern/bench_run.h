// Timing tests of speed in this process, and their results with llama-bench's field names. Comparing programs is
// bench_against.h; printing is bench_print.h.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/quern/command.h"
#include "engine/engine.h"
#include "measure/llama_bench.h"

namespace quern::apps {

// The tests that -p, -n, -d, -b and --turns name. A group is timed by one run: the turns of a chat, or a single test.
using TestGroup = std::vector<measure::SpeedTest>;
std::vector<TestGroup> test_groups(const Options& options);
// Positions of context that the tests need.
int context_of(const std::vector<TestGroup>& groups);

struct TimedTest {
  measure::SpeedTest test;
  std::string date;             // when it began
  std::vector<double> seconds;  // one a repetition
  // In the test's unit: tokens per second, or ms.
  std::vector<double> speeds() const;
};
Result<std::vector<TimedTest>> time_group(engine::Engine& engine, const TestGroup& group, const Options& options);

nlohmann::ordered_json bench_json(engine::Engine& engine, const TimedTest& timed, const Options& options);

}  // namespace quern::apps
