#include "api/assembler.h"

#include "api/prepare.h"
#include "token/argument_types.h"

namespace quern::api {

using Kind = token::ReplyDelta::Kind;

void Usage::add(const Usage& other, bool same_prompt) {
  if (!same_prompt) {
    prompt += other.prompt;
    cached += other.cached;
  }
  completion += other.completion;
  reasoning += other.reasoning;
}

Assembler::Assembler(const Request& request, const engine::Engine& engine, const token::Rendered* rendered)
    : calls_(request.may_call()), parallel_(request.parallel_tool_calls) {
  if (rendered == nullptr) return;
  const auto& supports = engine.chat_template()->supports();
  parser_ = calls_ ? token::make_reply_parser(supports.reply, &engine.tokenizer(), supports.calls,
                                              token::text_arguments(request.tools))
                   : token::make_reply_parser(supports.reply, &engine.tokenizer());
  parser_->follow(*rendered);
}

std::vector<token::ReplyDelta> Assembler::parse(std::span<const serve::Piece> pieces, bool last) {
  std::vector<token::ReplyDelta> deltas;
  if (parser_ == nullptr) {
    std::string text = serve::plain_text(pieces);
    if (!text.empty()) deltas.push_back({Kind::content, std::move(text), 0});
    return deltas;
  }
  deltas = serve::feed(*parser_, pieces);
  if (last) {
    for (auto& delta : parser_->finish()) deltas.push_back(std::move(delta));
  }
  return deltas;
}

// Takes deltas into the reply, and leaves in the list what a client may see.
void Assembler::keep(std::vector<token::ReplyDelta>& deltas) {
  std::vector<token::ReplyDelta> kept;
  for (auto& delta : deltas) {
    if (enough_) break;
    const bool call = delta.kind == Kind::call || delta.kind == Kind::arguments;
    if (call && !calls_) {
      // Nobody offered tools: what the model wrote is text.
      if (delta.kind == Kind::call) continue;
      delta.kind = Kind::content;
    }
    switch (delta.kind) {
      case Kind::reasoning:
        choice_.reply.reasoning += delta.text;
        break;
      case Kind::content:
        choice_.reply.content += delta.text;
        break;
      case Kind::call:
        if (!parallel_ && !choice_.reply.calls.empty()) {
          enough_ = true;
          continue;
        }
        delta.call = choice_.reply.calls.size();
        choice_.reply.calls.push_back({delta.text, "", false});
        break;
      case Kind::arguments:
        if (choice_.reply.calls.empty()) continue;
        delta.call = choice_.reply.calls.size() - 1;
        choice_.reply.calls.back().arguments += delta.text;
        break;
    }
    kept.push_back(std::move(delta));
  }
  deltas = std::move(kept);
}

void Assembler::end(const serve::Finish& finish) {
  ended_ = true;
  choice_.usage.prompt = finish.n_prompt;
  choice_.usage.cached = finish.n_cached;
  choice_.usage.completion = finish.n_generated;
  const bool calls = !choice_.reply.calls.empty();
  switch (finish.reason) {
    case serve::FinishReason::eog:
      choice_.ending.kind = calls ? EndKind::calls : EndKind::stop;
      break;
    case serve::FinishReason::stop:
      choice_.ending.kind = calls ? EndKind::calls : EndKind::stop;
      choice_.ending.matched_stop = finish.matched_stop;
      break;
    case serve::FinishReason::max_tokens:
    case serve::FinishReason::context_full:
      choice_.ending.kind = EndKind::length;
      break;
    case serve::FinishReason::cancelled:
      choice_.ending.kind = enough_ ? EndKind::calls : EndKind::cancelled;
      break;
    case serve::FinishReason::shutdown:
      choice_.ending.kind = EndKind::failed;
      choice_.ending.problem = Problem{.status = 503, .message = "the server is stopping", .retry_after = 5};
      break;
    case serve::FinishReason::error:
      choice_.ending.kind = EndKind::failed;
      choice_.ending.problem = problem_of(finish.error.value_or(Error{Status::io_error, "the answer failed"}));
      if (choice_.ending.problem.status < 500) choice_.ending.problem.status = 500;
      break;
  }
}

Progress Assembler::take(const serve::Event& event) {
  Progress progress;
  if (const auto* prompt = std::get_if<serve::PromptDone>(&event)) {
    choice_.usage.prompt = prompt->n_prompt;
    choice_.usage.cached = prompt->n_cached;
    choice_.prompt_scores = prompt->scores;
  } else if (const auto* token = std::get_if<serve::Token>(&event)) {
    const bool reasoned = parser_ != nullptr && parser_->reasons();
    progress.deltas = parse(token->pieces, false);
    keep(progress.deltas);
    ++choice_.usage.completion;
    if (reasoned && parser_->reasons()) ++choice_.usage.reasoning;  // the markup around it is not counted
    if (token->score) {
      choice_.scores.push_back(*token->score);
      progress.scores.push_back(*token->score);
    }
  } else {
    const auto& finish = std::get<serve::Finish>(event);
    // A text's tokens have an entry each, the one that ends it too: clients count on one that was generated.
    if (finish.end_score && parser_ == nullptr) {
      choice_.scores.push_back(*finish.end_score);
      progress.scores.push_back(*finish.end_score);
    }
    progress.deltas = parse(finish.pieces, true);
    keep(progress.deltas);
    end(finish);
  }
  return progress;
}

Problem problem_of(const serve::Refusal& refusal) {
  Problem problem{.message = refusal.message};
  switch (refusal.kind) {
    case serve::Refusal::Kind::invalid:
      break;
    case serve::Refusal::Kind::too_long:
      return context_problem(refusal.n_prompt, refusal.n_ctx);
    case serve::Refusal::Kind::busy:
      problem.status = 429;
      problem.code = "rate_limit_exceeded";
      problem.retry_after = refusal.retry_after_seconds;
      break;
    case serve::Refusal::Kind::stopping:
      problem.status = 503;
      problem.retry_after = std::max(1, refusal.retry_after_seconds);
      break;
  }
  return problem;
}

}  // namespace quern::api
