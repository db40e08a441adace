// Embeddings as requests: the vector of the engine alone whatever runs beside, slices, the prefix cache where the
// pooling lets it, cancellation, refusals.
#include <cstring>

#include "serve_testing.h"

namespace quern::serve {
namespace {

using engine::some_tokens;

std::shared_ptr<engine::Engine> load_pooling(const std::string& name, const std::string& pooling, int n_ctx = 512) {
  engine::EngineOptions options;
  options.n_threads = 1;
  options.n_ctx = n_ctx;
  options.n_chunk = 64;
  options.pooling = pooling;
  auto engine = engine::Engine::load(engine::tiny_dir() + "/" + name + ".gguf", options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *engine : nullptr;
}

Request embedding(std::vector<int32_t> tokens) {
  Request r = request(std::move(tokens), 0);
  r.embed = true;
  return r;
}

std::vector<float> alone(engine::Engine& engine, const std::vector<int32_t>& tokens) {
  const auto session = std::move(engine.new_session()).value();
  EXPECT_TRUE(session->embed(tokens).ok());
  return {session->embedding().begin(), session->embedding().end()};
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Case {
  const char *model, *pooling;
};
class SchedulerEmbed : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Scheduler, SchedulerEmbed,
                         ::testing::Values(Case{"llama", "last"}, Case{"llama", "mean"}, Case{"llama", "cls"},
                                           Case{"gemma3", "last"}, Case{"gemma3", "mean"}, Case{"qwen3moe", "mean"}),
                         [](const auto& which) { return std::string(which.param.model) + "_" + which.param.pooling; });

// Beside rows that generate and each other, in the smallest slices.
TEST_P(SchedulerEmbed, VectorsAreThoseOfTheEngineAlone) {
  const auto [model, pooling] = GetParam();
  const auto reference = load_pooling(model, pooling);
  SchedulerOptions options;
  options.slice = options.slice_alone = Seconds(1e-9);
  const auto scheduler = start(load_pooling(model, pooling), options);
  const Submission chat = scheduler->submit(endless(some_tokens(7, 1)));
  std::vector<Submission> taken;
  for (uint32_t i = 0; i < 5; ++i) taken.push_back(scheduler->submit(embedding(some_tokens(40 + 50 * i, 20 + i))));
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_NE(taken[i].stream, nullptr) << taken[i].refusal.message;
    const Answer answer = read_all(*taken[i].stream);
    EXPECT_EQ(answer.finish.reason, FinishReason::max_tokens);
    EXPECT_TRUE(answer.tokens.empty());
    EXPECT_EQ(answer.prompt.n_prompt, static_cast<int>(40 + 50 * i));
    EXPECT_TRUE(same(answer.prompt.embedding, alone(*reference, some_tokens(40 + 50 * i, 20 + i)))) << i;
  }
  EXPECT_FALSE(same(alone(*reference, some_tokens(40, 20)), alone(*reference, some_tokens(40, 21))));
  EXPECT_GT(scheduler->stats().n_slices, 5U * 3);
  chat.stream->cancel();
  EXPECT_TRUE(read_all(*chat.stream).prompt.embedding.empty());
}

// After an answer to the same text, and then once more: from the cache where the last state is what counts, else anew.
// What an embedding leaves behind serves answers in any case.
TEST_P(SchedulerEmbed, PrefixesAreTakenWhereThatIsSound) {
  const auto [model, pooling] = GetParam();
  const bool last = std::string(pooling) == "last";
  const auto reference = load_pooling(model, pooling);
  const auto scheduler = start(load_pooling(model, pooling));
  const auto tokens = some_tokens(150, 3);
  const auto expected = alone(*reference, tokens);
  const Answer before = ask(*scheduler, request(tokens, 4));
  for (int i = 0; i < 2; ++i) {
    const Answer answer = ask(*scheduler, embedding(tokens));
    EXPECT_TRUE(same(answer.prompt.embedding, expected)) << i;
    EXPECT_EQ(answer.prompt.n_cached, last ? 149 : 0) << i;
  }
  const Answer after = ask(*scheduler, request(tokens, 4));
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.prompt.n_cached, 149);
  auto branch = tokens;
  branch[100] ^= 1;
  const Answer other = ask(*scheduler, embedding(branch));
  EXPECT_TRUE(same(other.prompt.embedding, alone(*reference, branch)));
  EXPECT_EQ(other.prompt.n_cached, last ? 100 : 0);
}

TEST(Scheduler, EmbeddingsAreRefusedByName) {
  const auto scheduler = start(load_pooling("llama", "", 64));
  const auto refused = [&](auto change) {
    Request r = embedding(some_tokens(5, 1));
    change(r);
    const Submission s = scheduler->submit(std::move(r));
    EXPECT_EQ(s.stream, nullptr);
    return s.refusal;
  };
  EXPECT_EQ(refused([](Request& r) { r.prompt.clear(); }).kind, Refusal::Kind::invalid);
  EXPECT_EQ(refused([](Request& r) { r.max_tokens = 1; }).kind, Refusal::Kind::invalid);
  EXPECT_EQ(refused([](Request& r) { r.max_tokens = -1; }).kind, Refusal::Kind::invalid);
  EXPECT_EQ(refused([](Request& r) { r.n_prompt_logprobs = 1; }).kind, Refusal::Kind::invalid);
  const Refusal too_long = refused([](Request& r) { r.prompt = some_tokens(65, 1); });
  EXPECT_EQ(too_long.kind, Refusal::Kind::too_long);
  EXPECT_EQ(too_long.n_prompt, 65);
  EXPECT_EQ(too_long.n_ctx, 64);
  EXPECT_EQ(ask(*scheduler, embedding(some_tokens(64, 1))).prompt.embedding.size(),
            static_cast<size_t>(scheduler->engine().n_embedding()));
}

TEST(Scheduler, AnEmbeddingEndsWhenItIsCancelled) {
  SchedulerOptions options;
  options.slice = options.slice_alone = Seconds(1e-9);
  const auto scheduler = start(load_pooling("llama", "mean", 8192), options);
  const Submission taken = scheduler->submit(embedding(some_tokens(8192, 1)));
  while (taken.stream->progress().n_prompt_done == 0) std::this_thread::yield();
  taken.stream->cancel();
  const Answer answer = read_all(*taken.stream);
  EXPECT_EQ(answer.finish.reason, FinishReason::cancelled);
  EXPECT_TRUE(answer.prompt.embedding.empty());
}

}  // namespace
}  // namespace quern::serve
