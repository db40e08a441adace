// The tuning sidecar: what `quern tune` measured on this box, as JSON in the cache folder, one file a machine with an
// entry per kernel query. Reading, writing, and deciding whether it still holds. Measuring is measure/tune.h's.
//
// It can only name kernels that give the same bits, so a wrong file costs speed and never a token. A file that does not
// hold (another machine, version or registry; damaged; a kernel that does not exist) is ignored as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "base/topology.h"
#include "kernels/choices.h"

namespace quern::model {
struct Model;
}

namespace quern::engine {

inline constexpr int kTuningSchema = 1;

// What must be the same for a measurement to say anything.
struct Machine {
  std::string cpu;
  std::vector<std::string> features;
  int n_cores = 0;  // of the machine, whatever this process may use of them
  uint64_t l2_bytes = 0, l3_bytes = 0;
  bool operator==(const Machine&) const = default;
};
Machine this_machine(const CpuInfo& cpu, const Topology& topology);

// Seconds of the default over seconds of the other: above 1, the other is faster. A 95 % interval of paired windows.
struct TunedRatio {
  double middle = 1, low = 1, high = 1;
};

struct TunedTrial {
  std::string kernel;
  std::string verdict;  // "wins", "no faster", "slower", "other bits", "too slow to race", ...
  TunedRatio ratio;     // 1, 1, 1 where it was not raced
};

struct TunedEntry {
  kernels::Query query;
  int n_threads = 0;     // of the race; an engine with another number does not use it
  std::string fallback;  // the kernel that priority chooses
  std::string winner;    // may be the same
  TunedRatio ratio;      // of the winner in the deciding heat
  double noise = 0;      // spread of the default's own windows, relative
  int n_windows = 0;     // of each side
  int n_rows = 0;        // of a run in the race
  std::string note;      // why a winner was dropped; else empty
  std::string date;
  std::vector<TunedTrial> tried;
};

struct TunedKnobs {
  std::string model_key, model;  // model_key(), and a name for people
  int default_threads = 0;       // what untuned would have been
  int n_threads = 0, spins = 0;
  TunedRatio ratio;
  double noise = 0;
  int n_windows = 0;
  std::string date;
};

// The winners of one model together against the defaults.
struct TunedProof {
  std::string model_key, model, phase;  // "decode"
  int n_threads = 0;
  TunedRatio ratio;
  bool kept = false;
  std::string date;
};

struct Tuning {
  Machine machine;
  std::string version, commit, registry, date;
  std::vector<TunedEntry> entries;
  std::vector<TunedKnobs> knobs;
  std::vector<TunedProof> proofs;

  size_t n_winners() const;
};

// An empty one for this machine and build. commit: provenance only.
Tuning new_tuning(const Machine& machine, const std::string& commit, const std::string& date);
// Puts `fresh` over `old`: entries, knobs and proofs of the same key are replaced, others stay.
void merge_tuning(Tuning& old, const Tuning& fresh);

// DIR/NAME-HASH.json: machines that share a folder do not share a file.
std::string tuning_path(const std::string& dir, const Machine& machine);
std::string tuning_json(const Tuning& tuning);
// Errors: invalid_file naming `where` and the field.
Result<Tuning> parse_tuning(const std::string& text, const std::string& where);
// Why it does not hold here; empty where it does.
std::string why_stale(const Tuning& tuning, const Machine& machine);

// Errors: not_found (no file), invalid_file (damaged), unsupported (stale, or an unknown kernel). The message names the
// file and the reason.
Result<Tuning> load_tuning(const std::string& path, const Machine& machine, uint32_t isa_mask);
// Makes the folder where needed; a reader sees the old file or the whole new one.
Result<void> save_tuning(const std::string& path, const Tuning& tuning);

// The winners for a team of n_threads. An entry counts only where its fallback is what priority chooses under isa_mask:
// elsewhere (--isa) it was never raced against what it would replace.
kernels::Choices tuned_choices(const Tuning& tuning, int n_threads, uint32_t isa_mask);
// Null where there are none for this model with that many threads by default.
const TunedKnobs* tuned_knobs(const Tuning& tuning, const std::string& key, int default_threads);
// The same for models with the same work: shapes and formats of all weights.
std::string model_key(const model::Model& model);

}  // namespace quern::engine
