#include "measure/tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/log.h"
#include "measure/stage.h"

namespace quern::measure {
namespace {

constexpr double kWindowSeconds = 0.015;  // least of a window: short runs are repeated
constexpr int kFewRaced = 4;              // rows of the race for "few"
constexpr int kLookRows = 32;             // of a prompt in the screen
constexpr int kLeastRows = 32;            // of a prompt in the race, where a whole chunk would take too long
constexpr int kTeamPrompt = 128;          // rows of the prompt that teams race with
constexpr double kBusy = 0.05;            // of all processors, taken by other programs: no verdict on teams
constexpr double kSamplerSeconds = 200e-6;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void busy_wait(double seconds) {
  const double end = now_seconds() + seconds;
  while (now_seconds() < end) {
  }
}

engine::TunedRatio tuned_ratio(const Ratio& r) {
  return r.known ? engine::TunedRatio{r.middle, r.low, r.high} : engine::TunedRatio{};
}

// The part of all processors' time that other programs took between two readings, in which this one took own_seconds.
double taken_by_others(const CpuTicks& before, const CpuTicks& after, double own_seconds) {
  if (after.total <= before.total) return 0;
  const double total = static_cast<double>(after.total - before.total);
  const double busy = total - static_cast<double>(after.idle - before.idle);
  return std::max(0.0, busy - own_seconds * static_cast<double>(::sysconf(_SC_CLK_TCK))) / total;
}

double own_cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string text_of(const Ratio& r) {
  return r.known ? fmt::format("{:.3f} ({:.3f} to {:.3f})", r.middle, r.low, r.high) : "unknown";
}

// Team sizes and spins worth a try beside the default: fewer threads by halves and by one, the second hardware threads
// too, a shorter and a longer spin.
std::vector<TeamOptions> settings_beside(const TeamOptions& standard, const Topology& topology) {
  std::vector<int> counts;
  for (int n = 1; n < standard.n_threads; n *= 2) counts.push_back(n);
  counts.push_back(standard.n_threads - 1);
  int most = topology.n_usable_cpus();
  if (topology.quota_cores) most = std::min(most, static_cast<int>(std::floor(std::min(*topology.quota_cores, 1e6))));
  counts.push_back(most);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<TeamOptions> all;
  for (const int n : counts) {
    if (n >= 1 && n != standard.n_threads) all.push_back({n, standard.spins});
  }
  if (standard.n_threads > 1) {
    all.push_back({standard.n_threads, standard.spins / 10});
    all.push_back({standard.n_threads, standard.spins * 10});
  }
  return all;
}

// A team and what runs on it.
struct Setting {
  TeamOptions options;
  std::unique_ptr<Team> team;
  std::unique_ptr<Track> track;
};

class Tuner {
 public:
  Tuner(engine::Engine& engine, const engine::Machine& machine, const TuneOptions& options)
      : state_(engine.state()), o_(options), start_(now_seconds()) {
    result_.tuning = engine::new_tuning(machine, options.commit, options.date);
    key_ = engine::model_key(*state_.model);
    n_threads_ = state_.team->size();
  }

  Result<TuneResult> run() {
    if (o_.team) QUERN_TRY_VOID(race_team(0.2 * o_.seconds));
    Team& team = chosen_ != nullptr ? *chosen_ : *state_.team;
    QUERN_TRY(const auto track, Track::create(state_, team, state_.n_chunk, o_.guests));
    const Track::Plans& plans = track->plans();
    const Phase phases[] = {{"decode", &plans.decode, Track::kDepth, 1, 1, 0.35},
                            {"few", &plans.batch, Track::kDepth, kFewRaced, kFewRaced, 0.15},
                            {"prefill", &plans.prefill, 0, state_.n_chunk, 1, 0.45},
                            {"all", &plans.all, 0, engine::kAllOutputs, engine::kAllOutputs, 0.05}};
    double weight = 0;
    for (const Phase& phase : phases) weight += phase.weight;
    for (const Phase& phase : phases) {
      const double left = std::max(0.0, o_.seconds - (now_seconds() - start_));
      QUERN_TRY_VOID(race_phase(*track, phase, left * phase.weight / weight));
      weight -= phase.weight;
    }
    return std::move(result_);
  }

 private:
  struct Phase {
    const char* name;
    const plan::Plan* plan;
    int first, rows, max_out;
    double weight;
  };

  void say(const std::string& line) const {
    if (o_.say) o_.say(line);
  }

  RaceOptions race_options(double seconds) const {
    RaceOptions r;
    r.margin = o_.margin;
    r.max_pairs = o_.max_pairs;
    r.min_pairs = std::min(r.min_pairs, o_.max_pairs);
    r.now = now_seconds;
    r.deadline = now_seconds() + seconds;
    return r;
  }

  Result<void> race_team(double seconds) {
    const int n_prompt = std::min(state_.n_chunk, kTeamPrompt);
    std::vector<Setting> settings(1);
    settings[0].options = {n_threads_, kDefaultSpins};
    QUERN_TRY(settings[0].track, Track::create(state_, *state_.team, n_prompt, {}));
    for (const TeamOptions& options : settings_beside(settings[0].options, detect_topology())) {
      settings.push_back({options, std::make_unique<Team>(options), nullptr});
      QUERN_TRY(settings.back().track, Track::create(state_, *settings.back().team, n_prompt, {}));
    }
    say(fmt::format("team: {} settings beside {} threads", settings.size() - 1, n_threads_));
    const VariantFn window = [&](size_t v) -> Result<Window> {
      Track& track = *settings[v].track;
      Stage decode(track, track.plans().decode, Track::kDepth, 1, 1);
      Stage prefill(track, track.plans().prefill, 0, n_prompt, 1);
      std::vector<double> tokens;
      for (int i = 0; i < 6; ++i) {
        busy_wait(kSamplerSeconds);  // between tokens a sampler runs, and the team waits
        const double seconds_of_token = decode.window({}, 1, false).whole;
        if (i > 0) tokens.push_back(seconds_of_token);
      }
      const double a = median(tokens), b = prefill.window({}, 1, false).whole;
      return Window{{a, b}, std::sqrt(a * b)};
    };
    const CpuTicks before = read_cpu_ticks();
    const double own = own_cpu_seconds();
    QUERN_TRY(SettingResult raced, race_settings(settings.size(), window, race_options(seconds)));
    const double others = taken_by_others(before, read_cpu_ticks(), own_cpu_seconds() - own);
    if (others > kBusy && raced.winner != 0) {
      say(fmt::format(
          "team: other programs took {:.0f} % of the processors, so what won says nothing of a quiet machine",
          others * 100));
      raced.winner = 0;
    }
    Setting& winner = settings[raced.winner];
    result_.tuning.knobs.push_back({key_, o_.model, n_threads_, winner.options.n_threads, winner.options.spins,
                                    tuned_ratio(raced.ratio), raced.noise, raced.n_pairs, o_.date});
    for (size_t v = 1; v < settings.size(); ++v)
      say(fmt::format("team: {} threads, {} spins: {}", settings[v].options.n_threads, settings[v].options.spins,
                      text_of(raced.heats[v - 1])));
    if (raced.winner == 0) {
      say("team: the default stays");
      return {};
    }
    say(fmt::format("team: {} threads, {} spins win, {}", winner.options.n_threads, winner.options.spins,
                    text_of(raced.ratio)));
    n_threads_ = winner.team->size();
    chosen_ = std::move(winner.team);
    return {};
  }

  // Fewer rows of a prompt where all of them would not fit the time.
  static void fit_rows(Stage& stage, double seconds_a_window, size_t n_variants, double seconds) {
    const double windows = 20.0 * static_cast<double>(std::min<size_t>(n_variants, 3)) + 60;
    while (stage.n_rows() / 2 >= kLeastRows && seconds_a_window * windows > seconds) {
      stage.set_rows(stage.n_rows() / 2);
      seconds_a_window /= 2;
    }
  }

  Result<void> race_phase(Track& track, const Phase& phase, double seconds) {
    const double start = now_seconds();
    Stage stage(track, *phase.plan, phase.first, phase.rows, phase.max_out);
    stage.collect(known_, o_.guests);
    if (stage.contests().empty()) return {};
    for (const std::string& wrong : stage.check_bits()) {
      log(LogLevel::error, "a kernel gives wrong numbers on this machine and is left out: " + wrong);
      result_.wrong.push_back(wrong);
    }
    std::vector<size_t> counts;
    size_t most = 1;
    for (const Contest& c : stage.contests()) {
      counts.push_back(c.kernels.size());
      most = std::max(most, c.kernels.size());
    }
    const std::vector<size_t> defaults(counts.size(), 0);
    const double once = std::max(stage.window(defaults, 1, true).whole, 1e-9);
    const bool prompt = phase.plan->row_class == kernels::RowClass::prefill;
    if (prompt) fit_rows(stage, once, most - 1, seconds);
    const double each = once * stage.n_rows() / phase.rows;
    const int runs = static_cast<int>(std::clamp(kWindowSeconds / each, 1.0, 9.0));
    say(fmt::format("{}: {} queries, up to {} kernels each, {} rows, {:.2f} ms a run", phase.name, counts.size(), most,
                    stage.n_rows(), each * 1e3));
    const PicksFn window = [&](const std::vector<size_t>& picks) -> Result<Window> {
      return stage.window(picks, runs, each < kWindowSeconds / 3);
    };
    const PicksFn look = [&](const std::vector<size_t>& picks) -> Result<Window> {
      const int rows = stage.n_rows();
      if (prompt) stage.set_rows(std::min(rows, kLookRows));
      Window seen = stage.window(picks, 1, false);
      stage.set_rows(rows);
      return seen;
    };
    QUERN_TRY(const RaceResult raced, run_race(counts, look, window, race_options(seconds - (now_seconds() - start))));
    record(phase, stage, raced);
    return {};
  }

  void record(const Phase& phase, const Stage& stage, const RaceResult& raced) {
    for (size_t c = 0; c < stage.contests().size(); ++c) {
      const Contest& contest = stage.contests()[c];
      const Verdict& v = raced.verdicts[c];
      engine::TunedEntry e;
      e.query = contest.query;
      e.n_threads = n_threads_;
      e.fallback = contest.kernels[0]->name;
      e.winner = contest.kernels[v.winner]->name;
      e.ratio = tuned_ratio(v.ratio);
      e.noise = v.noise;
      e.n_windows = v.n_pairs;
      e.n_rows = stage.n_rows();
      e.note = v.note;
      e.date = o_.date;
      for (size_t k = 1; k < contest.kernels.size(); ++k)
        e.tried.push_back({contest.kernels[k]->name, v.trials[k].verdict, tuned_ratio(v.trials[k].ratio)});
      if (v.winner != 0)
        say(fmt::format("{}: {}: {} wins, {}", phase.name, to_text(e.query), e.winner, text_of(v.ratio)));
      result_.tuning.entries.push_back(std::move(e));
    }
    if (!raced.whole.known) {
      say(fmt::format("{}: the defaults stay", phase.name));
      return;
    }
    say(fmt::format("{}: the whole with its winners: {}{}", phase.name, text_of(raced.whole),
                    raced.kept ? "" : ": not faster, so they are dropped"));
    result_.tuning.proofs.push_back(
        {key_, o_.model, phase.name, n_threads_, tuned_ratio(raced.whole), raced.kept, o_.date});
  }

  engine::Engine::State& state_;
  const TuneOptions& o_;
  const double start_;
  TuneResult result_;
  std::string key_;
  int n_threads_ = 1;
  std::unique_ptr<Team> chosen_;  // null: the engine's own
  std::vector<kernels::Query> known_;
};

}  // namespace

Result<TuneResult> run_tune(engine::Engine& engine, const engine::Machine& machine, const TuneOptions& options) {
  return Tuner(engine, machine, options).run();
}

std::string tune_markdown(const engine::Tuning& t) {
  const auto ratio = [](const engine::TunedRatio& r) {
    return fmt::format("{:.3f} ({:.3f} to {:.3f})", r.middle, r.low, r.high);
  };
  std::string text;
  for (const engine::TunedKnobs& k : t.knobs) {
    const bool same = k.n_threads == k.default_threads && k.spins == kDefaultSpins;
    text += fmt::format("team: {} threads, {} spins{}\n\n", k.n_threads, k.spins,
                        same ? " (the default)" : ", " + ratio(k.ratio) + " of the default's speed");
  }
  text += "| query | default | fastest | default's time / its | noise | windows |\n|---|---|---|--:|--:|--:|\n";
  for (const engine::TunedEntry& e : t.entries) {
    const std::string fastest = e.winner != e.fallback ? e.winner : e.note.empty() ? "the same" : "the same: " + e.note;
    text += fmt::format("| {} | {} | {} | {} | {:.1f} % | {} |\n", kernels::to_text(e.query), e.fallback, fastest,
                        e.n_windows == 0              ? "no rival close enough"
                        : e.ratio.low == e.ratio.high ? "not enough windows"
                                                      : ratio(e.ratio),
                        e.noise * 100, e.n_windows);
  }
  text += "\n";
  for (const engine::TunedProof& p : t.proofs)
    text += fmt::format("{} with all its winners: {}, {}\n", p.phase, ratio(p.ratio), p.kept ? "kept" : "dropped");
  return text + fmt::format("{} of {} queries tuned\n", t.n_winners(), t.entries.size());
}

}  // namespace quern::measure
