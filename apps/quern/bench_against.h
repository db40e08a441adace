// bench in alternation: every turn is a process, ours among them, so that all meet the same conditions: an idle
// machine, a fresh start, nothing of another program in memory but the page cache. Also how --record measures.
#pragma once

#include "apps/quern/bench_run.h"

namespace quern::apps {

// Measures the groups, with the peers of --against where they can, prints and records. Errors name the program that
// failed; what was recorded before stays.
Result<void> bench_against(const Context& context, const std::vector<TestGroup>& groups);

}  // namespace quern::apps
