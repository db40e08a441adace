// The profiler: where the time of a prompt and of generation goes, per call of the plan and per bucket, with the work
// done and how near that came to what the machine can do.
//
// A call's time is the mean over threads; what is left of a step, waiting for its slowest thread, is the bucket "wait".
// So all buckets of a phase add up to the time in which the team was inside the plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "measure/roofline.h"
#include "measure/work.h"

namespace quern::measure {

struct ProfileOptions {
  int n_prompt = 512, n_gen = 64, n_depth = 0;
  int repetitions = 3;  // timed runs of each phase; as many untimed ones tell what timing costs
  bool trace = false;
};

// Calls of one kind: of one bucket, or of one node in every layer.
struct ProfileRow {
  std::string name;
  std::string bucket;
  std::string kernel;    // "" where several
  uint64_t n_calls = 0;  // per run of the phase
  double seconds = 0;    // per run of the phase
  Work work;             // per run of the phase
};

struct Phase {
  std::string name;                 // "prefill", "decode"
  int n_tokens = 0;                 // of one run of the phase
  double wall = 0;                  // seconds of a run as the caller sees it, timed: the median
  double wall_untimed = 0;          // the same without timing
  double in_plan = 0;               // seconds inside the plan: the sum of the buckets
  std::vector<ProfileRow> buckets;  // longest first
  std::vector<ProfileRow> nodes;    // "attn_q" of all layers together; longest first
  std::vector<ProfileRow> calls;    // each call of the plan, in order
  std::string declines;             // of the plans: plan::declines_text
};

// One call or wait on one thread.
struct TraceSlice {
  int thread = 0;
  int64_t begin = 0, end = 0;  // nanoseconds
  std::string name, bucket, kernel;
  int step = 0;
};

struct Profile {
  std::string model;
  int n_threads = 0, n_depth = 0;
  uint64_t weight_bytes = 0;  // read to produce one token
  std::vector<Phase> phases;
  std::vector<TraceSlice> slices;  // the first prompt, and a few tokens
  std::optional<Roofline> roofline;
};

// Errors: whatever the session refuses (limit_exceeded where tokens do not fit the engine's context).
Result<Profile> run_profile(engine::Engine& engine, const ProfileOptions& options);

// step_bytes() (work.h) of the engine's plan for so many sequences.
uint64_t step_bytes(engine::Engine& engine, int n_sequences, int position);

// "matmul Q4_K gate_up", "attention", "norms+quantize", "rope+kv", "elementwise", "embed", "repack".
std::string bucket_of(const plan::Call& call);

// The part of the roofline that a row reached, 0 to 1: the time that its bytes and multiply-adds need at the measured
// rates over the time it took. Weights, keys and values come from where the model's weights lie, activations from a
// cache. Nothing where it does no work.
std::optional<double> roofline_part(const ProfileRow& row, const Profile& profile);

std::string profile_markdown(const Profile& profile);
std::string profile_json(const Profile& profile);
// Trace events as chrome://tracing and Perfetto read them: one lane a thread, one slice a call or wait.
std::string trace_json(const Profile& profile);

}  // namespace quern::measure
