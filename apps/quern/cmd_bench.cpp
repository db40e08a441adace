// bench: prompt and generation speed with llama-bench's meaning and field names.
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/quern/machine.h"
#include "apps/quern/session_options.h"
#include "apps/quern/version.h"
#include "file/gguf.h"
#include "model/model.h"

namespace quern::apps {
namespace {

using Json = nlohmann::ordered_json;

struct Test {
  int n_prompt = 0, n_gen = 0, n_depth = 0;
  std::string name() const {
    return fmt::format("{}{}{}", n_prompt > 0 ? "pp" : "tg", n_prompt + n_gen,
                       n_depth > 0 ? fmt::format(" @ d{}", n_depth) : "");
  }
};

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

struct Measured {
  Test test;
  int n_threads = 0;
  std::string time;            // UTC, when the test began
  std::vector<double> ns, ts;  // one a repetition
};

// "llama 134.5M Q4_1": architecture, parameters, and the format that holds most bytes.
std::string model_type(engine::Engine& engine) {
  std::map<std::string, uint64_t> bytes;
  for (const file::Tensor& tensor : engine.file().tensors()) bytes[tensor.type_name()] += tensor.bytes;
  std::string most;
  for (const auto& [name, n] : bytes) {
    if (most.empty() || n > bytes[most]) most = name;
  }
  const double params = static_cast<double>(engine.model().n_params);
  const std::string size = params >= 1e9 ? fmt::format("{:.1f}B", params / 1e9) : fmt::format("{:.1f}M", params / 1e6);
  return fmt::format("{} {} {}", engine.model().spec.arch, size, most);
}

std::vector<Test> tests_of(const Options& options) {
  std::vector<Test> tests;
  for (const int64_t depth : options.integers("n-depth")) {
    for (const int64_t n : options.integers("n-prompt")) {
      if (n > 0) tests.push_back({static_cast<int>(n), 0, static_cast<int>(depth)});
    }
    for (const int64_t n : options.integers("n-gen")) {
      if (n > 0) tests.push_back({0, static_cast<int>(n), static_cast<int>(depth)});
    }
  }
  return tests;
}

Result<double> time_once(engine::Session& session, const Test& test) {
  return test.n_prompt > 0 ? engine::time_prompt(session, test.n_prompt, test.n_depth)
                           : engine::time_decode(session, test.n_gen, test.n_depth);
}

Result<Measured> measure(engine::Engine& engine, const Test& test, const Options& options) {
  QUERN_TRY(const auto session, engine.new_session());
  if (!options.flag("no-warmup")) {
    // One token of generation warms as well as many.
    Test warmup = test;
    warmup.n_gen = std::min(test.n_gen, 1);
    QUERN_TRY([[maybe_unused]] const double untimed, time_once(*session, warmup));
  }
  Measured m{test, engine.n_threads(), "", {}, {}};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &utc));
  m.time = text;
  for (int64_t i = 0; i < options.integer("repetitions"); ++i) {
    QUERN_TRY(const double seconds, time_once(*session, test));
    m.ns.push_back(seconds * 1e9);
    m.ts.push_back((test.n_prompt + test.n_gen) / std::max(seconds, 1e-12));
  }
  return m;
}

Json to_json(engine::Engine& engine, const Measured& m, const Options& options) {
  const Sampled ns = summarise(m.ns), ts = summarise(m.ts);
  std::vector<int64_t> whole_ns;
  for (const double x : m.ns) whole_ns.push_back(std::llround(x));
  const auto gpus = find_gpus("");
  return {{"build_commit", build_commit()},
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
          {"n_threads", m.n_threads},
          {"type_k", "f16"},
          {"type_v", "f16"},
          {"n_gpu_layers", 0},
          {"n_prompt", m.test.n_prompt},
          {"n_gen", m.test.n_gen},
          {"n_depth", m.test.n_depth},
          {"test_time", m.time},
          {"avg_ns", std::llround(ns.mean)},
          {"stddev_ns", std::llround(ns.deviation)},
          {"avg_ts", ts.mean},
          {"stddev_ts", ts.deviation},
          {"samples_ns", whole_ns},
          {"samples_ts", m.ts}};
}

// Writes results one by one in the chosen form.
class Printer {
 public:
  Printer(std::string format, Output& out) : format_(std::move(format)), out_(out) {}

  void add(const Json& row) {
    if (format_ == "jsonl") out_.write(row.dump() + "\n");
    if (format_ == "json") out_.write((n_ == 0 ? "[\n" : ",\n") + row.dump(2));
    if (format_ == "csv") add_csv(row);
    if (format_ == "md") add_md(row);
    ++n_;
    out_.flush();
  }
  void end() {
    if (format_ == "json") out_.write(n_ == 0 ? "[]\n" : "\n]\n");
    if (format_ == "md") out_.write(fmt::format("\nbuild: {} ({})\n", build_commit(), build_number()));
  }

 private:
  void add_csv(const Json& row) {
    std::string names, values;
    for (const auto& [name, value] : row.items()) {
      if (value.is_array()) continue;
      std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
      names += (names.empty() ? "" : ",") + name;
      values += fmt::format("{}\"{}\"", values.empty() ? "" : ",", text);
    }
    if (n_ == 0) out_.write(names + "\n");
    out_.write(values + "\n");
  }

  void add_md(const Json& row) {
    constexpr const char* kLine = "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>15} | {:>20} |\n";
    if (n_ == 0) {
      out_.write(fmt::format(kLine, "model", "size", "params", "backend", "threads", "test", "t/s"));
      out_.write(fmt::format("| {:-<30} | {:->9}: | {:->9}: | {:-<10} | {:->6}: | {:->14}: | {:->19}: |\n", "", "", "",
                             "", "", "", ""));
    }
    const Test test{row["n_prompt"], row["n_gen"], row["n_depth"]};
    const double params = row["model_n_params"].get<double>(), bytes = row["model_size"].get<double>();
    const std::string size = bytes >= 1024.0 * 1024 * 1024 ? fmt::format("{:.2f} GiB", bytes / 1024 / 1024 / 1024)
                                                           : fmt::format("{:.2f} MiB", bytes / 1024 / 1024);
    const std::string count =
        params >= 1e9 ? fmt::format("{:.2f} B", params / 1e9) : fmt::format("{:.2f} M", params / 1e6);
    out_.write(fmt::format(
        kLine, row["model_type"].get<std::string>(), size, count, "CPU", row["n_threads"].get<int>(), test.name(),
        fmt::format("{:.2f} ± {:.2f}", row["avg_ts"].get<double>(), row["stddev_ts"].get<double>())));
  }

  std::string format_;
  Output& out_;
  int n_ = 0;
};

Result<void> bench(const Context& context, const std::vector<Test>& tests) {
  int most = 1;
  for (const Test& test : tests) most = std::max(most, test.n_depth + test.n_prompt + test.n_gen);
  Printer printer(context.options.text("output"), context.out);
  for (const int64_t n_threads : context.options.integers("threads")) {
    engine::EngineOptions options = engine_options(context);
    options.n_threads = static_cast<int>(n_threads);
    options.n_ctx = most;
    QUERN_TRY(const auto engine, load_engine(context, options));
    engine->wait_for_image();  // nothing else runs while measuring
    for (const Test& test : tests) {
      QUERN_TRY(const Measured measured, measure(*engine, test, context.options));
      printer.add(to_json(*engine, measured, context.options));
    }
  }
  printer.end();
  return {};
}

}  // namespace

int run_bench(Context& context) {
  const auto tests = tests_of(context.options);
  if (tests.empty()) return context.wrong_use("nothing to measure: -p and -n are both 0");
  const auto done = bench(context, tests);
  return done.ok() ? 0 : context.fail(done.error());
}

}  // namespace quern::apps
