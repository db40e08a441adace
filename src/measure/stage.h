// One plan of a loaded model as a race track: its queries and their candidates, the check of bits, timed windows.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/state.h"
#include "measure/race.h"

namespace quern::measure {

// A query of the plan and the kernels that may answer it; [0] is the default.
struct Contest {
  kernels::Query query;
  std::vector<const kernels::Kernel*> kernels;
};

// What every stage on one team shares: plans compiled for that team with the default kernels, their memory, keys and
// values of one sequence.
class Track {
 public:
  // n_rows: the most of a prompt. guests: candidates beside the registry's, whose scratch is counted.
  static Result<std::unique_ptr<Track>> create(engine::Engine::State& state, Team& team, int n_rows,
                                               const std::vector<const kernels::Kernel*>& guests);

  struct Plans {
    plan::Plan decode, batch, prefill, all;  // as the engine's
  };
  const Plans& plans() const { return plans_; }
  // A run of [first, first + n_rows) of the track's tokens that wants the last n_out rows' logits.
  kernels::RunContext context(int first, int n_rows, int n_out);
  engine::Engine::State& state() { return state_; }
  exec::Runner& runner() { return *runner_; }
  Team& team() { return team_; }
  std::byte* arena() { return arena_.data(); }
  std::byte* scratch(int thread) { return scratch_.data() + scratch_each_ * static_cast<size_t>(thread); }
  exec::KvTable& kv() { return kv_; }
  static constexpr int kDepth = 128;  // positions before a decoded token

 private:
  Track(engine::Engine::State& state, Team& team, int n_rows);
  Result<void> compile_plans(int n_rows);

  engine::Engine::State& state_;
  Team& team_;
  exec::KvTable kv_;
  Plans plans_;
  Buffer arena_, scratch_;
  size_t scratch_each_ = 0;
  std::optional<exec::Runner> runner_;
  std::vector<int32_t> tokens_, positions_, out_rows_;
  kernels::Span span_{};
};

class Stage {
 public:
  // plan: one of the track's. first: position of the first row.
  Stage(Track& track, const plan::Plan& plan, int first, int n_rows, int max_out);

  // Queries with two candidates or more that are not among `known`, which they join.
  void collect(std::vector<kernels::Query>& known, const std::vector<const kernels::Kernel*>& guests);
  const std::vector<Contest>& contests() const { return contests_; }
  int n_rows() const { return n_rows_; }
  void set_rows(int n_rows) { n_rows_ = n_rows; }

  // Runs the plan call by call over poisoned memory. At the first and last call of each contest every candidate runs
  // from the same state as the default and must leave the same bytes. Those that do not leave the contest; a line for
  // each comes back.
  std::vector<std::string> check_bits();

  // Seconds by contest and of the whole: medians over `runs` runs, after an untimed one where `warm`.
  Window window(const std::vector<size_t>& picks, int runs, bool warm);

 private:
  struct Region {
    std::byte* data;
    size_t bytes;
  };
  kernels::RunContext context() { return track_.context(first_, n_rows_, std::min(max_out_, n_rows_)); }
  using RunFn = std::function<void(const kernels::Kernel& kernel)>;  // makes the call with that kernel
  void run_call(const kernels::Kernel& kernel, const plan::Call& call, const kernels::RunContext& ctx);
  std::vector<Region> written_by(const plan::Call& call);
  void check_call(const plan::Call& call, Contest& contest, const RunFn& run, std::vector<std::string>& wrong);

  Track& track_;
  plan::Plan plan_;  // a copy: kernels are exchanged in it
  int first_, n_rows_;
  int max_out_;  // rows whose logits are wanted, where there are so many
  std::vector<Contest> contests_;
  std::vector<int> contest_of_;  // by call, in order; -1: none
  exec::RunTimes times_;
};

}  // namespace quern::measure
