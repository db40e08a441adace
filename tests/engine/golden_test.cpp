// Every tiny model against what the float reference says about it (tests/golden/*.json).
#include "../golden/golden.h"

#include "tiny.h"

namespace quern::engine {
namespace {

// From the reference's vector for these tokens, by the pooling of the options.
double embedding_distance(const golden::Golden& golden, const EngineOptions& options) {
  const auto engine = Engine::load(tiny_dir() + "/" + golden.model + ".gguf", options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  const auto session = std::move((*engine)->new_session()).value();
  EXPECT_TRUE(session->embed(golden.tokens).ok());
  return golden::embedding_distance(golden, options.pooling, session->embedding());
}

TEST(Golden, EveryTinyModelAgreesWithTheFloatReference) {
  const char* source = std::getenv("QUERN_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(source) + "/tests/golden")) {
    if (entry.path().extension() != ".json") continue;
    const auto golden = golden::read_golden(entry.path().string());
    ASSERT_TRUE(golden.has_value()) << entry.path();
    EngineOptions options;
    options.n_threads = 2;
    const auto logits = all_logits(tiny_dir() + "/" + golden->model + ".gguf", options, golden->tokens);
    ASSERT_FALSE(logits.empty());
    const double kl = golden::mean_kl(*golden, logits, logits.size() / golden->tokens.size());
    EXPECT_LT(kl, golden->limit) << golden->model;
    for (const auto& [pooling, vector] : golden->embeddings) {
      options.pooling = pooling;
      EXPECT_LT(embedding_distance(*golden, options), golden->embedding_limit) << golden->model << ", " << pooling;
    }
    ++n;
  }
  EXPECT_GE(n, 20);
}

}  // namespace
}  // namespace quern::engine
