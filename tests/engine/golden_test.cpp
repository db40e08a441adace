// Every tiny model against what the float reference says about it (tests/golden/*.json).
#include "../golden/golden.h"

#include "tiny.h"

namespace quern::engine {
namespace {

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
    ++n;
  }
  EXPECT_GE(n, 20);
}

}  // namespace
}  // namespace quern::engine
