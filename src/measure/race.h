// The rules of a race between a default and its challengers, over any clock: what is screened out, in which order
// windows are taken, what counts as a win. What a window runs is the caller's (measure/tune.cpp; tests give numbers).
//
// 1. screen: a few short looks at each challenger; one that takes 1.5 times the default's time is not raced.
// 2. heat: pairs of windows default and challenger, A B B A ..., all contests side by side in one run.
// 3. final: the best challenger of each contest that won its heat, against the default again, on fresh windows: of many
//    challengers one always looks good by luck.
// 4. proof: the winners together must make the whole faster, else all of them are dropped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/paired.h"

namespace quern::measure {

// Seconds of one window: of each contest, and of everything that ran.
struct Window {
  std::vector<double> contests;
  double whole = 0;
};

struct RaceOptions {
  double margin = 0.03;  // a challenger must be that much faster, with the interval above 1
  double screen = 1.5;
  int min_pairs = 5, max_pairs = 14;  // fewer than min_pairs: no verdict
  std::function<double()> now;        // seconds, never going back
  double deadline = 0;                // on that clock
};

// Windows of the default and of one challenger, pair by pair.
struct Pairs {
  std::vector<Window> ours, theirs;  // theirs: the default
};
// Takes windows of variant 0 and of each of [1, n_variants), in pairs, until there are max_pairs or the time is over;
// for min_pairs up to twice the time. Result [n_variants - 1].
using VariantFn = std::function<Result<Window>(size_t variant)>;
Result<std::vector<Pairs>> take_pairs(size_t n_variants, const VariantFn& window, const RaceOptions& options,
                                      double seconds);

// The default's seconds over the challenger's. contest -1: of the whole. Not known where too few pairs were taken.
Ratio ratio_of(const Pairs& pairs, int contest, const RaceOptions& options);
bool wins(const Ratio& ratio, double margin);
// Spread of the default's windows: 1.48 times the median distance from the median, relative to it.
double noise_of(const Pairs& pairs, int contest);

struct Trial {
  std::string verdict = "not raced";
  Ratio ratio;
};

struct Verdict {
  size_t winner = 0;  // index into the contest's candidates; 0 is the default
  Ratio ratio;        // of the final, or of the best challenger's heat where none came that far
  double noise = 0;
  int n_pairs = 0;
  std::string note;           // why a winner was dropped
  std::vector<Trial> trials;  // [n_candidates]
};

struct RaceResult {
  std::vector<Verdict> verdicts;  // [n_contests]
  Ratio whole;                    // of the proof; not known where there was nothing to prove
  bool kept = false;              // there were winners, and they hold
};

// picks [n_contests]: which candidate each contest runs with.
using PicksFn = std::function<Result<Window>(const std::vector<size_t>& picks)>;
// n_candidates [n_contests], each at least 1. look: a short window for the screen.
Result<RaceResult> run_race(const std::vector<size_t>& n_candidates, const PicksFn& look, const PicksFn& window,
                            const RaceOptions& options);

// Of settings that change everything (threads, spins): the one that wins on the whole without making any contest
// slower. 0: the default stays.
struct SettingResult {
  size_t winner = 0;
  Ratio ratio;
  double noise = 0;
  int n_pairs = 0;
  std::vector<Ratio> heats;  // [n_settings - 1]
};
Result<SettingResult> race_settings(size_t n_settings, const VariantFn& window, const RaceOptions& options);

}  // namespace quern::measure
