// Team: a fixed set of threads that run one job together, the caller among them, with barriers inside the job. A static
// split of work and few rendezvous, nothing else: no queues, no stealing.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace quern {

// A barrier inside a token is over in microseconds: spin that long before anything else.
inline constexpr int kDefaultSpins = 2000;

struct TeamOptions {
  int n_threads = 1;          // >= 1, counts the caller
  int spins = kDefaultSpins;  // looks (with a pause instruction each) before a waiting thread offers its processor
};

// Waiting first spins, then yields a few times, then parks in the kernel.
class Team {
 public:
  // Threads that cannot be created are done without: size() tells.
  explicit Team(const TeamOptions& options);
  explicit Team(int n_threads) : Team(TeamOptions{n_threads, kDefaultSpins}) {}
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return n_threads_; }

  // Calls job(thread) on every thread, 0 being the caller, and returns when all are done. Not reentrant; one caller at
  // a time. The job must not throw.
  template <class Job>
  void run(Job&& job) {
    run_erased([](void* j, int thread) { (*static_cast<std::remove_reference_t<Job>*>(j))(thread); }, &job);
  }

  // Inside a job: returns once every thread of the team has called it. What each wrote before, all see after.
  void barrier();

 private:
  using JobFn = void (*)(void* job, int thread);
  void run_erased(JobFn fn, void* job);
  void work(int thread);
  void wait_while(const std::atomic<uint32_t>& value, uint32_t old) const;

  int n_threads_ = 1;
  int spins_;
  std::vector<std::thread> threads_;
  JobFn job_fn_ = nullptr;
  void* job_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // counts jobs; odd bit unused
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};  // counts barriers
};

}  // namespace quern
