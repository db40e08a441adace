// Random texts of schemas, and whether texts fit, for random_schemas_test.py. One JSON object a line, in and out:
//   {"schema": ..., "n": 3, "seed": 1}   ->  {"texts": ["...", null for one that was not finished]}
//   {"schema": ..., "check": ["..."]}    ->  {"fits": [true]}
// or {"error": "...", "status": "..."}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "grammar/automaton.h"
#include "grammar/grammar.h"

namespace {

using namespace quern;
using namespace quern::grammar;
using Json = nlohmann::ordered_json;

// Walks the automaton byte by byte; after a while it looks for the way out.
class Writer {
 public:
  Writer(const Grammar& grammar, uint64_t seed) : automaton_(grammar.network()), random_(seed) {}

  Json write() {
    constexpr size_t kGiveUp = 6000;
    const size_t wanted = 10 + random_() % 150;
    std::string text;
    int32_t state = automaton_.start();
    while (text.size() < kGiveUp && automaton_.limit() == RunLimit::none) {
      if (automaton_.may_end(state) && (text.size() >= wanted || random_() % 3 == 0)) return text;
      const std::vector<uint8_t> alive = possible(state);
      if (alive.empty()) return automaton_.may_end(state) ? Json(text) : Json(nullptr);
      const uint8_t byte = choose(alive, text.size() >= wanted);
      text.push_back(static_cast<char>(byte));
      state = automaton_.next(state, byte);
    }
    return nullptr;
  }

 private:
  std::vector<uint8_t> possible(int32_t state) {
    std::vector<uint8_t> alive;
    for (unsigned b = 0; b < 256; ++b) {
      if (automaton_.next(state, static_cast<uint8_t>(b)) >= 0) alive.push_back(static_cast<uint8_t>(b));
    }
    return alive;
  }
  uint8_t choose(const std::vector<uint8_t>& alive, bool closing) {
    const auto has = [&](char c) {
      return std::find(alive.begin(), alive.end(), static_cast<uint8_t>(c)) != alive.end();
    };
    if (closing && random_() % 16 != 0) {
      for (const char c : {'}', ']', '"', 'n', '1'}) {
        if (has(c)) return static_cast<uint8_t>(c);
      }
    }
    if (alive.size() > 8 && has('"') && random_() % 8 == 0) return '"';
    if (alive.size() > 40 && random_() % 4 != 0) {  // mostly letters and digits
      const uint8_t c = alive[random_() % alive.size()];
      return c < 0x80 ? c : alive[random_() % 40];
    }
    return alive[random_() % alive.size()];
  }

  Automaton automaton_;
  std::mt19937_64 random_;
};

Json answer(const Json& request) {
  SchemaOptions options;
  if (request.contains("space")) options.space = static_cast<JsonSpace>(request["space"].get<int>());
  const auto grammar = Grammar::from_schema(request["schema"].dump(), options);
  if (!grammar.ok()) return {{"error", grammar.error().message}, {"status", status_name(grammar.error().status)}};
  Json result = Json::object();
  if (request.contains("check")) {
    result["fits"] = Json::array();
    for (const Json& text : request["check"]) {
      const auto match = match_text(*grammar, text.get<std::string>());
      if (!match.ok()) return {{"error", match.error().message}, {"status", status_name(match.error().status)}};
      result["fits"].push_back(match->complete);
    }
    return result;
  }
  Writer writer(*grammar, request.value("seed", uint64_t{0}));
  result["texts"] = Json::array();
  for (int i = 0; i < request.value("n", 1); ++i) result["texts"].push_back(writer.write());
  return result;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line)).dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
  }
}
