// The queue, the engine thread, and what other threads may ask.
#include "serve/scheduler.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "engine/engine.h"
#include "exec/image_memory.h"
#include "serve/batch.h"
#include "serve/check.h"

namespace quern::serve {
namespace {

constexpr size_t kMostClients = 4096;  // whose last turn is remembered

Result<void> check_options(const SchedulerOptions& o) {
  const auto refuse = [](std::string message) { return Error{Status::invalid_argument, std::move(message)}; };
  if (o.parallel < 1 || o.parallel > engine::kMaxBatch)
    return refuse("parallel must be 1 to " + std::to_string(engine::kMaxBatch));
  if (o.max_queue < 0) return refuse("the length of the queue must not be negative");
  if (o.max_kept < 0) return refuse("the number of kept timelines must not be negative");
  if (!(o.slice.count() > 0) || !(o.slice_alone.count() > 0)) return refuse("a slice must take some time");
  return {};
}

uint64_t kv_budget(const engine::Engine& engine, const SchedulerOptions& options) {
  const uint64_t full = engine.kv_bytes(engine.n_ctx() + 64);
  const uint64_t wanted = options.kv_bytes > 0
                              ? options.kv_bytes
                              : std::min(full * static_cast<uint64_t>(options.parallel), exec::available_memory() / 4);
  return std::max(full, wanted);
}

Finish ended_in_queue(const Job& job, FinishReason reason) {
  Finish finish;
  finish.reason = reason;
  finish.n_prompt = static_cast<int>(job.request.prompt.size());
  finish.queue_seconds = seconds_between(job.submitted, Clock::now());
  job.stream->phase.store(Stream::Progress::Phase::finished, std::memory_order_relaxed);
  return finish;
}

}  // namespace

class Scheduler::Impl {
 public:
  Impl(std::shared_ptr<engine::Engine> engine, const SchedulerOptions& options)
      : engine_(std::move(engine)),
        options_(options),
        budget_(kv_budget(*engine_, options_)),
        batch_(*engine_, options_, budget_, counters_, stopping_) {}

  Result<void> start() {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      return Error{Status::io_error, std::string("no thread for the engine: ") + error.what()};
    }
    return {};
  }

  Submission submit(Request request);
  SchedulerStats stats() const;
  engine::Engine& engine() const { return *engine_; }
  void drain() {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  bool wait_idle(Seconds deadline) {
    std::unique_lock lock(mutex_);
    draining_ = true;
    return idle_.wait_for(lock, deadline, [&] { return queue_.empty() && n_running() == 0; });
  }
  void stop();

 private:
  void run();
  void admit();
  std::vector<Job> take_cancelled();
  void end(const std::vector<Job>& jobs, FinishReason reason);
  size_t next_in_queue() const;
  uint64_t n_running() const { return counters_.n_prompt.get() + counters_.n_generating.get(); }
  int retry_after() const;

  std::shared_ptr<engine::Engine> engine_;
  SchedulerOptions options_;
  uint64_t budget_;
  Counters counters_;
  const Clock::time_point started_ = Clock::now();
  mutable std::mutex mutex_;  // queue_, draining_, and with work_ stopping_
  std::condition_variable work_, idle_;
  std::deque<Job> queue_;
  bool draining_ = false;
  std::atomic<bool> stopping_{false};
  Batch batch_;                                          // the engine thread's, like the next two
  std::unordered_map<std::string, uint64_t> last_turn_;  // [client] when a request of it was last admitted
  uint64_t n_turns_ = 0;
  std::mutex join_mutex_;
  std::thread thread_;
};

// Seconds until a place in the queue is free, by the requests that have ended so far.
int Scheduler::Impl::retry_after() const {
  const double each = static_cast<double>(counters_.service_ns.get()) * 1e-9;
  const double all = each * static_cast<double>(queue_.size() + 1) / options_.parallel;
  return static_cast<int>(std::clamp(std::ceil(all), 1.0, 600.0));
}

Submission Scheduler::Impl::submit(Request request) {
  const auto refuse = [&](Refusal refusal) {
    counters_.n_refused.add();
    return Submission{nullptr, std::move(refusal)};
  };
  if (auto refusal = check_request(request, *engine_)) return refuse(std::move(*refusal));
  auto state = std::make_shared<StreamState>();
  state->on_ready = std::move(request.on_ready);
  state->n_prompt = static_cast<int>(request.prompt.size());
  auto stream = std::make_unique<Stream>(state);
  std::vector<Job> cancelled;
  std::optional<Refusal> refusal;
  {
    const std::lock_guard lock(mutex_);
    const size_t places = static_cast<size_t>(options_.max_queue + options_.parallel);
    if (queue_.size() + n_running() >= places) cancelled = take_cancelled();
    if (draining_) {
      refusal = Refusal{Refusal::Kind::stopping, "the server is shutting down", 0, 0, 1};
    } else if (queue_.size() + n_running() >= places) {
      refusal = Refusal{Refusal::Kind::busy, "the queue of " + std::to_string(options_.max_queue) + " requests is full",
                        0, 0, retry_after()};
    } else {
      counters_.n_requests.add();
      queue_.push_back({std::move(request), std::move(state), Clock::now()});
    }
  }
  end(cancelled, FinishReason::cancelled);
  if (refusal) return refuse(std::move(*refusal));
  work_.notify_one();
  return {std::move(stream), {}};
}

// Out of the queue; with the lock held.
std::vector<Job> Scheduler::Impl::take_cancelled() {
  std::vector<Job> cancelled;
  const auto is_cancelled = [](const Job& job) { return job.stream->cancelled.load(std::memory_order_relaxed); };
  for (Job& job : queue_) {
    if (is_cancelled(job)) cancelled.push_back(std::move(job));
  }
  if (!cancelled.empty()) std::erase_if(queue_, [](const Job& job) { return job.stream == nullptr; });
  return cancelled;
}

void Scheduler::Impl::end(const std::vector<Job>& jobs, FinishReason reason) {
  for (const Job& job : jobs) {
    counters_.n_cancelled.add();
    job.stream->push(ended_in_queue(job, reason));
  }
}

// Of the client with the fewest running requests; of several the one whose turn is the longest ago; of it the oldest.
// The queue is not empty.
size_t Scheduler::Impl::next_in_queue() const {
  const auto rank = [&](const Job& job) {
    const auto turn = last_turn_.find(job.request.client);
    return std::pair(batch_.n_of_client(job.request.client), turn == last_turn_.end() ? 0 : turn->second);
  };
  size_t best = 0;
  auto best_rank = rank(queue_[0]);
  for (size_t i = 1; i < queue_.size(); ++i) {
    const auto mine = rank(queue_[i]);
    if (mine >= best_rank) continue;
    best_rank = mine;
    best = i;
  }
  return best;
}

void Scheduler::Impl::admit() {
  for (;;) {
    std::vector<Job> cancelled;
    std::optional<Job> job;
    {
      const std::lock_guard lock(mutex_);
      cancelled = take_cancelled();
      if (!queue_.empty() && batch_.n_rows() < static_cast<size_t>(options_.parallel)) {
        const size_t i = next_in_queue();
        if (batch_.has_room_for(queue_[i].request)) {
          job.emplace(std::move(queue_[i]));
          queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
          if (last_turn_.size() >= kMostClients) last_turn_.clear();
          last_turn_[job->request.client] = ++n_turns_;
          counters_.n_prompt.add();  // it is never in neither place
        }
      }
    }
    end(cancelled, FinishReason::cancelled);
    if (!job) return;
    batch_.add(std::move(*job));
  }
}

void Scheduler::Impl::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty() && batch_.n_rows() == 0) {
        counters_.rest();
        idle_.notify_all();
      }
      work_.wait(lock, [&] { return stopping_.load() || !queue_.empty() || batch_.n_rows() > 0; });
      if (stopping_.load()) break;
    }
    counters_.take_up_work();
    try {
      admit();
      batch_.advance();
    } catch (const std::exception& error) {  // memory ran out where no single request could be blamed
      log_warning(std::string("all running requests were ended: ") + error.what());
      batch_.finish_all(FinishReason::error, Error{Status::out_of_memory, "the server ran out of memory"});
    }
  }
  batch_.finish_all(FinishReason::shutdown);
  std::vector<Job> left;
  {
    const std::lock_guard lock(mutex_);
    for (Job& job : queue_) left.push_back(std::move(job));
    queue_.clear();
  }
  end(left, FinishReason::shutdown);
  // No request and no kept timeline is left: whoever still holds pages has leaked them.
  if (const uint64_t pages = engine_->kv_use().pages; pages > 0)
    log_warning(std::to_string(pages) + " pages of keys and values were not given back");
  counters_.rest();
  idle_.notify_all();
}

void Scheduler::Impl::stop() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    stopping_.store(true);
  }
  work_.notify_all();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

SchedulerStats Scheduler::Impl::stats() const {
  SchedulerStats s;
  {
    const std::lock_guard lock(mutex_);
    s.n_queued = static_cast<int>(queue_.size());
    s.draining = draining_;
  }
  const Counters& c = counters_;
  s.n_prompt = static_cast<int>(c.n_prompt.get());
  s.n_generating = static_cast<int>(c.n_generating.get());
  s.parallel = options_.parallel;
  s.max_queue = options_.max_queue;
  s.n_kept = static_cast<int>(c.n_kept.get());
  s.kv_pages = c.kv_pages.get();
  s.kv_bytes = c.kv_bytes.get();
  s.kv_bytes_budget = budget_;
  if (const int64_t since = c.at_work_since_ns.load(std::memory_order_relaxed); since != 0)
    s.stalled_seconds = std::max(0.0, static_cast<double>(Counters::now_ns() - since) * 1e-9);
  s.n_requests = c.n_requests.get();
  s.n_refused = c.n_refused.get();
  s.n_finished = c.n_finished.get();
  s.n_cancelled = c.n_cancelled.get();
  s.n_failed = c.n_failed.get();
  s.n_prompt_tokens = c.n_prompt_tokens.get();
  s.n_cached_tokens = c.n_cached_tokens.get();
  s.n_prefix_hits = c.n_prefix_hits.get();
  s.n_restored = c.n_restored.get();
  s.n_generated_tokens = c.n_generated_tokens.get();
  s.n_steps = c.n_steps.get();
  s.n_slices = c.n_slices.get();
  s.prompt_seconds = static_cast<double>(c.prompt_ns.get()) * 1e-9;
  s.step_seconds = static_cast<double>(c.step_ns.get()) * 1e-9;
  s.uptime_seconds = seconds_between(started_, Clock::now());
  return s;
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scheduler::~Scheduler() {
  stop();
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<engine::Engine> engine,
                                                     const SchedulerOptions& options) {
  QUERN_TRY_VOID(check_options(options));
  auto impl = std::make_unique<Impl>(std::move(engine), options);
  QUERN_TRY_VOID(impl->start());
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(impl)));
}

Submission Scheduler::submit(Request request) {
  return impl_->submit(std::move(request));
}
SchedulerStats Scheduler::stats() const {
  return impl_->stats();
}
engine::Engine& Scheduler::engine() const {
  return impl_->engine();
}
void Scheduler::drain() {
  impl_->drain();
}
bool Scheduler::wait_idle(Seconds deadline) {
  return impl_->wait_idle(deadline);
}
void Scheduler::stop() {
  impl_->stop();
}

}  // namespace quern::serve
