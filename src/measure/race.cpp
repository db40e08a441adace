#include "measure/race.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::measure {
namespace {

// A setting may cost this much on one contest while it wins on the whole.
constexpr double kTolerated = 0.99;

double seconds_of(const Window& window, int contest) {
  return contest < 0 ? window.whole : window.contests[static_cast<size_t>(contest)];
}

std::vector<double> column(const std::vector<Window>& windows, int contest) {
  std::vector<double> values;
  for (const Window& w : windows) values.push_back(seconds_of(w, contest));
  return values;
}

// Looks at each candidate in the screen: the best counts, so that an interruption rules nobody out.
constexpr int kLooks = 4;

class Race {
 public:
  Race(const std::vector<size_t>& n_candidates, const PicksFn& look, const PicksFn& window, const RaceOptions& options)
      : n_candidates_(n_candidates), look_(look), window_(window), o_(options) {
    result_.verdicts.resize(n_candidates.size());
    for (size_t c = 0; c < n_candidates.size(); ++c) {
      result_.verdicts[c].trials.resize(n_candidates[c]);
      result_.verdicts[c].trials[0].verdict = "default";
    }
  }

  Result<RaceResult> run() {
    const double seconds = o_.deadline - o_.now();
    QUERN_TRY_VOID(screen());
    QUERN_TRY_VOID(heat(0.5 * seconds));
    QUERN_TRY_VOID(finals(0.3 * seconds));
    QUERN_TRY_VOID(prove(0.15 * seconds));
    return result_;
  }

 private:
  using Picks = std::vector<size_t>;

  size_t n_contests() const { return n_candidates_.size(); }
  Picks defaults() const { return Picks(n_contests(), 0); }

  Result<std::vector<double>> best_look(const Picks& picks) {
    std::vector<double> best(n_contests(), std::numeric_limits<double>::infinity());
    for (int i = 0; i < kLooks; ++i) {
      QUERN_TRY(const Window seen, look_(picks));
      for (size_t c = 0; c < n_contests(); ++c) best[c] = std::min(best[c], seen.contests[c]);
    }
    return best;
  }

  Result<void> screen() {
    survivors_.resize(n_contests());
    QUERN_TRY(const std::vector<double> base, best_look(defaults()));
    const size_t most = *std::max_element(n_candidates_.begin(), n_candidates_.end());
    for (size_t k = 1; k < most; ++k) {
      Picks picks = defaults();
      for (size_t c = 0; c < n_contests(); ++c) picks[c] = k < n_candidates_[c] ? k : 0;
      QUERN_TRY(const std::vector<double> seconds, best_look(picks));
      for (size_t c = 0; c < n_contests(); ++c) {
        if (picks[c] == 0) continue;
        const bool slow = seconds[c] > o_.screen * base[c];
        if (slow) {
          result_.verdicts[c].trials[k].verdict = "too slow to race";
        } else {
          survivors_[c].push_back(k);
        }
      }
    }
    return {};
  }

  // Variant v of the heat: each contest's v-th survivor, or its default.
  Picks picks_of(size_t variant) const {
    Picks picks = defaults();
    for (size_t c = 0; variant > 0 && c < n_contests(); ++c) {
      if (variant <= survivors_[c].size()) picks[c] = survivors_[c][variant - 1];
    }
    return picks;
  }

  Result<void> heat(double seconds) {
    best_ = defaults();
    size_t n_variants = 1;
    for (const auto& s : survivors_) n_variants = std::max(n_variants, s.size() + 1);
    if (n_variants == 1) return {};
    QUERN_TRY(const auto pairs, take_pairs(
                                    n_variants, [&](size_t v) { return window_(picks_of(v)); }, o_, seconds));
    for (size_t c = 0; c < n_contests(); ++c) {
      Verdict& verdict = result_.verdicts[c];
      for (size_t s = 0; s < survivors_[c].size(); ++s) {
        const size_t k = survivors_[c][s];
        const Ratio ratio = ratio_of(pairs[s], static_cast<int>(c), o_);
        verdict.trials[k] = {!ratio.known             ? "not enough windows"
                             : wins(ratio, o_.margin) ? "faster"
                             : ratio.high < 1         ? "slower"
                                                      : "no faster",
                             ratio};
        if (s == 0 || (ratio.known && ratio.middle > verdict.ratio.middle)) {
          verdict.ratio = ratio;
          verdict.noise = noise_of(pairs[s], static_cast<int>(c));
          verdict.n_pairs = static_cast<int>(pairs[s].ours.size());
        }
        const bool better = best_[c] == 0 || ratio.middle > verdict.trials[best_[c]].ratio.middle;
        if (wins(ratio, o_.margin) && better) best_[c] = k;
      }
    }
    return {};
  }

  Result<void> finals(double seconds) {
    if (best_ == defaults()) return {};
    QUERN_TRY(const auto pairs, take_pairs(
                                    2, [&](size_t v) { return window_(v == 0 ? defaults() : best_); }, o_, seconds));
    result_.whole = ratio_of(pairs[0], -1, o_);
    proven_ = true;
    for (size_t c = 0; c < n_contests(); ++c) {
      if (best_[c] == 0) continue;
      Verdict& verdict = result_.verdicts[c];
      verdict.ratio = ratio_of(pairs[0], static_cast<int>(c), o_);
      verdict.noise = noise_of(pairs[0], static_cast<int>(c));
      verdict.n_pairs = static_cast<int>(pairs[0].ours.size());
      if (wins(verdict.ratio, o_.margin)) {
        verdict.winner = best_[c];
      } else {
        verdict.trials[best_[c]].verdict = verdict.ratio.known ? "lost the final" : "not enough windows";
        proven_ = false;  // the whole was timed with a kernel that does not stay
      }
    }
    return {};
  }

  Result<void> prove(double seconds) {
    Picks winners = defaults();
    for (size_t c = 0; c < n_contests(); ++c) winners[c] = result_.verdicts[c].winner;
    if (winners == defaults()) {
      result_.whole = {};
      return {};
    }
    if (!proven_) {
      QUERN_TRY(const auto pairs,
                take_pairs(
                    2, [&](size_t v) { return window_(v == 0 ? defaults() : winners); }, o_, seconds));
      result_.whole = ratio_of(pairs[0], -1, o_);
    }
    result_.kept = result_.whole.known && result_.whole.low > 1;
    for (size_t c = 0; c < n_contests(); ++c) {
      Verdict& verdict = result_.verdicts[c];
      if (verdict.winner == 0) continue;
      verdict.trials[verdict.winner].verdict = result_.kept ? "wins" : "dropped";
      if (result_.kept) continue;
      verdict.note = "faster alone, but the whole is not faster with it";
      verdict.winner = 0;
    }
    return {};
  }

  const std::vector<size_t>& n_candidates_;
  const PicksFn& look_;
  const PicksFn& window_;
  const RaceOptions& o_;
  std::vector<std::vector<size_t>> survivors_;  // [n_contests] candidates that are raced
  Picks best_;
  bool proven_ = false;
  RaceResult result_;
};

}  // namespace

Result<std::vector<Pairs>> take_pairs(size_t n_variants, const VariantFn& window, const RaceOptions& options,
                                      double seconds) {
  const double start = options.now();
  const auto goes_on = [&](int round) {
    const double spent = options.now() - start;
    return round < options.max_pairs && (round == 0 || spent < (round < options.min_pairs ? 2 : 1) * seconds);
  };
  std::vector<Pairs> pairs(n_variants - 1);
  for (int round = 0; goes_on(round); ++round) {
    for (size_t v = 1; v < n_variants; ++v) {
      for (const int player : turn_order(round, 2)) {
        QUERN_TRY(Window taken, window(player == 0 ? v : 0));
        (player == 0 ? pairs[v - 1].ours : pairs[v - 1].theirs).push_back(std::move(taken));
      }
    }
  }
  return pairs;
}

Ratio ratio_of(const Pairs& pairs, int contest, const RaceOptions& options) {
  Ratio none;
  none.middle = none.low = none.high = 1;
  if (static_cast<int>(pairs.ours.size()) < options.min_pairs) return none;
  const auto ratio = paired_ratio(column(pairs.theirs, contest), column(pairs.ours, contest));
  return ratio.ok() ? *ratio : none;  // a window of no time at all tells nothing
}

bool wins(const Ratio& ratio, double margin) {
  return ratio.known && ratio.middle >= 1 + margin && ratio.low > 1;
}

double noise_of(const Pairs& pairs, int contest) {
  std::vector<double> values = column(pairs.theirs, contest);
  const double middle = median(values);
  if (middle <= 0) return 0;
  for (double& v : values) v = std::abs(v - middle);
  return 1.4826 * median(values) / middle;
}

Result<RaceResult> run_race(const std::vector<size_t>& n_candidates, const PicksFn& look, const PicksFn& window,
                            const RaceOptions& options) {
  if (n_candidates.empty()) return RaceResult{};
  return Race(n_candidates, look, window, options).run();
}

Result<SettingResult> race_settings(size_t n_settings, const VariantFn& window, const RaceOptions& options) {
  SettingResult result;
  if (n_settings < 2) return result;
  const double seconds = options.deadline - options.now();
  QUERN_TRY(const auto pairs, take_pairs(n_settings, window, options, 0.7 * seconds));
  const auto good = [&](const Pairs& p) {
    bool ok = wins(ratio_of(p, -1, options), options.margin);
    for (size_t c = 0; ok && c < p.ours[0].contests.size(); ++c)
      ok = ratio_of(p, static_cast<int>(c), options).middle >= kTolerated;
    return ok;
  };
  size_t best = 0;
  for (size_t v = 1; v < n_settings; ++v) {
    result.heats.push_back(ratio_of(pairs[v - 1], -1, options));
    if (good(pairs[v - 1]) && (best == 0 || result.heats[v - 1].middle > result.heats[best - 1].middle)) best = v;
  }
  if (best == 0) return result;
  QUERN_TRY(const auto last, take_pairs(
                                 2, [&](size_t v) { return window(v == 0 ? 0 : best); }, options, 0.3 * seconds));
  result.ratio = ratio_of(last[0], -1, options);
  result.noise = noise_of(last[0], -1);
  result.n_pairs = static_cast<int>(last[0].ours.size());
  if (good(last[0])) result.winner = best;
  return result;
}

}  // namespace quern::measure
