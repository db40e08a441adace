// What the engine thread counts and other threads read. Internal to serve/.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace quern::serve {

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct Counters {
  Counter n_requests, n_refused, n_finished, n_cancelled, n_failed;
  Counter n_prompt_tokens, n_cached_tokens, n_prefix_hits, n_restored, n_generated_tokens, n_steps, n_slices;
  Counter prompt_ns, step_ns;
  // Of now.
  Counter n_prompt, n_generating, n_kept, kv_pages, kv_bytes;
  Counter service_ns;  // a running mean of the time from admission to the end; 0: none has ended
  // When the engine thread took up the piece of work it is at (steady clock); 0: it has none.
  std::atomic<int64_t> at_work_since_ns{0};

  static int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  void take_up_work() { at_work_since_ns.store(now_ns(), std::memory_order_relaxed); }
  void rest() { at_work_since_ns.store(0, std::memory_order_relaxed); }
};

}  // namespace quern::serve
