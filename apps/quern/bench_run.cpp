#include "apps/quern/bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/quern/machine.h"
#include "apps/quern/version.h"
#include "file/gguf.h"
#include "measure/profile.h"
#include "measure/record.h"
#include "model/model.h"

namespace quern::apps {
namespace {

using Json = nlohmann::ordered_json;
using measure::SpeedTest;

struct Sampled {
  double mean = 0, deviation = 0;  // of the sample (n - 1)
};

Sampled summarise(const std::vector<double>& samples) {
  Sampled s;
  for (const double x : samples) s.mean += x / static_cast<double>(samples.size());
  if (samples.size() < 2) return s;
  double squares = 0;
  for (const double x : samples) squares += (x - s.mean) * (x - s.mean);
  s.deviation = std::sqrt(squares / static_cast<double>(samples.size() - 1));
  return s;
}

int tokens_of(const SpeedTest& test) {
  return test.turn > 0 ? test.turn_tokens : test.n_prompt + test.n_gen * test.n_batch;
}

// Seconds of each test of the group.
Result<std::vector<double>> time_once(engine::Engine& engine, engine::Session& session, const TestGroup& group,
                                      bool warmup) {
  const SpeedTest& test = group.front();
  if (test.turn > 0) return engine::time_turns(session, warmup ? 1 : static_cast<int>(group.size()), test.turn_tokens);
  const int n_gen = warmup ? std::min(test.n_gen, 1) : test.n_gen;  // one token warms as well as many
  auto seconds = test.n_prompt > 0  ? engine::time_prompt(session, test.n_prompt, test.n_depth)
                 : test.n_batch > 1 ? engine::time_batch(engine, test.n_batch, n_gen, test.n_depth)
                                    : engine::time_decode(session, n_gen, test.n_depth);
  if (!seconds.ok()) return seconds.error();
  return std::vector<double>{*seconds};
}

// Bytes of weights, keys and values that a step of generation reads in the middle of the test; 0 where none is made.
uint64_t step_bytes_of(engine::Engine& engine, const SpeedTest& test) {
  if (test.n_gen == 0) return 0;
  return measure::step_bytes(engine, test.n_batch, test.n_depth + test.n_gen / 2);
}

// "llama 134.5M Q4_1": architecture, parameters, and the format that holds most bytes.
std::string model_type(engine::Engine& engine) {
  std::map<std::string, uint64_t> bytes;
  for (const file::Tensor& tensor : engine.file().tensors()) bytes[tensor.type_name()] += tensor.bytes;
  std::string most;
  for (const auto& [name, n] : bytes) {
    if (most.empty() || n > bytes[most]) most = name;
  }
  const auto params = static_cast<double>(engine.model().n_params);
  const std::string size = params >= 1e9 ? fmt::format("{:.1f}B", params / 1e9) : fmt::format("{:.1f}M", params / 1e6);
  return fmt::format("{} {} {}", engine.model().spec.arch, size, most);
}

}  // namespace

std::vector<TestGroup> test_groups(const Options& options) {
  std::vector<TestGroup> groups;
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  for (const int64_t depth : options.integers("n-depth")) {
    for (const int64_t n : options.integers("n-prompt")) {
      if (n > 0) groups.push_back({{.n_prompt = number(n), .n_depth = number(depth)}});
    }
    for (const int64_t n : options.integers("n-gen")) {
      for (const int64_t batch : options.integers("batch")) {
        if (n > 0) groups.push_back({{.n_gen = number(n), .n_depth = number(depth), .n_batch = number(batch)}});
      }
    }
  }
  TestGroup turns;
  for (int turn = 1; turn <= options.integer("turns"); ++turn)
    turns.push_back({.turn = turn, .turn_tokens = number(options.integer("turn-tokens"))});
  if (!turns.empty()) groups.push_back(std::move(turns));
  return groups;
}

int context_of(const std::vector<TestGroup>& groups) {
  int most = 1;
  for (const TestGroup& group : groups) {
    for (const SpeedTest& test : group)
      most = std::max(most, test.turn * test.turn_tokens + test.n_depth + test.n_prompt + test.n_gen);
  }
  return most;
}

std::vector<double> TimedTest::speeds() const {
  std::vector<double> speeds;
  for (const double s : seconds) speeds.push_back(test.turn > 0 ? s * 1e3 : tokens_of(test) / std::max(s, 1e-12));
  return speeds;
}

Result<std::vector<TimedTest>> time_group(engine::Engine& engine, const TestGroup& group, const Options& options) {
  QUERN_TRY(const auto session, engine.new_session());
  if (!options.flag("no-warmup")) {
    QUERN_TRY([[maybe_unused]] const auto untimed, time_once(engine, *session, group, true));
  }
  std::vector<TimedTest> timed;
  for (const SpeedTest& test : group) timed.push_back({test, measure::date_now(), {}});
  for (int64_t i = 0; i < options.integer("repetitions"); ++i) {
    QUERN_TRY(const auto seconds, time_once(engine, *session, group, false));
    for (size_t t = 0; t < timed.size(); ++t) timed[t].seconds.push_back(seconds[t]);
  }
  return timed;
}

Json bench_json(engine::Engine& engine, const TimedTest& timed, const Options& options) {
  const SpeedTest& test = timed.test;
  std::vector<double> whole_ns, ms, per_second;
  for (const double s : timed.seconds) {
    whole_ns.push_back(std::round(s * 1e9));
    ms.push_back(s * 1e3);
    per_second.push_back(tokens_of(test) / std::max(s, 1e-12));
  }
  const Sampled ns = summarise(whole_ns), ts = summarise(per_second);
  const auto gpus = find_gpus("");
  Json row = {{"build_commit", build_commit()},
              {"build_number", build_number()},
              {"cpu_info", detect_cpu().name},
              {"gpu_info", gpus.empty() ? "" : gpus.front()},
              {"backends", "CPU"},
              {"isa", isa_name(engine.isa())},
              {"model_filename", engine.file().path()},
              {"model_type", model_type(engine)},
              {"model_size", engine.model().weight_bytes},
              {"model_n_params", engine.model().n_params},
              {"n_batch", options.integer("chunk")},
              {"n_ubatch", options.integer("chunk")},
              {"n_threads", engine.n_threads()},
              {"type_k", "f16"},
              {"type_v", "f16"},
              {"n_gpu_layers", 0},
              {"n_prompt", test.turn > 0 ? test.turn_tokens : test.n_prompt},
              {"n_gen", test.n_gen},
              {"n_depth", test.turn > 0 ? (test.turn - 1) * test.turn_tokens : test.n_depth},
              {"n_sequences", test.n_batch},
              {"turn", test.turn},
              {"test", test.name()},
              {"step_bytes", step_bytes_of(engine, test)},
              {"test_time", timed.date},
              {"avg_ns", std::llround(ns.mean)},
              {"stddev_ns", std::llround(ns.deviation)},
              {"avg_ts", ts.mean},
              {"stddev_ts", ts.deviation}};
  row["samples_ns"] = Json::array();
  for (const double x : whole_ns) row["samples_ns"].push_back(std::llround(x));
  row["samples_ts"] = per_second;
  if (test.turn > 0) row["samples_ms"] = ms;
  return row;
}

}  // namespace quern::apps
