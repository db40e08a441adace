// What llama-bench and its forks take and print, as far as `quern bench --against` needs it. Running it is the
// caller's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern::measure {

// One test of speed. Exactly one of n_prompt, n_gen and turn is positive.
struct SpeedTest {
  int n_prompt = 0;  // evaluate a prompt of so many tokens
  int n_gen = 0;     // generate so many tokens, in each of n_batch sequences together
  int n_depth = 0;   // tokens already in the context
  int n_batch = 1;
  int turn = 0;         // time to the first token of this turn of a chat, from 1 on,
  int turn_tokens = 0;  // where each turn adds so many tokens

  // "pp512", "tg128 b4 @ d4096", "ttft turn 2"
  std::string name() const;
  const char* unit() const { return turn > 0 ? "ms" : "t/s"; }
};

// A peer's program as its help text shows it.
struct Peer {
  std::string name;  // "llama.cpp" or "ik_llama.cpp"
  std::string path;
  std::string version;            // as the user says; "" where he does not
  std::vector<std::string> args;  // given by the user, before ours
  bool has_depth = false;         // -d; ik_llama.cpp has -gp instead, which measures generation only
};
// A command line of words: blanks separate; '...' and "..." hold words together, \ takes the next character as it is.
// Errors: invalid_argument for an open quote or no word.
Result<std::vector<std::string>> split_command(std::string_view text);
// "[version=TEXT] PROGRAM [ARGUMENT...]"; the version is for builds that do not know their own. Errors:
// invalid_argument for an open quote or no program.
Result<Peer> peer_of_command(std::string_view text);
// Fills in what the program's help text tells. Errors: invalid_file where it is not llama-bench's.
Result<void> recognise_peer(Peer& peer, std::string_view help);

// Whether the peer can measure the test at all (batches and turns it cannot).
bool can_measure(const Peer& peer, const SpeedTest& test);
std::vector<std::string> peer_command(const Peer& peer, const std::string& model, const SpeedTest& test, int n_threads,
                                      int repetitions);

struct BenchResult {
  std::vector<double> samples;  // tokens per second (or ms, as the test's unit), one a repetition
  std::string version;          // build_commit, with build_number where it is known
  double step_bytes = 0;        // ours only: weights, keys and values read per step of generation; else 0
  int n_threads = 0;
  std::string model_type;
  uint64_t model_bytes = 0, n_params = 0;  // of its weights
};
// The result of `test` in the JSON list that -o json prints, ours or a peer's. Errors: invalid_file, saying what is
// missing.
Result<BenchResult> parse_bench_json(std::string_view text, const SpeedTest& test);

// For records: the words with folders cut off, so that no path of a machine is in them.
std::string command_shown(const std::vector<std::string>& command);

}  // namespace quern::measure
