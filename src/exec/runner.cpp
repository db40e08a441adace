#include "exec/runner.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace quern::exec {

Result<Runner> Runner::create(Team& team, size_t scratch_bytes) {
  const size_t each = align_up(scratch_bytes, 4096);
  QUERN_TRY(Buffer scratch, Buffer::allocate(each * static_cast<size_t>(team.size()), "kernel scratch"));
  return Runner(team, each, std::move(scratch));
}

namespace {

// What a thread notes on its way, into RunTimes::marks or nowhere.
struct NoMarks {
  void start() {}
  void step(size_t) {}
  void call(size_t) {}
  void barrier() {}
};

class ClockMarks {
 public:
  explicit ClockMarks(int64_t* marks) : at_(marks) {}
  void start() { *at_++ = last_ = now(); }
  void step(size_t n_calls) { std::fill_n(at_, n_calls_ = n_calls, 0); }
  // A call is made once a block of rows: its times add up.
  void call(size_t i) {
    const int64_t t = now();
    at_[i] += t - last_;
    last_ = t;
  }
  void barrier() {
    for (size_t i = 0; i < n_calls_; ++i, ++at_) at_[0] += at_[-1];
    *at_++ = last_ = now();
  }

 private:
  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }
  int64_t* at_;  // the next mark; of a step's calls, sums of time until the barrier
  int64_t last_ = 0;
  size_t n_calls_ = 0;
};

// The thread's part of a step.
template <class Marks>
void run_step(const plan::Step& step, const kernels::RunContext& ctx, kernels::Worker worker, Marks& marks) {
  marks.step(step.calls.size());
  kernels::Range mine = {0, 1};
  int64_t block = 1;
  if (step.block_rows > 0) {
    mine = kernels::share(kernels::row_count(ctx, step.rows), worker);
    block = step.block_rows;
  }
  for (int64_t row = mine.begin; row < mine.end; row += block) {
    if (step.block_rows > 0) worker.rows = {row, std::min(row + block, mine.end)};
    for (size_t i = 0; i < step.calls.size(); ++i) {
      const plan::Call& call = step.calls[i];
      call.kernel->fn(call.raw_args(), ctx, worker);
      marks.call(i);
    }
  }
}

}  // namespace

// make_marks(thread) gives what the thread tells of its way.
template <class MakeMarks>
void Runner::walk(const plan::Plan& plan, const kernels::RunContext& ctx, const MakeMarks& make_marks) {
  QUERN_CHECK(ctx.n_rows <= plan.options.max_rows && ctx.n_out <= plan.options.max_outputs &&
              plan.scratch_bytes <= scratch_bytes_);
  team_->run([&](int thread) {
    const kernels::Worker worker{thread, team_->size(), scratch_.data() + scratch_bytes_ * static_cast<size_t>(thread)};
    auto marks = make_marks(thread);
    marks.start();
    for (const plan::Step& step : plan.steps) {
      run_step(step, ctx, worker, marks);
      team_->barrier();
      marks.barrier();
    }
  });
}

void Runner::run(const plan::Plan& plan, const kernels::RunContext& ctx) {
  walk(plan, ctx, [](int) { return NoMarks(); });
}

void Runner::run_timed(const plan::Plan& plan, const kernels::RunContext& ctx, RunTimes& times) {
  size_t n_marks = 1;
  for (const plan::Step& step : plan.steps) n_marks += step.calls.size() + 1;
  times.marks.resize(static_cast<size_t>(team_->size()));
  for (auto& marks : times.marks) marks.resize(n_marks);
  walk(plan, ctx, [&](int thread) { return ClockMarks(times.marks[static_cast<size_t>(thread)].data()); });
}

}  // namespace quern::exec
