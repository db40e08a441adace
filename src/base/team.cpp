#include "base/team.h"

#include <system_error>

namespace quern {
namespace {

// A barrier inside a token is over in microseconds: spin that long. Then offer the processor to others, since a thread
// that is late may be waiting for just this one. Then park.
constexpr int kSpins = 2000, kYields = 100;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Returns once `value` is no longer `old`.
void wait_while(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int n_threads) {
  for (int t = 1; t < n_threads; ++t) {
    try {
      threads_.emplace_back([this, t] { work(t); });
    } catch (const std::system_error&) {
      break;
    }
  }
  n_threads_ = static_cast<int>(threads_.size()) + 1;
}

Team::~Team() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run_erased(JobFn fn, void* job) {
  if (n_threads_ == 1) {
    fn(job, 0);
    return;
  }
  job_fn_ = fn;
  job_ = job;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  fn(job, 0);
  barrier();
}

void Team::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    wait_while(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    job_fn_(job_, thread);
    barrier();
  }
}

void Team::barrier() {
  if (n_threads_ == 1) return;
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(n_threads_)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  wait_while(generation_, generation);
}

}  // namespace quern
