// What tests of serve/ share: the answer a request gets alone, and masks that hold the engine thread or fail.
#pragma once

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "../engine/tiny.h"
#include "serve/scheduler.h"
#include "token/sampler.h"
#include "token/tokenizer.h"

namespace quern::serve {

inline constexpr std::chrono::milliseconds kLong{120000};  // longer than anything takes; a test that meets it fails

inline std::shared_ptr<engine::Engine> load_tiny(const std::string& name, int n_ctx = 512, int n_threads = 1,
                                                 int n_chunk = 64) {
  engine::EngineOptions options;
  options.n_threads = n_threads;
  options.n_ctx = n_ctx;
  options.n_chunk = n_chunk;
  auto engine = engine::Engine::load(engine::tiny_dir() + "/" + name + ".gguf", options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *engine : nullptr;
}

inline std::unique_ptr<Scheduler> start(std::shared_ptr<engine::Engine> engine, const SchedulerOptions& options = {}) {
  auto scheduler = Scheduler::create(std::move(engine), options);
  EXPECT_TRUE(scheduler.ok());
  return std::move(scheduler).value();
}

inline token::SamplerOptions greedy() {
  token::SamplerOptions options;
  options.temperature = 0;
  return options;
}

inline Request request(std::vector<int32_t> prompt, int max_tokens, token::SamplerOptions sampling = greedy()) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling = std::move(sampling);
  return r;
}

struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<TokenScore> scores;
  PromptDone prompt;
  Finish finish;
};

// Takes events until `enough` says so, or Finish.
template <class Enough>
bool read_until(Stream& stream, Answer& answer, const Enough& enough) {
  while (!enough(answer)) {
    const auto events = stream.wait(kLong);
    if (events.empty()) {
      ADD_FAILURE() << "no event came";
      return false;
    }
    for (const Event& event : events) {
      if (const auto* done = std::get_if<PromptDone>(&event)) answer.prompt = *done;
      if (const auto* token = std::get_if<Token>(&event)) {
        answer.tokens.push_back(token->id);
        answer.text += plain_text(token->pieces);
        if (token->score) answer.scores.push_back(*token->score);
      }
      if (const auto* finish = std::get_if<Finish>(&event)) {
        answer.finish = *finish;
        answer.text += plain_text(finish->pieces);
        return true;
      }
    }
  }
  return true;
}

inline Answer read_all(Stream& stream) {
  Answer answer;
  read_until(stream, answer, [](const Answer&) { return false; });
  EXPECT_TRUE(stream.finished());
  return answer;
}

inline Answer ask(Scheduler& scheduler, Request r) {
  Submission submitted = scheduler.submit(std::move(r));
  EXPECT_NE(submitted.stream, nullptr) << submitted.refusal.message;
  return submitted.stream == nullptr ? Answer{} : read_all(*submitted.stream);
}

// What generate_tokens() of a fresh session says. The engine must be of no scheduler.
inline Answer alone(engine::Engine& engine, const std::vector<int32_t>& prompt, int max_tokens,
                    const token::SamplerOptions& sampling) {
  Answer answer;
  auto session = std::move(engine.new_session()).value();
  const auto stats =
      engine::generate_tokens(engine, *session, prompt, sampling, max_tokens, [&](const engine::Produced& produced) {
        answer.text += produced.text;
        return true;
      });
  EXPECT_TRUE(stats.ok());
  if (stats.ok()) answer.tokens = stats->tokens;
  return answer;
}

// Never samples an end: a stream that goes on until something else ends it.
inline Request endless(std::vector<int32_t> prompt) {
  Request r = request(std::move(prompt), -1);
  r.ignore_eog = true;
  return r;
}

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false, reached = false;

  void pass() {
    std::unique_lock lock(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
  }
  void wait_reached() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

// Allows everything, and holds the engine thread at the first token until the gate opens.
class GateMask final : public TokenMask {
 public:
  GateMask(Gate& gate, int n_vocab) : gate_(gate), bits_(static_cast<size_t>(n_vocab) / 64 + 1, ~uint64_t{0}) {}
  Result<std::span<const uint64_t>> mask() override {
    gate_.pass();
    return std::span<const uint64_t>(bits_);
  }
  Result<void> accept(int32_t) override { return {}; }

 private:
  Gate& gate_;
  std::vector<uint64_t> bits_;
};

}  // namespace quern::serve
