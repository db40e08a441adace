// Team: every thread runs every job, barriers separate what came before from what comes after, at any size.
#include <gtest/gtest.h>

#include <numeric>

#include "base/team.h"

namespace quern {
namespace {

TEST(Team, EveryThreadRunsEveryJob) {
  for (const int n : {1, 2, 3, 8}) {
    Team team(n);
    ASSERT_EQ(team.size(), n);
    std::vector<int> runs(static_cast<size_t>(n), 0);
    for (int job = 0; job < 200; ++job) {
      team.run([&](int thread) { ++runs[static_cast<size_t>(thread)]; });
    }
    EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(n), 200));
  }
}

// A ring of plain, unlocked numbers: each round every thread reads its neighbour's value of the round before.
TEST(Team, BarriersOrderPlainWrites) {
  constexpr int kThreads = 4, kRounds = 300;
  Team team(kThreads);
  int values[2][kThreads] = {};
  team.run([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      values[(round + 1) % 2][thread] = values[round % 2][(thread + 1) % kThreads] + 1;
      team.barrier();
    }
  });
  for (const int v : values[kRounds % 2]) EXPECT_EQ(v, kRounds);
}

TEST(Team, ParkedThreadsWakeUp) {
  Team team(3);
  int total = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough to park
    std::vector<int> one(3, 0);
    team.run([&](int thread) { one[static_cast<size_t>(thread)] = 1; });
    total += std::accumulate(one.begin(), one.end(), 0);
  }
  EXPECT_EQ(total, 9);
}

}  // namespace
}  // namespace quern
