// The sampler against a plain implementation in double, its distribution, its penalties and its hard cases.
#include "token/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace quern::token {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplerOptions plain() {
  SamplerOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

Sampler make(const SamplerOptions& options, size_t n) {
  auto sampler = Sampler::create(options, static_cast<int32_t>(n));
  EXPECT_TRUE(sampler.ok()) << (sampler.ok() ? "" : sampler.error().message);
  return std::move(*sampler);
}

std::vector<float> random_logits(size_t n, uint64_t seed, double spread = 4) {
  RandomStream random(seed);
  std::vector<float> logits(n);
  for (auto& logit : logits) logit = static_cast<float>((random.uniform() - 0.5) * 2 * spread);
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = std::exp((double{logits[i]} - largest) / temperature);
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (auto& x : p) x /= total;
  return p;
}

// What each step keeps, written down plainly.
std::vector<double> reference(const std::vector<float>& logits, const SamplerOptions& o) {
  std::vector<size_t> kept(logits.size());
  std::iota(kept.begin(), kept.end(), size_t{0});
  const auto by_logit = [&](size_t a, size_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
  std::sort(kept.begin(), kept.end(), by_logit);
  const auto part = [&] {
    std::vector<float> some;
    for (const size_t i : kept) some.push_back(logits[i]);
    return softmax(some);
  };
  if (o.top_k > 0 && static_cast<size_t>(o.top_k) < kept.size()) kept.resize(static_cast<size_t>(o.top_k));
  if (o.typical_p < 1) {
    const auto p = part();
    double entropy = 0;
    for (const double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
    std::vector<size_t> order(kept.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::fabs(-std::log(p[a]) - entropy) < std::fabs(-std::log(p[b]) - entropy);
    });
    std::vector<size_t> next;
    double mass = 0;
    for (const size_t i : order) {
      if (!next.empty() && mass > double{o.typical_p}) break;
      mass += p[i];
      next.push_back(kept[i]);
    }
    kept = next;
    std::sort(kept.begin(), kept.end(), by_logit);
  }
  if (o.top_p < 1) {
    const auto p = part();
    size_t n = 0;
    for (double mass = 0; n < kept.size() && (n == 0 || mass < double{o.top_p}); ++n) mass += p[n];
    kept.resize(n);
  }
  if (o.min_p > 0) {
    const auto p = part();
    size_t n = 0;
    while (n < kept.size() && p[n] >= double{o.min_p} * p[0]) ++n;
    kept.resize(n);
  }
  std::vector<float> final_logits(logits.size(), -kInf);
  for (const size_t i : kept) final_logits[i] = logits[i];
  return softmax(final_logits, double{o.temperature});
}

// Draws many tokens and compares their counts with the distribution p: chi-square over its bound (5 sigma of room), so
// above 1 means different. Infinite where a token came that p rules out.
double misfit(const std::vector<float>& logits, const SamplerOptions& options, const std::vector<double>& p,
              int n_draws) {
  Sampler sampler = make(options, logits.size());
  std::map<int32_t, int> counts;
  for (int i = 0; i < n_draws; ++i) ++counts[sampler.sample(logits)];
  double chi2 = 0;
  double cells = 0;
  double rest_expected = 0;
  double rest_seen = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double seen = counts.count(static_cast<int32_t>(i)) != 0 ? counts[static_cast<int32_t>(i)] : 0;
    if (p[i] == 0) {
      if (seen > 0) return HUGE_VAL;
      continue;
    }
    const double expected = p[i] * n_draws;
    if (expected < 10) {
      rest_expected += expected;
      rest_seen += seen;
      continue;
    }
    chi2 += (seen - expected) * (seen - expected) / expected;
    ++cells;
  }
  if (rest_expected > 1) {
    chi2 += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++cells;
  }
  return chi2 / (cells + 5 * std::sqrt(2 * cells) + 5);
}

void expect_distribution(const std::vector<float>& logits, const SamplerOptions& options, int n_draws = 10000) {
  EXPECT_LT(misfit(logits, options, reference(logits, options), n_draws), 1);
}

TEST(Sampler, GreedyTakesTheLikeliestAndTheLowestIdOnTies) {
  SamplerOptions options = plain();
  options.temperature = 0;
  Sampler sampler = make(options, 5);
  EXPECT_EQ(sampler.sample(std::vector<float>{0, 3, 1, 3, 2}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-5, -5, -5, -5, -5}), 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInf, -1, kNan, -1}), 2);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, kInf, kInf, 3}), 2);
  EXPECT_EQ(sampler.sample(std::vector<float>(5, -kInf)), 0);
  EXPECT_EQ(sampler.sample(std::vector<float>(5, kNan)), 0);
}

TEST(Sampler, HardLogitsNeverBreakADraw) {
  for (const int top_k : {0, 1, 3, 100}) {
    SamplerOptions options;
    options.top_k = top_k;
    options.typical_p = 0.9F;
    options.repeat_penalty = 1.1F;
    Sampler sampler = make(options, 6);
    sampler.accept(0);
    for (const auto& logits : std::vector<std::vector<float>>{{kNan, kNan, kNan, kNan, kNan, kNan},
                                                              {-kInf, -kInf, -kInf, -kInf, -kInf, -kInf},
                                                              {kInf, 1, 2, 3, 4, 5},
                                                              {kInf, kInf, -kInf, kNan, 0, 0},
                                                              {3e38F, -3e38F, 3e38F, 0, 0, 0},
                                                              {0, 0, 0, 0, 0, 0}}) {
      const int32_t id = sampler.sample(logits);
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 6);
    }
    EXPECT_EQ(sampler.sample(std::vector<float>{-kInf, -kInf, kNan, 2, -kInf, kNan}), 3);
    EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, kInf, 3, 4, 5}), 2);
  }
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const auto logits = random_logits(200, 1);
  for (const float temperature : {0.3F, 1.0F, 2.0F}) {
    SamplerOptions options = plain();
    options.temperature = temperature;
    expect_distribution(logits, options);
  }
}

TEST(Sampler, TheDistributionCheckSeesDifferences) {
  const auto logits = random_logits(200, 1);
  SamplerOptions warmer = plain();
  warmer.temperature = 1.25F;
  EXPECT_GT(misfit(logits, plain(), reference(logits, warmer), 10000), 1);
  SamplerOptions narrower = plain();
  narrower.top_k = 150;
  EXPECT_GT(misfit(logits, plain(), reference(logits, narrower), 10000), 1);
}

TEST(Sampler, EachFilterKeepsWhatThePlainImplementationKeeps) {
  const auto logits = random_logits(300, 2);
  std::vector<SamplerOptions> all;
  for (const int top_k : {1, 2, 40, 299, 300, 1000}) {
    all.push_back(plain());
    all.back().top_k = top_k;
  }
  for (const float top_p : {0.0F, 0.1F, 0.5F, 0.95F}) {
    all.push_back(plain());
    all.back().top_p = top_p;
  }
  for (const float min_p : {0.05F, 0.5F, 1.0F}) {
    all.push_back(plain());
    all.back().min_p = min_p;
  }
  for (const float typical_p : {0.2F, 0.9F}) {
    all.push_back(plain());
    all.back().typical_p = typical_p;
  }
  all.emplace_back();  // the defaults, and everything at once
  all.emplace_back();
  all.back().typical_p = 0.8F;
  all.back().top_p = 0.7F;
  for (auto& options : all) {
    SCOPED_TRACE("top_k " + std::to_string(options.top_k) + " top_p " + std::to_string(options.top_p) + " min_p " +
                 std::to_string(options.min_p) + " typical_p " + std::to_string(options.typical_p));
    expect_distribution(logits, options, 5000);
  }
}

TEST(Sampler, TiesAtTheEdgeOfTopKKeepLowIds) {
  SamplerOptions options = plain();
  options.top_k = 2;
  Sampler sampler = make(options, 6);
  const std::vector<float> logits = {0, 1, 1, 5, 1, 1};
  std::set<int32_t> seen;
  for (int i = 0; i < 500; ++i) seen.insert(sampler.sample(logits));
  EXPECT_EQ(seen, (std::set<int32_t>{1, 3}));
}

TEST(Sampler, TheSeedDecides) {
  const auto logits = random_logits(1000, 3);
  SamplerOptions options;
  options.top_k = 0;
  options.seed = 7;
  const auto run = [&](Sampler& sampler) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sampler.sample(logits));
    return ids;
  };
  Sampler a = make(options, 1000);
  Sampler b = make(options, 1000);
  const auto first = run(a);
  EXPECT_EQ(first, run(b));
  EXPECT_NE(first, run(a)) << "the stream goes on";
  a.reset();
  EXPECT_EQ(first, run(a));
  options.seed = 8;
  Sampler c = make(options, 1000);
  EXPECT_NE(first, run(c));
  // The generator itself, as published for SplitMix64 with seed 1234567.
  RandomStream random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
}

TEST(Sampler, PenaltiesCountTheRecentTokens) {
  SamplerOptions options = plain();
  options.temperature = 0;
  options.repeat_last_n = 3;
  options.repeat_penalty = 2;
  Sampler repeat = make(options, 4);
  const std::vector<float> logits = {4, 3, -1, -1.5F};
  repeat.accept(0);
  EXPECT_EQ(repeat.sample(logits), 1) << "4 / 2 < 3";
  repeat.accept(1);
  EXPECT_EQ(repeat.sample(logits), 0) << "4 / 2 > 3 / 2";
  repeat.accept(2);
  repeat.accept(3);  // 0 is no longer recent
  EXPECT_EQ(repeat.sample(logits), 0);
  EXPECT_EQ(repeat.sample(std::vector<float>{-9, -9, -1, -1.2F}), 2) << "negative logits are multiplied";

  options.repeat_penalty = 1;
  options.frequency_penalty = 1;
  Sampler frequency = make(options, 4);
  frequency.accept(0);
  EXPECT_EQ(frequency.sample(std::vector<float>{4, 2.5F, 0, 0}), 0);
  frequency.accept(0);
  EXPECT_EQ(frequency.sample(std::vector<float>{4, 2.5F, 0, 0}), 1);

  options.frequency_penalty = 0;
  options.presence_penalty = 1;
  Sampler presence = make(options, 4);
  presence.accept(0);
  presence.accept(0);
  EXPECT_EQ(presence.sample(std::vector<float>{4, 2.5F, 0, 0}), 0);
  EXPECT_EQ(presence.sample(std::vector<float>{4, 3.5F, 0, 0}), 1);

  options.repeat_last_n = -1;  // all of them
  Sampler all = make(options, 4);
  all.accept(0);
  for (int i = 0; i < 1000; ++i) all.accept(2);
  EXPECT_EQ(all.sample(std::vector<float>{4, 3.5F, 0, 0}), 1);
  options.repeat_last_n = 0;
  Sampler none = make(options, 4);
  none.accept(0);
  EXPECT_EQ(none.sample(std::vector<float>{4, 3.5F, 0, 0}), 0);
  none.accept(-1);
  all.accept(99);
}

TEST(Sampler, PenaltiesMatchACountOfTheWindowOverALongRun) {
  SamplerOptions options = plain();
  options.temperature = 0;
  options.repeat_last_n = 20;
  options.frequency_penalty = 0.25F;
  options.presence_penalty = 0.5F;
  options.repeat_penalty = 1.25F;
  Sampler sampler = make(options, 30);
  std::vector<int32_t> history;
  RandomStream random(5);
  for (uint64_t step = 0; step < 500; ++step) {
    auto logits = random_logits(30, 100 + step);
    const int32_t chosen = sampler.sample(logits);
    std::map<int32_t, int> counts;
    for (size_t i = history.size() > 20 ? history.size() - 20 : 0; i < history.size(); ++i) ++counts[history[i]];
    for (const auto& [id, n] : counts) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? logit / 1.25F : logit * 1.25F;
      logit -= static_cast<float>(n) * 0.25F + 0.5F;
    }
    EXPECT_EQ(chosen, std::max_element(logits.begin(), logits.end()) - logits.begin()) << "step " << step;
    const auto next = static_cast<int32_t>(random.next() % 30);
    history.push_back(next);
    sampler.accept(next);
  }
}

TEST(Sampler, LogitBiasForbidsAndForces) {
  SamplerOptions options;
  options.logit_bias = {{0, -kInf}, {2, 100.0F}};
  Sampler sampler = make(options, 3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.sample(std::vector<float>{50, 0, 0}), 2);
  options.logit_bias = {{0, -kInf}, {1, -kInf}};
  Sampler only = make(options, 3);
  EXPECT_EQ(only.sample(std::vector<float>{50, 40, -90}), 2);
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
  const auto message = [](auto change) {
    SamplerOptions options;
    change(options);
    auto sampler = Sampler::create(options, 10);
    return sampler.ok() ? std::string() : sampler.error().message;
  };
  EXPECT_NE(message([](auto& o) { o.top_p = 1.5F; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.min_p = -1; }).find("min_p"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.typical_p = kNan; }).find("typical_p"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.temperature = kNan; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.repeat_penalty = 0; }).find("repeat_penalty"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.repeat_last_n = -2; }).find("repeat_last_n"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.logit_bias = {{10, 1.0F}}; }).find("logit_bias"), std::string::npos);
  EXPECT_EQ(message([](auto&) {}), "");
}

TEST(Sampler, ALargeVocabularyIsHandledWhole) {
  const auto logits = random_logits(262144, 9, 10);
  for (const int top_k : {0, 40, 5000}) {
    SamplerOptions options;
    options.top_k = top_k;
    Sampler sampler = make(options, logits.size());
    const float floor = *std::max_element(logits.begin(), logits.end()) + std::log(0.05F) - 1e-3F;
    for (int i = 0; i < 5; ++i) EXPECT_GE(logits[static_cast<size_t>(sampler.sample(logits))], floor);
  }
}

TEST(LogProbs, MatchTheDefinition) {
  const auto logits = random_logits(500, 11);
  const auto p = softmax(logits);
  const auto top = top_log_probs(logits, 7);
  ASSERT_EQ(top.size(), 7U);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(top[i].id, static_cast<int32_t>(order[i]));
    EXPECT_NEAR(top[i].log_prob, std::log(p[order[i]]), 1e-5);
    EXPECT_FLOAT_EQ(log_prob(logits, top[i].id), top[i].log_prob);
  }
  EXPECT_EQ(top_log_probs(std::vector<float>{1, 1, kNan}, 5).size(), 2U);
  EXPECT_TRUE(top_log_probs(std::vector<float>{kNan, -kInf}, 5).empty());
  EXPECT_EQ(log_prob(logits, -1), -kInf);
  EXPECT_EQ(log_prob(std::vector<float>{0}, 0), 0.0F);
}

TEST(Sampler, OnlyAllowedTokens) {
  const auto logits = random_logits(200, 5, 0.5);
  std::vector<uint64_t> allowed(4, 0);
  const std::vector<int32_t> ids = {3, 64, 131, 199};
  for (const int32_t id : ids) allowed[static_cast<size_t>(id) / 64] |= 1ULL << (id % 64);
  for (const float temperature : {0.0F, 1.0F}) {
    SamplerOptions options = plain();
    options.temperature = temperature;
    options.top_k = 3;
    options.logit_bias = {{7, kInf}, {64, -kInf}};
    Sampler sampler = make(options, 200);
    std::set<int32_t> seen;
    for (int i = 0; i < 300; ++i) seen.insert(sampler.sample(logits, allowed));
    for (const int32_t id : seen) EXPECT_TRUE(std::count(ids.begin(), ids.end(), id) == 1 && id != 64) << id;
    EXPECT_EQ(seen.size(), temperature == 0 ? 1U : 3U);
    // A mask of fewer words ends there; with nothing possible the first allowed token is the answer.
    EXPECT_EQ(sampler.sample(logits, std::span(allowed).first(1)), 3);
    EXPECT_EQ(sampler.sample(logits, std::vector<uint64_t>{0, 1}), 64);
    // Everything allowed is no constraint.
    Sampler a = make(options, 200), b = make(options, 200);
    const std::vector<uint64_t> all(4, ~0ULL);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(a.sample(logits), b.sample(logits, all));
  }
}

}  // namespace
}  // namespace quern::token
