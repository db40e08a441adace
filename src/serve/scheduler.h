// Scheduler: requests to one engine, run together (continuous batching), each with the tokens it would get alone.
//
// One thread of its own evaluates. It repeats: take what was cancelled out; admit waiting requests while rows and pages
// for keys and values last; one step of all rows that generate; then prompt tokens, a slice of bounded time, so that
// running streams go on while long prompts come in. Among prompts the one with the fewest tokens left goes first, but
// none is passed over more than kMaxPassed times. Among waiting requests, those of the client with the fewest running
// ones go first, then of the client whose last turn is the longest ago, then the oldest.
//
// Prefix cache: a request's timeline stays after it has ended. A new request takes the longest beginning that it shares
// with any of them, running ones too: pages of keys and values are shared, not copied. The least recently used are
// dropped when pages are needed. Bits do not depend on it.
#pragma once

#include "serve/serve.h"

namespace quern::engine {
class Engine;
struct NextToken;
}  // namespace quern::engine

namespace quern::serve {

struct SchedulerOptions {
  int parallel = 8;     // requests that run together, 1 to engine::kMaxBatch
  int max_queue = 128;  // requests that wait; one more is refused
  // Bytes of keys and values, of running and kept timelines together. 0: enough for `parallel` full contexts, at most a
  // quarter of the memory that is available. At least one full context always fits.
  uint64_t kv_bytes = 0;
  int max_kept = 64;  // timelines kept in the prefix cache; 0: no cache
  // Where timelines are kept over restarts: written when the scheduler stops, the most recently used ones, and read
  // when a request begins with one. "": nowhere. The folder, which several models may share, holds at most so many
  // bytes.
  std::string prefix_folder;
  uint64_t prefix_folder_bytes = uint64_t{1} << 30;
  // Time that prompt tokens may take between two steps of the rows that generate, and where none does (then it bounds
  // how long a cancellation waits).
  Seconds slice{0.1}, slice_alone{0.5};
  // Called in place of engine::step where set: tests make it fail.
  std::function<Result<void>(engine::Engine&, std::span<const engine::NextToken>)> step;
};

// Counters since the start, and how things are now. For /metrics, /v1/stats and /health.
struct SchedulerStats {
  // now
  int n_queued = 0, n_prompt = 0, n_generating = 0;  // requests
  int parallel = 0, max_queue = 0;
  int n_kept = 0;                                            // timelines in the prefix cache
  uint64_t kv_pages = 0, kv_bytes = 0, kv_bytes_budget = 0;  // in use, by running and kept timelines
  bool draining = false;
  // The watchdog: how long the engine thread has been at the same piece of work; 0 while it has none. A slice is about
  // a second at most, so much more means that it hangs.
  double stalled_seconds = 0;
  // since the start
  uint64_t n_requests = 0, n_refused = 0, n_finished = 0, n_cancelled = 0, n_failed = 0;
  uint64_t n_prompt_tokens = 0, n_cached_tokens = 0;  // cached: of the prompt tokens, not evaluated
  uint64_t n_prefix_hits = 0;                         // requests that took something from the cache
  uint64_t n_restored = 0;                            // of them, requests that took it from the folder
  uint64_t n_generated_tokens = 0, n_steps = 0, n_slices = 0;
  double prompt_seconds = 0, step_seconds = 0, uptime_seconds = 0;
};

class Scheduler {
 public:
  static constexpr int kMaxPassed = 8;

  // From here on only the scheduler may evaluate with this engine. Errors: options out of range, no thread.
  static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<engine::Engine> engine,
                                                   const SchedulerOptions& options);
  ~Scheduler();  // stop()

  // By any thread; never waits for an evaluation.
  Submission submit(Request request);
  SchedulerStats stats() const;
  engine::Engine& engine() const;

  // Takes nothing more; what was accepted goes on.
  void drain();
  // drain(), then waits until all has finished or the deadline is over; true where all has.
  bool wait_idle(Seconds deadline);
  // Ends the thread; what has not finished ends with FinishReason::shutdown. Idempotent.
  void stop();

 private:
  class Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::serve
