// Intervals of paired ratios against numbers worked out by hand, and steal from a written /proc/stat.
#include "measure/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace quern::measure {
namespace {

TEST(Paired, IntervalOfTwoPairs) {
  // Logarithms of the ratios: ln 2 and ln 8; mean ln 4, deviation ln 2 * sqrt 2, error ln 2, t of one freedom 12.706.
  const auto r = paired_ratio({2, 8}, {1, 1});
  ASSERT_TRUE(r.ok());
  EXPECT_NEAR(r->middle, 4, 1e-12);
  EXPECT_NEAR(r->high, 4 * std::exp2(12.706), 1e-6 * r->high);
  EXPECT_NEAR(r->low, 4 / std::exp2(12.706), 1e-9);
  EXPECT_TRUE(r->known);
  EXPECT_FALSE(r->shows_difference());
}

TEST(Paired, EqualRatiosHaveNoSpread) {
  const auto r = paired_ratio({2, 4, 6}, {1, 2, 3});
  ASSERT_TRUE(r.ok());
  EXPECT_NEAR(r->low, 2, 1e-12);
  EXPECT_NEAR(r->high, 2, 1e-12);
  EXPECT_TRUE(r->shows_difference());
  EXPECT_TRUE(paired_ratio({1, 2, 3}, {2, 4, 6})->shows_difference());  // slower is a difference too
}

TEST(Paired, OnePairShowsNothing) {
  const auto r = paired_ratio({5}, {1});
  ASSERT_TRUE(r.ok());
  EXPECT_DOUBLE_EQ(r->middle, 5);
  EXPECT_FALSE(r->known);
  EXPECT_FALSE(r->shows_difference());
}

TEST(Paired, RefusesWhatIsNoRate) {
  EXPECT_FALSE(paired_ratio({}, {}).ok());
  EXPECT_FALSE(paired_ratio({1, 2}, {1}).ok());
  EXPECT_FALSE(paired_ratio({1, 0}, {1, 1}).ok());
  EXPECT_FALSE(paired_ratio({1, 1}, {1, -1}).ok());
  EXPECT_FALSE(paired_ratio({NAN}, {1}).ok());
  EXPECT_FALSE(paired_ratio({INFINITY}, {1}).ok());
}

TEST(Paired, ManyPairsUseTheTail) {
  std::vector<double> ours, theirs(41, 1);
  for (int i = 0; i < 41; ++i) ours.push_back(i % 2 == 0 ? 1.1 : 1.0);
  const auto r = paired_ratio(ours, theirs);
  ASSERT_TRUE(r.ok());
  // 21 of ln 1.1, 20 of 0: deviation 0.5060 ln 1.1 (n - 1), error over sqrt 41, t of 40 freedoms 2.021.
  EXPECT_NEAR(std::log(r->high / r->middle), 2.021 * 0.50606 * std::log(1.1) / std::sqrt(41), 2e-5);
}

TEST(Paired, OrderAlternates) {
  EXPECT_TRUE(ours_first(0));
  EXPECT_FALSE(ours_first(1));
  EXPECT_TRUE(ours_first(2));
}

TEST(Paired, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(Paired, StealFromTicks) {
  const auto folder = std::filesystem::temp_directory_path() / "quern_paired_test";
  std::filesystem::create_directories(folder / "proc");
  std::ofstream(folder / "proc" / "stat") << "cpu  100 10 20 500 5 1 2 30 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
  const CpuTicks t = read_cpu_ticks(folder.string());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(t.total, 668U);
  EXPECT_EQ(t.idle, 505U);
  EXPECT_EQ(t.steal, 30U);
  EXPECT_DOUBLE_EQ(steal_between(t, {868, 600, 40}), 0.05);
  EXPECT_EQ(steal_between(t, t), 0);
  EXPECT_EQ(read_cpu_ticks("/nowhere").total, 0U);
}

}  // namespace
}  // namespace quern::measure
