// The sums behind eval, on distributions whose answers are known.
#include "apps/quern/divergence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::apps {
namespace {

TEST(Divergence, LogSumExpIsStable) {
  const float row[] = {1000.0F, 1000.0F};
  EXPECT_NEAR(log_sum_exp(row), 1000 + std::log(2.0), 1e-12);
  const float low[] = {-1000.0F, -1000.0F, -1000.0F, -1000.0F};
  EXPECT_NEAR(log_sum_exp(low), -1000 + std::log(4.0), 1e-12);
}

TEST(Divergence, PerplexityOfUniformIsTheVocabulary) {
  const std::vector<float> row(32, 0.5F);
  Likelihood likelihood;
  for (int i = 0; i < 10; ++i) likelihood.add(row, i);
  EXPECT_NEAR(likelihood.perplexity(), 32, 1e-9);
  EXPECT_NEAR(likelihood.perplexity_error(), 0, 1e-5);
  EXPECT_EQ(likelihood.count(), 10);
}

TEST(Divergence, KnownKullbackLeibler) {
  // p = (1/2, 1/2), q = (3/4, 1/4): KL(p || q) = 1/2 ln(2/3) + 1/2 ln 2.
  const float p[] = {0.0F, 0.0F}, q[] = {std::log(3.0F), 0.0F};
  Divergence divergence;
  divergence.add(p, q);
  EXPECT_NEAR(divergence.mean(), 0.5 * std::log(2.0 / 3) + 0.5 * std::log(2.0), 1e-7);
  EXPECT_EQ(divergence.top1_agreement(), 1);
  divergence.add(p, p);
  EXPECT_NEAR(divergence.quantile(0), 0, 1e-12);
  EXPECT_NEAR(divergence.quantile(0.5), divergence.quantile(1) / 2, 1e-7);
  const float r[] = {0.0F, 1.0F};
  divergence.add(q, r);
  EXPECT_NEAR(divergence.top1_agreement(), 2.0 / 3, 1e-12);
}

TEST(Divergence, ShiftsDoNotMatterAndMinusInfinityIsProbabilityZero) {
  const float p[] = {1.0F, 2.0F, -INFINITY}, q[] = {11.0F, 12.0F, -INFINITY};
  Divergence divergence;
  divergence.add(p, q);
  EXPECT_NEAR(divergence.mean(), 0, 1e-6);
}

}  // namespace
}  // namespace quern::apps
