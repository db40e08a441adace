// Row: one request on the engine thread, from its first prompt token to Finish. It chooses tokens and makes events;
// what is evaluated, and when, is Batch's (batch.h). Internal to serve/.
#pragma once

#include <deque>
#include <optional>

#include "engine/engine.h"
#include "serve/stop_text.h"
#include "serve/stream_state.h"
#include "token/detokenizer.h"

namespace quern::serve {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

struct Job {
  Request request;
  std::shared_ptr<StreamState> stream;
  Clock::time_point submitted;
};

class Row {
 public:
  // The request was checked (Scheduler::submit). Errors: out_of_memory.
  static Result<std::unique_ptr<Row>> create(Job job, engine::Engine& engine);

  const Request& request() const { return job_.request; }
  StreamState& stream() { return *job_.stream; }
  // The prompt and the tokens taken; the session's n_past() of them are evaluated.
  std::span<const int32_t> timeline() const { return timeline_; }
  size_t n_left() const { return timeline_.size() - static_cast<size_t>(session == nullptr ? 0 : session->n_past()); }
  bool prompt_done() const { return prompt_done_; }
  bool wants_prompt_scores() const { return job_.request.n_prompt_logprobs >= 0; }
  bool cancelled() const { return job_.stream->cancelled.load(std::memory_order_relaxed); }
  bool finished() const { return finish_.has_value(); }

  void set_cached(int n);  // what the prefix cache gave; once
  void show_progress();
  // logits: [n_vocab], of the position before timeline()[n]. Collected for PromptDone.
  void score_prompt(int n, std::span<const float> logits);
  // All of timeline() is evaluated, and this is its vector ([n_embedding]): hands it out and finishes.
  void take_embedding(std::span<const float> vector);
  // All of timeline() is evaluated, and logits ([n_vocab]) are what follows: takes one token or more, which are then
  // left to evaluate, or finishes.
  void go_on(std::span<const float> logits);
  void finish(FinishReason reason, std::optional<Error> error = {});
  // The Finish event, for who frees the row first. Once, after finished().
  Finish take_finish();
  int n_generated() const { return n_generated_; }
  int n_cached() const { return n_cached_; }

  std::unique_ptr<engine::Session> session;  // null until the prompt's first tokens are evaluated
  int n_passed = 0;                          // how often another prompt went first
  Clock::time_point admitted;

 private:
  Row(Job job, engine::Engine& engine, token::Sampler sampler);
  void end_prompt(std::vector<float> embedding);
  Result<void> take_tokens(std::span<const float> logits);
  Result<int32_t> choose(std::span<const float> logits);
  Result<void> take(int32_t id, bool inserted, std::span<const float> logits);
  void queue_insertion();
  Result<void> queue_forced();
  void add_pieces(int32_t id, std::vector<Piece>& out);
  void emit(Piece piece, std::vector<Piece>& out);
  bool reasons() const;  // and the insertion has not taken place
  TokenScore score(int32_t id, std::span<const float> logits, int n_top) const;

  Job job_;
  engine::Engine& engine_;
  token::Sampler sampler_;
  token::StreamDecoder decoder_;
  StopText stops_;
  std::vector<int32_t> timeline_;
  std::deque<int32_t> queued_;  // inserted and forced tokens, to be taken next
  std::vector<TokenScore> prompt_scores_;
  bool prompt_done_ = false;
  int n_generated_ = 0, n_reasoned_ = 0, n_cached_ = 0;
  Clock::time_point first_token_;
  std::optional<Finish> finish_;
};

}  // namespace quern::serve
