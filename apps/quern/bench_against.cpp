#include "apps/quern/bench_against.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "apps/models/process.h"
#include "apps/quern/bench_compared.h"
#include "apps/quern/bench_record.h"
#include "apps/quern/inputs.h"
#include "apps/quern/version.h"
#include "base/topology.h"
#include "measure/paired.h"
#include "measure/record.h"
#include "measure/roofline.h"

namespace quern::apps {
namespace {

using measure::BenchResult;
using measure::Peer;
using measure::SpeedTest;

// The last line of what a program said before it failed.
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of("\r\n ");
  if (end == std::string::npos) return "no message";
  const size_t begin = text.find_last_of("\r\n", end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

Result<std::string> output_of(const std::vector<std::string>& command) {
  QUERN_TRY(Captured done, capture_program(command));
  if (done.status != 0) {
    return Error{Status::io_error,
                 fmt::format("{} failed with status {}: {}", command[0], done.status, last_line(done.err))};
  }
  return std::move(done.out);
}

Result<std::vector<Peer>> peers_of(const Options& options) {
  std::vector<Peer> peers;
  for (const std::string& text : options.texts("against")) {
    QUERN_TRY(Peer peer, measure::peer_of_command(text));
    QUERN_TRY(const Captured help, capture_program({peer.path, "--help"}));
    QUERN_TRY_VOID(measure::recognise_peer(peer, help.out + help.err));
    peers.push_back(std::move(peer));
  }
  return peers;
}

// The turns of one player in one group of tests.
struct Player {
  const Peer* peer = nullptr;  // null: ours
  std::vector<std::string> command;
  std::vector<std::vector<BenchResult>> turns;  // [round][test of the group]
};

class Alternation {
 public:
  Alternation(const Context& context, std::vector<Peer> peers, std::string model, Topology topology)
      : context_(context),
        options_(context.options),
        peers_(std::move(peers)),
        model_path_(std::move(model)),
        topology_(std::move(topology)),
        box_(this_box(topology_)) {}

  Result<void> run(const std::vector<TestGroup>& groups) {
    if (options_.given("record")) {
      // A file that cannot be added to is an error now, not after an hour.
      record_path_ = record_path(options_.text("record"), box_);
      QUERN_TRY([[maybe_unused]] const auto records, measure::Records::open(record_path_, box_));
      QUERN_TRY(model_, recorded_model(model_path_));
    } else {
      model_.file = std::filesystem::path(model_path_).filename().string();
    }
    rounds_ = peers_.empty() && !options_.given("rounds") ? 1 : static_cast<int>(options_.integer("rounds"));
    ComparisonPrinter printer(options_.text("output"), context_.out);
    for (const int64_t wanted : options_.integers("threads")) {
      n_threads_ = wanted > 0 ? static_cast<int>(wanted) : default_threads(topology_);
      dram_.reset();
      for (const TestGroup& group : groups) {
        QUERN_TRY(const auto runs, measure_group(group));
        for (const measure::RecordedRun& one : runs) printer.add(one);
        for (const Peer& peer : peers_) {
          if (!measure::can_measure(peer, group.front()))
            printer.note(fmt::format("{}: {} has no such test", group.front().name(), peer.name));
        }
        QUERN_TRY_VOID(record(runs));
      }
    }
    printer.end();
    return {};
  }

 private:
  std::vector<std::string> own_command(const TestGroup& group) const {
    const SpeedTest& test = group.front();
    std::vector<std::string> command = {own_path(), "bench", "-m", model_path_, "-t", std::to_string(n_threads_)};
    const auto add = [&](const char* option, const std::string& value) {
      command.emplace_back(option);
      command.push_back(value);
    };
    add("-p", std::to_string(test.n_prompt));
    add("-n", std::to_string(test.n_gen));
    if (test.n_depth > 0) add("-d", std::to_string(test.n_depth));
    if (test.n_batch > 1) add("-b", std::to_string(test.n_batch));
    if (test.turn > 0) {
      add("--turns", std::to_string(group.size()));
      add("--turn-tokens", std::to_string(test.turn_tokens));
    }
    add("-r", std::to_string(options_.integer("repetitions")));
    add("-o", "json");
    if (options_.given("chunk")) add("--chunk", std::to_string(options_.integer("chunk")));
    for (const char* name : {"isa", "image", "tune", "cache"}) {
      if (options_.given(name)) add((std::string("--") + name).c_str(), options_.text(name));
    }
    for (const std::string& fusion : options_.texts("no-fuse")) add("--no-fuse", fusion);
    if (options_.flag("no-warmup")) command.emplace_back("--no-warmup");
    return command;
  }

  static std::string own_path() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "quern" : path.string();
  }

  Result<void> take_turn(Player& player, const TestGroup& group, int round) {
    if (n_turns_++ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(options_.real("cool-down")));
    const bool generates = group.front().n_gen > 0;
    if (generates) {
      if (!dram_) {
        QUERN_TRY(dram_, measure::DramProbe::create(detect_cpu().best, n_threads_, topology_));
      }
      dram_rates_.push_back(dram_->read() / 1e9);
    }
    const measure::CpuTicks before = measure::read_cpu_ticks();
    QUERN_TRY(const std::string text, output_of(player.command));
    const measure::CpuTicks after = measure::read_cpu_ticks();
    spent_.total += after.total - before.total;
    spent_.steal += after.steal - before.steal;
    std::vector<BenchResult> results;
    for (const SpeedTest& test : group) {
      auto result = measure::parse_bench_json(text, test);
      if (!result.ok()) return Error{result.error().status, player.command[0] + ": " + result.error().message};
      results.push_back(*std::move(result));
    }
    if (options_.flag("verbose")) {
      context_.notice(fmt::format("round {}: {}: {} {:.2f} {}", round + 1,
                                  player.peer != nullptr ? player.peer->name : "quern", group.back().name(),
                                  measure::median(results.back().samples), group.back().unit()));
    }
    player.turns.push_back(std::move(results));
    return {};
  }

  Result<std::vector<measure::RecordedRun>> measure_group(const TestGroup& group) {
    std::vector<Player> players;
    players.push_back({nullptr, own_command(group), {}});
    for (const Peer& peer : peers_) {
      if (!measure::can_measure(peer, group.front())) continue;
      auto command = measure::peer_command(peer, model_path_, group.front(), n_threads_,
                                           static_cast<int>(options_.integer("repetitions")));
      players.push_back({&peer, std::move(command), {}});
    }
    spent_ = {};
    dram_rates_.clear();
    for (int round = 0; round < rounds_; ++round) {
      for (const int i : measure::turn_order(round, static_cast<int>(players.size())))
        QUERN_TRY_VOID(take_turn(players[static_cast<size_t>(i)], group, round));
    }
    std::vector<measure::RecordedRun> runs;
    for (size_t t = 0; t < group.size(); ++t) {
      for (size_t i = players.size() > 1 ? 1 : 0; i < players.size(); ++i) {
        QUERN_TRY(measure::RecordedRun run, run_of(group[t], t, players[0], players[i]));
        runs.push_back(std::move(run));
      }
    }
    return runs;
  }

  static measure::Samples samples_of(const Player& player, size_t test, std::vector<double>& medians) {
    measure::Samples samples;
    for (const auto& turn : player.turns) {
      samples.samples.insert(samples.samples.end(), turn[test].samples.begin(), turn[test].samples.end());
      medians.push_back(measure::median(turn[test].samples));
    }
    samples.version = player.turns.front()[test].version;
    samples.command = measure::command_shown(player.command);
    if (player.peer != nullptr) {
      samples.name = player.peer->name;
      if (!player.peer->version.empty()) samples.version = player.peer->version;
    }
    return samples;
  }

  // `theirs` is ours where no peer took part.
  Result<measure::RecordedRun> run_of(const SpeedTest& test, size_t index, const Player& ours, const Player& theirs) {
    const BenchResult& first = ours.turns.front()[index];
    model_.type = first.model_type;
    model_.weight_bytes = first.model_bytes;
    model_.n_params = first.n_params;
    measure::RecordedRun run;
    run.date = measure::date_now();
    run.test = test.name();
    run.unit = test.unit();
    run.threads = n_threads_;
    run.model = model_;
    std::vector<double> own_medians, peer_medians;
    run.quern = samples_of(ours, index, own_medians);
    run.quern.version = build_version();
    run.quern.commit = build_commit();
    if (theirs.peer != nullptr) {
      run.peer = samples_of(theirs, index, peer_medians);
      QUERN_TRY(run.ratio, measure::paired_ratio(own_medians, peer_medians));
    }
    run.steal = measure::steal_between({}, spent_);
    if (!dram_rates_.empty()) run.dram_gb_s = measure::median(dram_rates_);
    if (first.step_bytes > 0)
      run.decode_gb_s = measure::median(run.quern.samples) / test.n_batch * first.step_bytes / 1e9;
    run.note = options_.text("note");
    return run;
  }

  // Opened anew for each group, so that what is measured is kept whatever comes, and other writers are seen.
  Result<void> record(const std::vector<measure::RecordedRun>& runs) const {
    if (record_path_.empty()) return {};
    QUERN_TRY(measure::Records records, measure::Records::open(record_path_, box_));
    for (const measure::RecordedRun& run : runs) records.add(run);
    return records.save();
  }

  const Context& context_;
  const Options& options_;
  std::vector<Peer> peers_;
  std::string model_path_;
  Topology topology_;
  measure::Box box_;
  std::string record_path_;
  measure::RecordedModel model_;
  int rounds_ = 1, n_threads_ = 1, n_turns_ = 0;
  std::optional<measure::DramProbe> dram_;
  std::vector<double> dram_rates_;  // before each turn of the group, GB/s
  measure::CpuTicks spent_;         // within turns of the group
};

}  // namespace

Result<void> bench_against(const Context& context, const std::vector<TestGroup>& groups) {
  QUERN_TRY(std::vector<Peer> peers, peers_of(context.options));
  QUERN_TRY(std::string model, find_model(context, context.options.text("model")));
  return Alternation(context, std::move(peers), std::move(model), detect_topology()).run(groups);
}

}  // namespace quern::apps
