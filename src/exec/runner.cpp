#include "exec/runner.h"

#include <chrono>

#include "base/check.h"

namespace quern::exec {

Result<Runner> Runner::create(Team& team, size_t scratch_bytes) {
  const size_t each = align_up(scratch_bytes, 4096);
  QUERN_TRY(Buffer scratch, Buffer::allocate(each * static_cast<size_t>(team.size()), "kernel scratch"));
  return Runner(team, each, std::move(scratch));
}

// make_mark(thread) gives what the thread calls at its begin, after each call and after each barrier.
template <class MakeMark>
void Runner::walk(const plan::Plan& plan, const kernels::RunContext& ctx, const MakeMark& make_mark) {
  QUERN_CHECK(ctx.n_rows <= plan.options.max_rows && ctx.n_out <= plan.options.max_outputs &&
              plan.scratch_bytes <= scratch_bytes_);
  team_->run([&](int thread) {
    const kernels::Worker worker{thread, team_->size(), scratch_.data() + scratch_bytes_ * static_cast<size_t>(thread)};
    auto mark = make_mark(thread);
    mark();
    for (const plan::Step& step : plan.steps) {
      for (const plan::Call& call : step.calls) {
        call.kernel->fn(call.raw_args(), ctx, worker);
        mark();
      }
      team_->barrier();
      mark();
    }
  });
}

void Runner::run(const plan::Plan& plan, const kernels::RunContext& ctx) {
  walk(plan, ctx, [](int) { return [] {}; });
}

void Runner::run_timed(const plan::Plan& plan, const kernels::RunContext& ctx, RunTimes& times) {
  size_t n_marks = 1;
  for (const plan::Step& step : plan.steps) n_marks += step.calls.size() + 1;
  times.marks.resize(static_cast<size_t>(team_->size()));
  for (auto& marks : times.marks) marks.resize(n_marks);
  walk(plan, ctx, [&](int thread) {
    return [at = times.marks[static_cast<size_t>(thread)].data()]() mutable {
      *at++ = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    };
  });
}

}  // namespace quern::exec
