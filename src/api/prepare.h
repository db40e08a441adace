// From a Request to what the scheduler takes: prompts through the model's chat template, limits, sampling, budgets.
#pragma once

#include <memory>
#include <vector>

#include "api/request.h"
#include "engine/prompt.h"
#include "serve/model_pool.h"

namespace quern::api {

struct Prepared {
  std::vector<engine::ChatPrompt> prompts;  // one for a conversation
  size_t n_prompt_tokens() const;
};

// Problems name the field. A body that cannot fit the context is refused before it is tokenized. usual: how to reason
// where the request does not say, as far as the model's chat template takes it.
std::optional<Problem> prepare(const engine::Engine& engine, const Request& request,
                               const engine::ReasoningOptions& usual, Prepared* out);

// One answer. choice: the how-manieth of its prompt, which counts into the seed.
std::optional<Problem> make_submission(const serve::LoadedModel& model, const Request& request,
                                       const engine::ChatPrompt& prompt, int choice, serve::Request* out);

// The problem of a text of so many bytes that cannot fit the context, whatever its tokens are.
std::optional<Problem> check_bytes(const engine::Engine& engine, size_t n_bytes);

// A client's id that is no token.
std::optional<Problem> check_token(const token::Tokenizer& tokenizer, int32_t id, const std::string& field);

// "prompt is too long: 9000 tokens, ..." with both numbers, in the words and with the code that clients look for.
Problem context_problem(int64_t n_prompt, int64_t n_ctx);

// The ids that end reasoning, where a budget or a client can make it end; to_call: what follows must be a call. Empty
// where the model's replies have none.
std::vector<int32_t> end_of_thinking(const engine::Engine& engine, bool to_call);

}  // namespace quern::api
