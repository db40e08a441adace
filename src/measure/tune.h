// The tuner: races the registry's kernels for every query of a loaded model's plans, and team sizes and spins, on this
// box. Windows are whole runs of the plan, each call timed: so weights come from where they come from in use, and all
// queries are raced side by side. Rules of the race: race.h; the result's form: engine/tuning.h.
//
// Before any time is taken a kernel must give the default's bits, on the model's own data after a poisoned start; one
// that does not is named and excluded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/tuning.h"

namespace quern::measure {

struct TuneOptions {
  double seconds = 60;  // about; every phase ends when its part is over
  bool team = true;     // race team sizes and spins too
  double margin = 0.03;
  int max_pairs = 14;                           // windows of each side
  std::string model;                            // a name for people
  std::string commit, date;                     // provenance
  std::function<void(const std::string&)> say;  // progress, a line each; may be empty
  // Rows that take part besides the registry's, where their keys fit (tests).
  std::vector<const kernels::Kernel*> guests;
};

struct TuneResult {
  engine::Tuning tuning;           // fresh; to be merged over what is there
  std::vector<std::string> wrong;  // "KERNEL: other bits than DEFAULT for QUERY", each excluded
};

// The engine must be untuned (no tune_dir), and no session may run meanwhile.
// Errors: out_of_memory, and what the engine refuses.
Result<TuneResult> run_tune(engine::Engine& engine, const engine::Machine& machine, const TuneOptions& options);

// What was found, as a table.
std::string tune_markdown(const engine::Tuning& tuning);

}  // namespace quern::measure
