#include "serve/row.h"

#include <algorithm>
#include <limits>

#include "token/tokenizer.h"

namespace quern::serve {
namespace {

using Phase = Stream::Progress::Phase;

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

bool allows(std::span<const uint64_t> mask, size_t id) {
  return id / 64 < mask.size() && ((mask[id / 64] >> (id % 64)) & 1) != 0;
}

token::SamplerOptions sampling_of(const Request& request, const engine::Engine& engine) {
  token::SamplerOptions options = request.sampling;
  // Memory goes by the number of tokens looked back; more than the context holds is all.
  if (options.repeat_last_n > engine.n_ctx()) options.repeat_last_n = -1;
  if (request.ignore_eog) {
    for (int32_t id = 0; id < engine.tokenizer().size(); ++id) {
      if (engine.tokenizer().is_eog(id)) options.logit_bias.emplace_back(id, kImpossible);
    }
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<Row>> Row::create(Job job, engine::Engine& engine) {
  QUERN_TRY(token::Sampler sampler, token::Sampler::create(sampling_of(job.request, engine), engine.n_vocab()));
  return std::unique_ptr<Row>(new Row(std::move(job), engine, std::move(sampler)));
}

Row::Row(Job job, engine::Engine& engine, token::Sampler sampler)
    : admitted(Clock::now()),
      job_(std::move(job)),
      engine_(engine),
      sampler_(std::move(sampler)),
      decoder_(engine.tokenizer()),
      stops_(job_.request.stop),
      timeline_(job_.request.prompt) {
  for (const int32_t id : timeline_) sampler_.accept(id);
  stream().phase.store(Phase::prompt, std::memory_order_relaxed);
}

void Row::set_cached(int n) {
  n_cached_ = n;
  show_progress();
}

void Row::show_progress() {
  stream().n_prompt_done.store(session == nullptr ? 0 : session->n_past(), std::memory_order_relaxed);
}

TokenScore Row::score(int32_t id, std::span<const float> logits, int n_top) const {
  return {id, token::log_prob(logits, id), token::top_log_probs(logits, static_cast<size_t>(n_top))};
}

void Row::score_prompt(int n, std::span<const float> logits) {
  if (prompt_scores_.empty()) prompt_scores_.push_back({timeline_[0], std::numeric_limits<float>::quiet_NaN(), {}});
  if (static_cast<size_t>(n) < timeline_.size())
    prompt_scores_.push_back(score(timeline_[static_cast<size_t>(n)], logits, job_.request.n_prompt_logprobs));
}

void Row::end_prompt(std::vector<float> embedding) {
  prompt_done_ = true;
  first_token_ = Clock::now();
  show_progress();
  stream().phase.store(Phase::generating, std::memory_order_relaxed);
  stream().push(
      PromptDone{static_cast<int>(timeline_.size()), n_cached_, std::move(prompt_scores_), std::move(embedding)});
}

void Row::take_embedding(std::span<const float> vector) {
  end_prompt({vector.begin(), vector.end()});
  finish(FinishReason::max_tokens);
}

void Row::go_on(std::span<const float> logits) {
  if (finished()) return;
  if (!prompt_done_) {
    end_prompt({});
    if (job_.request.max_tokens == 0) return finish(FinishReason::max_tokens);
  }
  const auto done = take_tokens(logits);
  if (!done.ok()) finish(FinishReason::error, done.error());
}

// One token, or all that are known to come. With scores, one at a time: each needs the logits before it.
Result<void> Row::take_tokens(std::span<const float> logits) {
  queue_insertion();
  if (queued_.empty()) QUERN_TRY_VOID(queue_forced());
  if (queued_.empty()) {
    QUERN_TRY(const int32_t id, choose(logits));
    return take(id, false, logits);
  }
  do {
    const int32_t id = queued_.front();
    queued_.pop_front();
    QUERN_TRY_VOID(take(id, true, logits));
  } while (!finished() && !queued_.empty() && job_.request.n_logprobs < 0);
  return {};
}

bool Row::reasons() const {
  return job_.request.insertion && job_.request.insertion->reply->reasons();
}

void Row::queue_insertion() {
  if (!reasons() || !queued_.empty()) return;
  const Insertion& insertion = *job_.request.insertion;
  const bool due = insertion.after_tokens >= 0 && n_reasoned_ >= insertion.after_tokens;
  if (!due && !stream().insert_now.load(std::memory_order_relaxed)) return;
  queued_.assign(insertion.ids.begin(), insertion.ids.end());
  job_.request.insertion.reset();
}

Result<void> Row::queue_forced() {
  if (job_.request.mask == nullptr) return {};
  QUERN_TRY(const std::vector<int32_t> forced, job_.request.mask->forced());
  for (const int32_t id : forced) {
    if (id < 0 || id >= engine_.n_vocab())
      return Error{Status::invalid_argument, "a mask forces token " + std::to_string(id) + ", which is none"};
  }
  queued_.assign(forced.begin(), forced.end());
  return {};
}

Result<int32_t> Row::choose(std::span<const float> logits) {
  if (job_.request.mask == nullptr) return sampler_.sample(logits);
  QUERN_TRY(const std::span<const uint64_t> mask, job_.request.mask->mask());
  const int32_t id = sampler_.sample(logits, mask);
  if (!allows(mask, static_cast<size_t>(id)))
    return Error{Status::invalid_argument, "the constraint of this request leaves no token"};
  return id;
}

Result<void> Row::take(int32_t id, bool inserted, std::span<const float> logits) {
  if (job_.request.mask != nullptr) QUERN_TRY_VOID(job_.request.mask->accept(id));
  const auto& stop_tokens = job_.request.stop_tokens;
  const bool eog = engine_.tokenizer().is_eog(id) && !job_.request.ignore_eog;
  if (eog || std::find(stop_tokens.begin(), stop_tokens.end(), id) != stop_tokens.end()) {
    finish(FinishReason::eog);
    finish_->end_token = id;
    if (job_.request.n_logprobs >= 0) finish_->end_score = score(id, logits, job_.request.n_logprobs);
    const auto name = engine_.tokenizer().is_control(id) ? engine_.tokenizer().vocab().text(id) : std::string_view();
    if (stops_.matched() == nullptr && !name.empty())
      finish_->pieces.push_back({Piece::Kind::control, std::string(name)});
    return {};
  }
  sampler_.accept(id);
  timeline_.push_back(id);
  stream().n_generated.store(++n_generated_, std::memory_order_relaxed);
  Token token{id, inserted, {}, {}};
  if (job_.request.n_logprobs >= 0) token.score = score(id, logits, job_.request.n_logprobs);
  const bool reasoned = reasons();
  add_pieces(id, token.pieces);
  if (reasoned && reasons()) ++n_reasoned_;
  stream().push(std::move(token));
  if (stops_.matched() != nullptr) {
    finish(FinishReason::stop);
  } else if (n_generated_ == job_.request.max_tokens) {
    finish(FinishReason::max_tokens);
  } else if (timeline_.size() > static_cast<size_t>(engine_.n_ctx())) {
    finish(FinishReason::context_full);
  }
  return {};
}

void Row::add_pieces(int32_t id, std::vector<Piece>& out) {
  const token::Tokenizer& tokenizer = engine_.tokenizer();
  if (!tokenizer.contains(id)) return;
  const token::Vocab& vocab = tokenizer.vocab();
  const bool control = vocab.is_markup(id), defined = vocab.type(id) == token::TokenType::user_defined;
  if (control || defined) emit({Piece::Kind::text, decoder_.flush()}, out);
  std::string text = control ? std::string(vocab.text(id)) : decoder_.feed(id);
  const bool whole = defined && !decoder_.pending();
  emit({control ? Piece::Kind::control : whole ? Piece::Kind::defined : Piece::Kind::text, std::move(text)}, out);
}

void Row::emit(Piece piece, std::vector<Piece>& out) {
  if (piece.text.empty()) return;
  if (job_.request.insertion) feed(*job_.request.insertion->reply, {&piece, 1});
  stops_.feed(std::move(piece), out);
}

void Row::finish(FinishReason reason, std::optional<Error> error) {
  if (finished()) return;
  Finish finish;
  if (stops_.matched() == nullptr) {
    emit({Piece::Kind::text, decoder_.flush()}, finish.pieces);
    if (stops_.matched() == nullptr) stops_.flush(finish.pieces);
  }
  finish.reason = reason;
  finish.error = std::move(error);
  if (stops_.matched() != nullptr) {
    // The text that was left may hold the stop string; an error or a cancellation stays what it is.
    if (reason == FinishReason::eog || reason == FinishReason::max_tokens || reason == FinishReason::context_full)
      finish.reason = FinishReason::stop;
    finish.matched_stop = *stops_.matched();
  }
  const Clock::time_point now = Clock::now();
  finish.n_prompt = static_cast<int>(job_.request.prompt.size());
  finish.n_cached = n_cached_;
  finish.n_generated = n_generated_;
  finish.queue_seconds = seconds_between(job_.submitted, admitted);
  finish.prompt_seconds = seconds_between(admitted, prompt_done_ ? first_token_ : now);
  finish.decode_seconds = prompt_done_ ? seconds_between(first_token_, now) : 0;
  finish_ = std::move(finish);
}

Finish Row::take_finish() {
  stream().phase.store(Phase::finished, std::memory_order_relaxed);
  return std::move(*finish_);
}

}  // namespace quern::serve
