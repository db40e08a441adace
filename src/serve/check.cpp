#include "serve/check.h"

#include <algorithm>
#include <cmath>

#include "engine/engine.h"

namespace quern::serve {
namespace {

Refusal invalid(std::string message) {
  return {Refusal::Kind::invalid, std::move(message), 0, 0, 0};
}

std::optional<Refusal> check_ids(const std::vector<int32_t>& ids, int n_vocab, const char* what) {
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= n_vocab; });
  if (bad == ids.end()) return {};
  return invalid(std::string(what) + ": token id " + std::to_string(*bad) + " is outside the vocabulary of " +
                 std::to_string(n_vocab));
}

// All but the ids of logit_bias is checked by a sampler of one token, which costs no memory.
std::optional<Refusal> check_sampling(const token::SamplerOptions& sampling, int n_vocab) {
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (id < 0 || id >= n_vocab)
      return invalid("logit_bias: token id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(n_vocab));
    if (std::isnan(bias)) return invalid("logit_bias: the bias of token " + std::to_string(id) + " is not a number");
  }
  token::SamplerOptions rest = sampling;
  rest.logit_bias.clear();
  rest.repeat_last_n = std::min(rest.repeat_last_n, 1);
  const auto sampler = token::Sampler::create(rest, 1);
  if (!sampler.ok()) return invalid(sampler.error().message);
  return {};
}

std::optional<Refusal> check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStops) return invalid("at most " + std::to_string(kMaxStops) + " stop strings can be given");
  for (const std::string& stop : stops) {
    if (stop.empty()) return invalid("a stop string is empty");
    if (stop.size() > kMaxStopBytes)
      return invalid("a stop string is longer than " + std::to_string(kMaxStopBytes) + " bytes");
  }
  return {};
}

}  // namespace

std::optional<Refusal> check_request(const Request& request, const engine::Engine& engine) {
  const int n_vocab = engine.n_vocab(), n_ctx = engine.n_ctx();
  if (request.prompt.empty()) return invalid("the prompt has no tokens");
  if (request.prompt.size() > static_cast<size_t>(n_ctx)) {
    const int n = static_cast<int>(std::min<size_t>(request.prompt.size(), INT32_MAX));
    return Refusal{Refusal::Kind::too_long,
                   "the prompt has " + std::to_string(request.prompt.size()) + " tokens, and the context holds " +
                       std::to_string(n_ctx),
                   n, n_ctx, 0};
  }
  if (auto bad = check_ids(request.prompt, n_vocab, "the prompt")) return bad;
  if (auto bad = check_ids(request.stop_tokens, n_vocab, "stop tokens")) return bad;
  if (request.insertion) {
    if (request.insertion->ids.empty()) return invalid("an insertion has no tokens");
    if (auto bad = check_ids(request.insertion->ids, n_vocab, "the insertion")) return bad;
    if (request.insertion->reply == nullptr) return invalid("an insertion has no parser that says where it may be");
  }
  if (request.embed) {
    if (const auto pooling = engine.pooling(); !pooling.ok()) return invalid(pooling.error().message);
    if (request.max_tokens != 0 || request.n_prompt_logprobs >= 0)
      return invalid("an embedding comes without tokens and likelihoods: max_tokens must be 0");
  }
  if (request.max_tokens < -1) return invalid("max_tokens must not be negative");
  if (request.n_logprobs > kMaxLogProbs || request.n_prompt_logprobs > kMaxLogProbs)
    return invalid("at most " + std::to_string(kMaxLogProbs) + " likeliest tokens can be asked for");
  if (auto bad = check_stops(request.stop)) return bad;
  return check_sampling(request.sampling, n_vocab);
}

}  // namespace quern::serve
