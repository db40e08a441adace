// Runs a plan's steps on a team: every thread walks the steps, a barrier after each. With many rows, threads take units
// of work as they become free; with few, each has its share, whose place is known ahead, and helps others when it is
// done. Nothing is allocated, no clock or environment is read, except that run_timed reads a clock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "base/team.h"
#include "plan/plan.h"

namespace quern::exec {

// When things happened in a run, nanoseconds of the steady clock. Thread t's marks: [0] its begin, then one after each
// call and one after each step's barrier, in order: 1 + calls + steps. Of a step that is walked by blocks of rows, each
// call stands there with the time of all blocks, as if one call had followed the other.
struct RunTimes {
  std::vector<std::vector<int64_t>> marks;  // [n_threads]
};

class Runner {
 public:
  // scratch_bytes: the largest that any plan to be run states.
  static Result<Runner> create(Team& team, size_t scratch_bytes);
  size_t scratch_bytes() const { return scratch_bytes_; }  // at least what it was created for
  // Requires ctx.n_rows <= plan.options.max_rows and ctx.n_out <= plan.options.max_outputs. Afterwards plan.output
  // holds ctx.n_out rows.
  void run(const plan::Plan& plan, const kernels::RunContext& ctx);
  // The same walk with a clock read after each call and barrier. Resizes `times` before it starts.
  void run_timed(const plan::Plan& plan, const kernels::RunContext& ctx, RunTimes& times);

 private:
  Runner(Team& team, size_t scratch_bytes, Buffer scratch, Buffer counters)
      : team_(&team), scratch_bytes_(scratch_bytes), scratch_(std::move(scratch)), counters_(std::move(counters)) {}
  template <class MakeMarks>
  void walk(const plan::Plan& plan, const kernels::RunContext& given, const MakeMarks& make_marks);

  Team* team_;
  size_t scratch_bytes_;
  Buffer scratch_;
  Buffer counters_;  // Worker::taken and claimed of a step's calls, two banks: one is used while the other is cleared
};

}  // namespace quern::exec
