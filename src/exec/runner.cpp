#include "exec/runner.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace quern::exec {

namespace {

// What threads have taken of the calls of a step, each number on a cache line of its own: [calls, threads]. Of a call
// with common units only thread 0's number counts. Calls beyond kCalls have fixed shares.
class Counters {
 public:
  static constexpr size_t kCalls = 8;
  Counters(std::byte* memory, int n_threads) : lines_(reinterpret_cast<int*>(memory)), n_threads_(n_threads) {}
  static size_t bytes(int n_threads) { return kCalls * static_cast<size_t>(n_threads) * kCacheLine; }
  int* of_call(size_t call) const {
    return call < kCalls ? lines_ + call * static_cast<size_t>(n_threads_) * kLine : nullptr;
  }
  void clear(int thread) const {
    for (size_t call = 0; call < kCalls; ++call)
      __atomic_store_n(of_call(call) + static_cast<size_t>(thread) * kLine, 0, __ATOMIC_RELAXED);
  }

 private:
  static constexpr size_t kLine = kernels::Worker::kClaimStride;
  static_assert(kLine * sizeof(int) == kCacheLine);
  int* lines_;
  int n_threads_;
};

}  // namespace

Result<Runner> Runner::create(Team& team, size_t scratch_bytes) {
  const size_t each = align_up(scratch_bytes, 4096);
  QUERN_TRY(Buffer scratch, Buffer::allocate(each * static_cast<size_t>(team.size()), "kernel scratch"));
  QUERN_TRY(Buffer counters, Buffer::allocate(2 * Counters::bytes(team.size()), "work counters"));
  return Runner(team, each, std::move(scratch), std::move(counters));
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

// The thread's part of a step. common: units are whoever's takes them; else each thread has a share, which others
// take up where it is late.
template <class Marks>
void run_step(const plan::Step& step, const kernels::RunContext& ctx, kernels::Worker worker, const Counters& counters,
              bool common, Marks& marks) {
  marks.step(step.calls.size());
  const int64_t n_rows = kernels::row_count(ctx, step.rows);
  const kernels::Range mine = kernels::share(n_rows, worker);
  const auto make = [&](size_t i, kernels::Range rows) {
    const plan::Call& call = step.calls[i];
    worker.rows = rows;
    call.kernel->fn(call.raw_args(worker.thread), ctx, worker);
    marks.call(i);
  };
  const int64_t block = step.block_rows;
  if (block == 0) {
    for (size_t i = 0; i < step.calls.size(); ++i) {
      (common ? worker.taken : worker.claimed) = counters.of_call(i);
      const plan::Call& call = step.calls[i];
      make(i, call.replicated ? kernels::Range{0, kernels::row_count(ctx, call.rows)} : mine);
    }
    return;
  }
  const auto chain = [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < step.calls.size(); ++i) make(i, {begin, end});
  };
  if (!common) {
    for (int64_t row = mine.begin; row < mine.end; row += block) chain(row, std::min(row + block, mine.end));
  } else {
    worker.taken = counters.of_call(0);
    const kernels::Worker taker = worker;
    worker.taken = nullptr;
    kernels::for_units((n_rows + block - 1) / block, taker,
                       [&](int64_t unit) { chain(unit * block, std::min((unit + 1) * block, n_rows)); });
  }
}

}  // namespace

// make_marks(thread) gives what the thread tells of its way.
template <class MakeMarks>
void Runner::walk(const plan::Plan& plan, const kernels::RunContext& given, const MakeMarks& make_marks) {
  const kernels::RunContext ctx = plan.complete(given);
  QUERN_CHECK(ctx.n_rows <= plan.options.max_rows && ctx.n_out <= plan.options.max_outputs &&
              plan.scratch_bytes <= scratch_bytes_);
  const Counters banks[2] = {{counters_.data(), team_->size()},
                             {counters_.data() + Counters::bytes(team_->size()), team_->size()}};
  const bool common = plan.row_class == kernels::RowClass::prefill;
  for (int thread = 0; thread < team_->size(); ++thread) banks[0].clear(thread);
  team_->run([&](int thread) {
    kernels::Worker worker;
    worker.thread = thread;
    worker.n_threads = team_->size();
    worker.scratch = scratch_.data() + scratch_bytes_ * static_cast<size_t>(thread);
    auto marks = make_marks(thread);
    marks.start();
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      // Nobody uses the other bank: all have left the step before and none has begun the next.
      banks[(i + 1) % 2].clear(thread);
      run_step(plan.steps[i], ctx, worker, banks[i % 2], common, marks);
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
