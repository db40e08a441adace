// Checks the instrument, not an engine: that golden.h accepts the logits a golden was made from and rejects worse ones.
#include "golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace quern::golden {
namespace {

constexpr size_t kVocab = 512;

std::vector<std::filesystem::path> golden_files() {
  const char* root = std::getenv("QUERN_SOURCE_DIR");
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(root ? root : ".") / "tests/golden")) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  return files;
}

// Logits that a golden fits exactly: the k largest as recorded, the rest of the mass spread evenly. [n, kVocab]
std::vector<float> logits_of(const Golden& g) {
  std::vector<float> y(g.tokens.size() * kVocab);
  for (size_t row = 0; row < g.tokens.size(); ++row) {
    double rest = 1;
    for (double v : g.logits[row]) rest -= std::exp(v - g.logsumexp[row]);
    const double each = std::log(std::max(rest, 1e-12) / static_cast<double>(kVocab - g.ids[row].size()));
    const std::span<float> out = std::span(y).subspan(row * kVocab, kVocab);
    std::fill(out.begin(), out.end(), static_cast<float>(g.logsumexp[row] + each));
    for (size_t k = 0; k < g.ids[row].size(); ++k) {
      out[static_cast<size_t>(g.ids[row][k])] = static_cast<float>(g.logits[row][k]);
    }
  }
  return y;
}

TEST(Golden, EveryFileIsWholeAndAcceptsItsOwnLogits) {
  const auto files = golden_files();
  ASSERT_GE(files.size(), 20u);
  for (const auto& path : files) {
    const auto g = read_golden(path.string());
    ASSERT_TRUE(g) << path;
    ASSERT_EQ(g->tokens.size(), 96u) << path;
    ASSERT_EQ(g->ids.size(), g->tokens.size()) << path;
    ASSERT_EQ(g->logsumexp.size(), g->tokens.size()) << path;
    EXPECT_GT(g->limit, 0) << path;
    EXPECT_NEAR(mean_kl(*g, logits_of(*g), kVocab), 0, 1e-7) << path;
  }
}

TEST(Golden, RejectsOtherLogits) {
  for (const auto& path : golden_files()) {
    const auto g = read_golden(path.string());
    ASSERT_TRUE(g) << path;
    const std::vector<float> right = logits_of(*g);
    std::vector<float> shifted(right.end() - kVocab, right.end());  // each position's logits one position late
    shifted.insert(shifted.end(), right.begin(), right.end() - kVocab);
    EXPECT_GT(mean_kl(*g, shifted, kVocab), g->limit) << path;
    std::vector<float> sharper = right;
    for (float& v : sharper) v *= 1.2f;
    EXPECT_GT(mean_kl(*g, sharper, kVocab), g->limit) << path;
    std::vector<float> broken = right;
    broken[5 * kVocab + 3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(mean_kl(*g, broken, kVocab), std::numeric_limits<double>::infinity()) << path;
    EXPECT_EQ(mean_kl(*g, std::span(right).first(kVocab), kVocab), std::numeric_limits<double>::infinity()) << path;
  }
}

TEST(Golden, EmbeddingsAcceptTheirOwnAndRejectOthers) {
  for (const auto& path : golden_files()) {
    const auto g = read_golden(path.string());
    ASSERT_TRUE(g) << path;
    ASSERT_EQ(g->embeddings.size(), 3u) << path;
    EXPECT_GT(g->least_embedding_control, 0) << path;
    EXPECT_GT(g->embedding_limit, 0) << path;
    for (const auto& [pooling, right] : g->embeddings) {
      std::vector<float> vector(right.begin(), right.end());
      EXPECT_NEAR(embedding_distance(*g, pooling, vector), 0, 1e-9) << path << " " << pooling;
      for (const auto& [other, wrong] : g->embeddings) {
        if (other == pooling) continue;
        EXPECT_GT(embedding_distance(*g, other, vector), g->embedding_limit) << path << " " << pooling;
      }
      std::rotate(vector.begin(), vector.begin() + 1, vector.end());
      EXPECT_GT(embedding_distance(*g, pooling, vector), g->embedding_limit) << path << " " << pooling;
      vector[2] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(embedding_distance(*g, pooling, vector), std::numeric_limits<double>::infinity());
      vector.pop_back();
      EXPECT_EQ(embedding_distance(*g, pooling, vector), std::numeric_limits<double>::infinity());
    }
  }
}

TEST(Golden, AMissingFileIsNothing) {
  EXPECT_FALSE(read_golden("no/such/file.json"));
}

}  // namespace
}  // namespace quern::golden
