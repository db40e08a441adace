// The generation loop, and llama-bench's two measures.
#include <chrono>

#include "engine/engine.h"
#include "token/detokenizer.h"
#include "token/sampler.h"
#include "token/tokenizer.h"

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Ids that depend on nothing but n and which of several sequences they are for.
std::vector<int32_t> bench_tokens(int n, int sequence = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = (i * 7 + sequence * 31) % 251 + 3;
  return tokens;
}

}  // namespace

Result<GenerateStats> generate_tokens(Engine& engine, Session& session, std::span<const int32_t> prompt,
                                      const token::SamplerOptions& sampling, int max_tokens,
                                      const std::function<bool(const Produced&)>& on_token,
                                      const std::atomic<bool>* cancel) {
  GenerateStats stats;
  stats.n_prompt = static_cast<int>(prompt.size());
  Clock::time_point start = Clock::now();
  QUERN_TRY_VOID(session.sync(prompt, cancel));
  stats.n_reused = session.n_reused();
  stats.prompt_seconds = seconds_since(start);
  QUERN_TRY(token::Sampler sampler, token::Sampler::create(sampling, engine.n_vocab()));
  for (const int32_t id : prompt) sampler.accept(id);
  token::StreamDecoder decoder(engine.tokenizer());
  std::vector<int32_t> timeline(prompt.begin(), prompt.end());
  start = Clock::now();
  stats.stop = StopReason::max_tokens;
  while (stats.n_generated < max_tokens || max_tokens < 0) {
    const int32_t id = sampler.sample(session.logits());
    if (engine.tokenizer().is_eog(id)) {
      stats.stop = StopReason::eog;
      stats.end_token = id;
      break;
    }
    sampler.accept(id);
    stats.tokens.push_back(id);
    ++stats.n_generated;
    const std::string text = decoder.feed(id);
    if (on_token && !on_token({id, text, false})) {
      stats.stop = StopReason::callback;
      break;
    }
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      stats.stop = StopReason::cancelled;
      break;
    }
    if (stats.n_generated == max_tokens) break;
    timeline.push_back(id);
    if (static_cast<int>(timeline.size()) > engine.n_ctx()) {
      stats.stop = StopReason::context_full;
      break;
    }
    QUERN_TRY_VOID(session.sync(timeline, nullptr));
  }
  const std::string rest = decoder.flush();
  const bool ended = stats.stop == StopReason::eog;
  if (on_token && stats.stop != StopReason::callback && (ended || !rest.empty()))
    on_token({stats.end_token, rest, ended});
  stats.decode_seconds = seconds_since(start);
  return stats;
}

Result<GenerateStats> generate(Engine& engine, Session& session, std::span<const int32_t> prompt,
                               const token::SamplerOptions& sampling, int max_tokens,
                               const std::function<bool(std::string_view)>& on_text, const std::atomic<bool>* cancel) {
  if (!on_text) return generate_tokens(engine, session, prompt, sampling, max_tokens, {}, cancel);
  const auto on_token = [&](const Produced& token) { return token.text.empty() || on_text(token.text); };
  return generate_tokens(engine, session, prompt, sampling, max_tokens, on_token, cancel);
}

Result<double> time_prompt(Session& session, int n_prompt, int n_depth) {
  const std::vector<int32_t> tokens = bench_tokens(n_depth + n_prompt);
  session.truncate(0);
  if (n_depth > 0) QUERN_TRY_VOID(session.sync(std::span(tokens).first(static_cast<size_t>(n_depth))));
  const Clock::time_point start = Clock::now();
  QUERN_TRY_VOID(session.sync(tokens));
  return seconds_since(start);
}

Result<double> time_decode(Session& session, int n_gen, int n_depth) {
  const std::vector<int32_t> tokens = bench_tokens(n_depth + n_gen);
  session.truncate(0);
  if (n_depth > 0) QUERN_TRY_VOID(session.sync(std::span(tokens).first(static_cast<size_t>(n_depth))));
  const Clock::time_point start = Clock::now();
  for (int i = 1; i <= n_gen; ++i)
    QUERN_TRY_VOID(session.sync(std::span(tokens).first(static_cast<size_t>(n_depth + i))));
  return seconds_since(start);
}

Result<double> time_batch(Engine& engine, int n_sessions, int n_gen, int n_depth) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<NextToken> next;
  for (int i = 0; i < n_sessions; ++i) {
    QUERN_TRY(auto session, engine.new_session());
    tokens.push_back(bench_tokens(n_depth + n_gen, i));
    if (n_depth > 0) QUERN_TRY_VOID(session->sync(std::span(tokens.back()).first(static_cast<size_t>(n_depth))));
    next.push_back({session.get(), 0});
    sessions.push_back(std::move(session));
  }
  const Clock::time_point start = Clock::now();
  for (int i = n_depth; i < n_depth + n_gen; ++i) {
    for (size_t j = 0; j < next.size(); ++j) next[j].token = tokens[j][static_cast<size_t>(i)];
    QUERN_TRY_VOID(step(engine, next));
  }
  return seconds_since(start);
}

Result<std::vector<double>> time_turns(Session& session, int n_turns, int n_tokens) {
  const std::vector<int32_t> tokens = bench_tokens(n_turns * n_tokens);
  session.truncate(0);
  std::vector<double> seconds;
  for (int turn = 1; turn <= n_turns; ++turn) {
    const Clock::time_point start = Clock::now();
    QUERN_TRY_VOID(session.sync(std::span(tokens).first(static_cast<size_t>(turn * n_tokens))));
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

}  // namespace quern::engine
