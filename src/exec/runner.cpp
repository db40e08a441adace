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
  const kernels::Range all = {0, kernels::row_count(ctx, step.rows)}, mine = kernels::share(all.end, worker);
  const auto make = [&](size_t i, kernels::Range rows) {
    const plan::Call& call = step.calls[i];
    worker.rows = rows;
    call.kernel->fn(call.raw_args(worker.thread), ctx, worker);
    marks.call(i);
  };
  const int64_t block = step.block_rows;
  if (block == 0) {
    for (size_t i = 0; i < step.calls.size(); ++i) make(i, step.calls[i].replicated ? all : mine);
    return;
  }
  for (int64_t row = mine.begin; row < mine.end; row += block) {
    for (size_t i = 0; i < step.calls.size(); ++i) make(i, {row, std::min(row + block, mine.end)});
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
