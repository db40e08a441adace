#include "measure/llama_bench.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace quern::measure {
namespace {

using Json = nlohmann::json;

int int_of(const Json& row, const char* field, int otherwise) {
  const auto it = row.find(field);
  return it != row.end() && it->is_number_integer() ? it->get<int>() : otherwise;
}

// A list of positive numbers; nothing where it is anything else.
std::vector<double> numbers_of(const Json& row, const char* field) {
  const auto it = row.find(field);
  std::vector<double> numbers;
  if (it == row.end() || !it->is_array()) return numbers;
  for (const Json& item : *it) {
    if (!item.is_number() || !std::isfinite(item.get<double>()) || item.get<double>() <= 0) return {};
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

std::string version_of(const Json& row) {
  const auto commit = row.find("build_commit");
  const int number = int_of(row, "build_number", 0);
  std::string version = commit != row.end() && commit->is_string() ? commit->get<std::string>() : "unknown";
  if (number > 0) version += fmt::format(" ({})", number);
  return version;
}

bool is_of(const Json& row, const SpeedTest& test) {
  const int batch = int_of(row, "n_sequences", 1), turn = int_of(row, "turn", 0);
  if (turn > 0 || test.turn > 0) return turn == test.turn;
  if (batch != test.n_batch || int_of(row, "n_gen", -1) != test.n_gen) return false;
  const int n_prompt = int_of(row, "n_prompt", -1);
  const auto depth = row.find("n_depth");
  if (depth != row.end()) return n_prompt == test.n_prompt && int_of(row, "n_depth", -1) == test.n_depth;
  // No field of depth: generation after a prompt that is not timed names the prompt's tokens n_prompt.
  return n_prompt == (test.n_gen > 0 ? test.n_depth : test.n_prompt);
}

}  // namespace

std::string SpeedTest::name() const {
  if (turn > 0) return fmt::format("ttft turn {}", turn);
  std::string text = fmt::format("{}{}", n_prompt > 0 ? "pp" : "tg", n_prompt + n_gen);
  if (n_batch > 1) text += fmt::format(" b{}", n_batch);
  if (n_depth > 0) text += fmt::format(" @ d{}", n_depth);
  return text;
}

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  const auto add = [&](char c) {
    if (!in_word) words.emplace_back();
    in_word = true;
    words.back() += c;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      add(text[++i]);
    } else if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        add(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      in_word = false;
    } else {
      add(c);
    }
  }
  if (quote != '\0')
    return Error{Status::invalid_argument, fmt::format("a quote is not closed in the command '{}'", text)};
  if (words.empty() || words[0].empty()) return Error{Status::invalid_argument, "a command names no program"};
  return words;
}

Result<Peer> peer_of_command(std::string_view text) {
  QUERN_TRY(auto words, split_command(text));
  Peer peer;
  constexpr std::string_view kVersion = "version=";
  if (words[0].rfind(kVersion, 0) == 0) {
    peer.version = words[0].substr(kVersion.size());
    words.erase(words.begin());
  }
  if (words.empty() || words[0].empty()) return Error{Status::invalid_argument, "a command names no program"};
  peer.path = std::move(words[0]);
  peer.args.assign(std::make_move_iterator(words.begin() + 1), std::make_move_iterator(words.end()));
  return peer;
}

Result<void> recognise_peer(Peer& peer, std::string_view help) {
  const auto has = [&](const char* part) { return help.find(part) != std::string_view::npos; };
  if (!has("--n-prompt") || !has("--n-gen") || !has("--repetitions"))
    return Error{Status::invalid_file, peer.path + ": not a llama-bench (its --help names other options)"};
  peer.name = has("--run-time-repack") ? "ik_llama.cpp" : "llama.cpp";
  peer.has_depth = has("--n-depth");
  return {};
}

bool can_measure(const Peer& peer, const SpeedTest& test) {
  if (test.turn > 0 || test.n_batch > 1) return false;
  return test.n_depth == 0 || peer.has_depth || test.n_gen > 0;
}

std::vector<std::string> peer_command(const Peer& peer, const std::string& model, const SpeedTest& test, int n_threads,
                                      int repetitions) {
  std::vector<std::string> command = {peer.path};
  command.insert(command.end(), peer.args.begin(), peer.args.end());
  const auto add = [&](const char* option, const std::string& value) {
    command.emplace_back(option);
    command.push_back(value);
  };
  const bool after_prompt = test.n_depth > 0 && !peer.has_depth;
  add("-m", model);
  add("-t", std::to_string(n_threads));
  add("-p", std::to_string(test.n_prompt));
  add("-n", std::to_string(after_prompt ? 0 : test.n_gen));
  if (after_prompt) add("-gp", fmt::format("{},{}", test.n_depth, test.n_gen));
  if (test.n_depth > 0 && peer.has_depth) add("-d", std::to_string(test.n_depth));
  add("-r", std::to_string(repetitions));
  add("-o", "json");
  return command;
}

Result<BenchResult> parse_bench_json(std::string_view text, const SpeedTest& test) {
  const Json rows = Json::parse(text, nullptr, false);
  if (!rows.is_array()) return Error{Status::invalid_file, "printed no JSON list"};
  for (const Json& row : rows) {
    if (!row.is_object() || !is_of(row, test)) continue;
    BenchResult result;
    result.samples = numbers_of(row, test.turn > 0 ? "samples_ms" : "samples_ts");
    if (result.samples.empty()) return Error{Status::invalid_file, "printed no speeds (samples_ts) for " + test.name()};
    result.version = version_of(row);
    result.n_threads = int_of(row, "n_threads", 0);
    const auto unsigned_of = [&](const char* field) {
      const auto it = row.find(field);
      return it != row.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
    };
    result.step_bytes = static_cast<double>(unsigned_of("step_bytes"));
    result.model_bytes = unsigned_of("model_size");
    result.n_params = unsigned_of("model_n_params");
    const auto type = row.find("model_type");
    if (type != row.end() && type->is_string()) result.model_type = type->get<std::string>();
    return result;
  }
  return Error{Status::invalid_file, "printed no result for " + test.name()};
}

std::string command_shown(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    const size_t slash = word.find_last_of('/');
    text += (text.empty() ? "" : " ") + (slash == std::string::npos ? word : word.substr(slash + 1));
  }
  return text;
}

}  // namespace quern::measure
