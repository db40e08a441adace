#include "exec/runner.h"

#include <algorithm>

#include "base/check.h"

namespace quern::exec {

Result<Runner> Runner::create(Team& team, size_t scratch_bytes) {
  const size_t each = align_up(scratch_bytes, 4096);
  QUERN_TRY(Buffer scratch, Buffer::allocate(each * static_cast<size_t>(team.size()), "kernel scratch"));
  return Runner(team, each, std::move(scratch));
}

namespace {

// The thread's part of a step.
void run_step(const plan::Step& step, const kernels::RunContext& ctx, kernels::Worker worker) {
  kernels::Range mine = {0, 1};
  int64_t block = 1;
  if (step.block_rows > 0) {
    mine = kernels::share(kernels::row_count(ctx, step.rows), worker);
    block = step.block_rows;
  }
  for (int64_t row = mine.begin; row < mine.end; row += block) {
    if (step.block_rows > 0) worker.rows = {row, std::min(row + block, mine.end)};
    for (const plan::Call& call : step.calls) call.kernel->fn(call.raw_args(), ctx, worker);
  }
}

}  // namespace

void Runner::run(const plan::Plan& plan, const kernels::RunContext& ctx) {
  QUERN_CHECK(ctx.n_rows <= plan.options.max_rows && ctx.n_out <= plan.options.max_outputs &&
              plan.scratch_bytes <= scratch_bytes_);
  team_->run([&](int thread) {
    const kernels::Worker worker{thread, team_->size(), scratch_.data() + scratch_bytes_ * static_cast<size_t>(thread)};
    for (const plan::Step& step : plan.steps) {
      run_step(step, ctx, worker);
      team_->barrier();
    }
  });
}

}  // namespace quern::exec
