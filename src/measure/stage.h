// One plan of a loaded model as a race track: its queries and their candidates, the check of bits, timed windows.
#pragma once

#include <algorithm>
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

// What every stage of one tuning run shares: keys and values of one sequence, memory, a team.
class Track {
 public:
  // Largest number of rows and positions of any stage.
  static Result<std::unique_ptr<Track>> create(engine::Engine::State& state, Team& team, size_t scratch_bytes);

  // Evaluates [first, first + n_rows) of the track's tokens with `plan`, wanting the last n_out rows' logits.
  kernels::RunContext context(int first, int n_rows, int n_out);
  engine::Engine::State& state() { return state_; }
  exec::Runner& runner() { return *runner_; }
  Team& team() { return team_; }
  std::byte* scratch(int thread) { return scratch_.data() + scratch_each_ * static_cast<size_t>(thread); }
  exec::KvTable& kv() { return kv_; }
  static constexpr int kDepth = 128;  // positions before a decoded token
  int max_positions() const { return static_cast<int>(tokens_.size()); }

 private:
  Track(engine::Engine::State& state, Team& team);
  engine::Engine::State& state_;
  Team& team_;
  exec::KvTable kv_;
  std::optional<exec::Runner> runner_;
  Buffer scratch_;
  size_t scratch_each_ = 0;
  std::vector<int32_t> tokens_, positions_, out_rows_;
  kernels::Span span_{};
};

class Stage {
 public:
  // plan: one of the engine's. first: position of the first row.
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
  void run_call(const kernels::Kernel& kernel, const plan::Call& call, const kernels::RunContext& ctx);
  std::vector<Region> written_by(const plan::Call& call);
  bool same_bits(const kernels::Kernel& kernel, const plan::Call& call, const kernels::RunContext& ctx,
                 const std::vector<Region>& regions, const std::vector<std::byte>& before,
                 const std::vector<std::byte>& expected);
  void check_call(const plan::Call& call, Contest& contest, const kernels::RunContext& ctx,
                  std::vector<std::string>& wrong);

  Track& track_;
  plan::Plan plan_;  // a copy: kernels are exchanged in it
  int first_, n_rows_;
  int max_out_;  // rows whose logits are wanted, where there are so many
  std::vector<Contest> contests_;
  std::vector<int> contest_of_;  // by call, in order; -1: none
  exec::RunTimes times_;
};

// Scratch bytes a thread needs for any candidate of any call of the engine's plans.
size_t scratch_of_candidates(const engine::Engine::State& state, const std::vector<const kernels::Kernel*>& guests);

}  // namespace quern::measure
