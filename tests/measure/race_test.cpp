// The rules of a race over made-up clocks and times: nothing here runs a kernel.
#include "measure/race.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::measure {
namespace {

// Contest c with candidate k takes seconds[c][k], times a wobble that both sides of a pair share in part. Each window
// takes a second of the clock.
struct Machine {
  std::vector<std::vector<double>> seconds;
  double wobble = 0.01;
  double rest = 0;     // of the whole, that no contest has a part in
  double penalty = 0;  // of the whole, where any contest runs another kernel than its default
  double clock = 0;
  int windows = 0, looks = 0;
  std::vector<std::vector<size_t>> seen = {};

  Result<Window> take(const std::vector<size_t>& picks) {
    seen.push_back(picks);
    clock += 1;
    ++windows;
    // Drift of the machine (slow), and noise that differs from window to window.
    const double noise = 1 + wobble * std::sin(windows * 2.4) + 0.2 * std::sin(windows * 0.01);
    Window w;
    w.whole = rest;
    for (size_t c = 0; c < seconds.size(); ++c) {
      w.contests.push_back(seconds[c][picks[c]] * noise);
      w.whole += w.contests.back();
      if (picks[c] != 0) w.whole += penalty;
    }
    return w;
  }
  std::vector<size_t> counts() const {
    std::vector<size_t> n;
    for (const auto& s : seconds) n.push_back(s.size());
    return n;
  }
  RaceOptions options() {
    RaceOptions o;
    o.now = [this] { return clock; };
    o.deadline = 1e9;
    return o;
  }
  RaceResult race() { return race(options()); }
  RaceResult race(const RaceOptions& o) {
    const PicksFn window = [this](const auto& picks) { return take(picks); };
    const PicksFn look = [this](const auto& picks) {
      ++looks;
      return take(picks);
    };
    auto result = run_race(counts(), look, window, o);
    EXPECT_TRUE(result.ok());
    return *std::move(result);
  }
};

TEST(Race, AFasterKernelWinsAndTheRestStays) {
  Machine m{{{1.0, 0.8, 0.9}, {1.0, 1.2}, {1.0}}};
  const RaceResult r = m.race();
  EXPECT_EQ(r.verdicts[0].winner, 1U);
  EXPECT_NEAR(r.verdicts[0].ratio.middle, 1.25, 0.02);
  EXPECT_GT(r.verdicts[0].ratio.low, 1);
  EXPECT_EQ(r.verdicts[0].trials[1].verdict, "wins");
  EXPECT_EQ(r.verdicts[0].trials[2].verdict, "faster");
  EXPECT_EQ(r.verdicts[1].winner, 0U);
  EXPECT_EQ(r.verdicts[1].trials[1].verdict, "slower");
  EXPECT_EQ(r.verdicts[2].winner, 0U);
  EXPECT_TRUE(r.kept);
  EXPECT_GT(r.whole.low, 1);
  EXPECT_GT(r.verdicts[0].noise, 0);
  EXPECT_EQ(r.verdicts[0].n_pairs, 14);
}

TEST(Race, ThreePercentIsTheMargin) {
  for (const double gain : {0.01, 0.02, 0.028, 0.035, 0.05}) {
    Machine m{{{1.0, 1 / (1 + gain)}}, 0.001};
    EXPECT_EQ(m.race().verdicts[0].winner, gain >= 0.03 ? 1U : 0U) << gain;
  }
}

TEST(Race, NoiseThatHidesTheDifferenceKeepsTheDefault) {
  Machine quiet{{{1.0, 0.95}}, 0.005};
  EXPECT_EQ(quiet.race().verdicts[0].winner, 1U);
  Machine loud{{{1.0, 0.95}}, 0.6};
  const RaceResult r = loud.race();
  EXPECT_EQ(r.verdicts[0].winner, 0U);
  EXPECT_LE(r.verdicts[0].ratio.low, 1);
}

TEST(Race, SlowKernelsAreNotRaced) {
  Machine m{{{1.0, 1.6, 0.9}, {1.0, 1.4}}};
  const RaceResult r = m.race();
  EXPECT_EQ(r.verdicts[0].trials[1].verdict, "too slow to race");
  EXPECT_FALSE(r.verdicts[0].trials[1].ratio.known);
  EXPECT_EQ(r.verdicts[1].trials[1].verdict, "slower");
  EXPECT_EQ(m.looks, 12);  // the default and two candidates, four times each
  for (size_t i = 12; i < m.seen.size(); ++i) EXPECT_NE(m.seen[i][0], 1U);
}

TEST(Race, WindowsAlternateWithinPairsAndBetweenThem) {
  Machine m{{{1.0, 1.0}}};
  RaceOptions o = m.options();
  o.max_pairs = 6;
  m.race(o);
  ASSERT_EQ(m.seen.size(), 8U + 12U);
  const std::vector<size_t> expected = {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(m.seen[8 + i][0], expected[i]) << i;
}

// Too little time for the windows of a verdict is stretched, up to twice.
TEST(Race, FewAndLongWindowsAreWaitedFor) {
  Machine m{{{1.0, 0.8}}, 0.002};
  RaceOptions o = m.options();
  o.deadline = 14;
  EXPECT_EQ(m.race(o).verdicts[0].n_pairs, 5);
}

// Faster by its own clock, but the others pay for it (a cache emptied, a clock lowered).
TEST(Race, WinnersThatDoNotMakeTheWholeFasterAreDropped) {
  Machine m{{{1.0, 0.9}, {1.0, 0.9}}, 0.005, 10, 0.2};
  const RaceResult r = m.race();
  EXPECT_FALSE(r.kept);
  EXPECT_TRUE(r.whole.known);
  for (const Verdict& v : r.verdicts) {
    EXPECT_EQ(v.winner, 0U);
    EXPECT_NE(v.note.find("the whole is not faster"), std::string::npos);
    EXPECT_EQ(v.trials[1].verdict, "dropped");
  }
}

// A candidate that looked good in the heat and is not in the final.
TEST(Race, AHeatWonByLuckIsNotEnough) {
  Machine m{{{1.0, 0.9}, {1.0, 0.8}}, 0.002};
  const PicksFn look = [&](const auto& picks) { return m.take(picks); };
  int windows = 0;
  const PicksFn window = [&](const auto& picks) {
    if (++windows > 28) m.seconds[0][1] = 1.0;
    return m.take(picks);
  };
  const auto r = run_race(m.counts(), look, window, m.options());
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->verdicts[0].winner, 0U);
  EXPECT_EQ(r->verdicts[0].trials[1].verdict, "lost the final");
  EXPECT_EQ(r->verdicts[1].winner, 1U);
  EXPECT_TRUE(r->kept);
  EXPECT_EQ(windows, 28 * 3);  // heat, final, and a proof without the loser
}

TEST(Race, WithoutTimeTheDefaultsStay) {
  Machine m{{{1.0, 0.5}}};
  RaceOptions o = m.options();
  o.deadline = 8;  // of which the heat has four; a pair takes two
  const RaceResult r = m.race(o);
  EXPECT_EQ(r.verdicts[0].winner, 0U);
  EXPECT_EQ(r.verdicts[0].trials[1].verdict, "not enough windows");
  EXPECT_FALSE(r.verdicts[0].ratio.known);
  EXPECT_LE(m.clock, 8 + 8 + 2);
}

TEST(Race, AContestOfNoTimeIsNoContest) {
  Machine m{{{0.0, 0.0}, {1.0, 0.9}}, 0.002};
  const RaceResult r = m.race();
  EXPECT_EQ(r.verdicts[0].winner, 0U);
  EXPECT_EQ(r.verdicts[1].winner, 1U);
}

TEST(Race, ErrorsOfAWindowEndIt) {
  const PicksFn broken = [](const auto&) -> Result<Window> { return Error{Status::out_of_memory, "no room"}; };
  Machine m;
  const auto r = run_race({2}, broken, broken, m.options());
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().message, "no room");
  EXPECT_TRUE(run_race({}, broken, broken, m.options()).ok());
}

// Settings: [default, others], each with seconds of two contests.
SettingResult race_of(const std::vector<std::vector<double>>& settings) {
  double clock = 0;
  RaceOptions o;
  o.now = [&] { return clock; };
  o.deadline = 1e9;
  const auto r = race_settings(
      settings.size(),
      [&](size_t v) -> Result<Window> {
        clock += 1;
        const double noise = 1 + 0.004 * std::sin(clock * 2.4);
        return Window{{settings[v][0] * noise, settings[v][1] * noise},
                      std::sqrt(settings[v][0] * settings[v][1]) * noise};
      },
      o);
  EXPECT_TRUE(r.ok());
  return *r;
}

TEST(Settings, TheBestOnTheWholeWins) {
  const SettingResult r = race_of({{1, 1}, {0.99, 0.99}, {0.83, 1}, {0.9, 0.9}});
  EXPECT_EQ(r.winner, 3U);
  EXPECT_NEAR(r.ratio.middle, 1 / 0.9, 0.01);
  EXPECT_EQ(r.heats.size(), 3U);
}

TEST(Settings, NoneMayMakeOnePartSlower) {
  EXPECT_EQ(race_of({{1, 1}, {0.5, 1.1}}).winner, 0U);
  EXPECT_EQ(race_of({{1, 1}, {0.5, 1.005}}).winner, 1U);
  EXPECT_EQ(race_of({{1, 1}, {0.98, 0.98}}).winner, 0U);
  EXPECT_EQ(race_of({{1, 1}}).winner, 0U);
}

}  // namespace
}  // namespace quern::measure
