// How long masks take over a real vocabulary.   usage: grammar_bench MODEL.gguf [TOKENS]
// Each case is a grammar and a text of it, cut into the longest tokens. "cold" is the first run of a new constraint,
// "warm" the second; both per token, in microseconds. TOKENS: only so many of the vocabulary's first tokens.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "file/gguf.h"
#include "grammar/matcher.h"
#include "token/tokenizer.h"

namespace {

using namespace quern;
using namespace quern::grammar;

struct Case {
  const char* name;
  Result<Grammar> grammar;
  std::string text;
};

const char* const kPerson =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
"email":{"type":"string","format":"email"},"bio":{"type":"string","maxLength":400},"tags":{"type":"array","items":{"type":"string",
"maxLength":24},"maxItems":8},"role":{"enum":["admin","editor","reader"]},"born":{"type":"string","format":"date"},
"address":{"type":"object","properties":{"street":{"type":"string"},"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street"]}},
"required":["name","age","role"]})";
const char* const kPersonText =
    R"({"name": "Grace Brewster Hopper", "age": 85, "email": "grace.hopper@navy.example.org",
 "bio": "American computer scientist, mathematician and rear admiral. She was one of the first programmers of the Harvard Mark I, and a pioneer of compilers; \"COBOL\" goes back to her. Überraschend: 🐞 found a moth.",
 "tags": ["computer science", "navy", "compilers", "COBOL"], "role": "admin", "born": "1906-12-09",
 "address": {"street": "Vassar Street, Poughkeepsie", "zip": "12604"}})";
const char* const kAnyText =
    R"({"id": 17, "items": [{"sku": "A-1", "price": 3.25, "notes": "fragile, handle with care"}, {"sku": "B-22", "price": 19, "notes": null}],
 "nested": {"a": {"b": {"c": [1, 2, [3, [4]]], "text": "The quick brown fox jumps over the lazy dog."}}}, "done": true})";
const char* const kGbnf = R"(root ::= (item "\n")+
item ::= "- " word (" " word)* ("." | "!")
word ::= [A-Za-z]+ | "<" [^>]* ">" )";
const char* const kGbnfText =
    "- The quick brown fox <b class=x> jumps over the lazy dog.\n- Another line of the list with several words!\n";

std::vector<int32_t> cut(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin < text.size();) {
    int64_t node = -1;
    size_t end = begin;
    int32_t best = -1;
    for (size_t at = begin; at < text.size(); ++at) {
      node = vocabulary.trie().child(node, static_cast<uint8_t>(text[at]));
      if (node < 0) break;
      const int32_t token = vocabulary.trie().nodes()[static_cast<size_t>(node)].token;
      if (token >= 0) best = token, end = at + 1;
    }
    if (best < 0) return {};
    ids.push_back(best);
    begin = end;
  }
  return ids;
}

double us_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

bool run(Matcher& matcher, const std::vector<int32_t>& ids, std::vector<double>& masks, std::vector<double>& accepts) {
  for (const int32_t id : ids) {
    auto start = std::chrono::steady_clock::now();
    const auto mask = matcher.mask();
    masks.push_back(us_since(start));
    if (!mask.ok() || ((*mask)[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) return false;
    start = std::chrono::steady_clock::now();
    if (!matcher.accept(id).ok()) return false;
    accepts.push_back(us_since(start));
  }
  return true;
}

void report(const char* name, const char* kind, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double p) { return times[static_cast<size_t>(p * static_cast<double>(times.size() - 1))]; };
  std::printf("%-22s %-8s %5zu tokens   median %8.1f   p90 %8.1f   p99 %8.1f   max %8.1f us\n", name, kind,
              times.size(), at(0.5), at(0.9), at(0.99), at(1));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: grammar_bench MODEL.gguf [TOKENS]\n"), 2;
  const auto file = file::GgufFile::open(argv[1]);
  if (!file.ok()) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
  const auto data = token::vocab_from_gguf(*file);
  const auto tokenizer = data.ok() ? token::Tokenizer::create(*data) : data.error();
  if (!tokenizer.ok()) return std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str()), 1;
  auto start = std::chrono::steady_clock::now();
  auto vocabulary = Vocabulary::create(**tokenizer);
  if (vocabulary.ok() && argc > 2) {
    std::vector<TokenEntry> tokens;
    for (int32_t id = 0; id < std::min(std::atoi(argv[2]), static_cast<int>((*vocabulary)->size())); ++id) {
      tokens.push_back({(*vocabulary)->bytes(id), (*vocabulary)->kind(id)});
    }
    start = std::chrono::steady_clock::now();
    vocabulary = Vocabulary::create(std::move(tokens));
  }
  if (!vocabulary.ok()) return std::fprintf(stderr, "%s\n", vocabulary.error().message.c_str()), 1;
  std::printf("vocabulary: %zu tokens, %zu trie nodes, built in %.1f ms\n", (*vocabulary)->size(),
              (*vocabulary)->trie().nodes().size(), us_since(start) / 1000);
  std::string repeated = "{\"text\":\"";
  for (int i = 0; i < 60; ++i) repeated += "Some words of a long answer, number " + std::to_string(i) + ". ";
  const Function weather{
      "get_weather",
      R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]})"};
  const CallForm hermes{
      {{"<tool_call>"}, {"\n{\"name\": \""}}, {{"\", \"arguments\": "}}, {{"}\n</tool_call>"}}, {{"\n"}}};
  const CallForm tags{{{"<tool_call>"}, {"\n<function="}},
                      {{">\n"}},
                      {{"</function>\n</tool_call>"}},
                      {{"\n"}},
                      ArgumentTags{{{"<parameter="}}, {{">\n"}}, {{"\n"}}, {{"</parameter>"}, {"\n"}}}};
  ToolOptions lazy, between;
  lazy.mode = between.mode = CallMode::automatic;
  between.text_between = true;
  between.max_calls = 0;
  between.not_first = {{"<think>"}};
  Case cases[] = {
      {"person schema", Grammar::from_schema(kPerson), kPersonText},
      {"any JSON", Grammar::from_schema("true"), kAnyText},
      {"maxLength 100000",
       Grammar::from_schema(R"({"type":"object","properties":{"text":{"type":"string","maxLength":100000}}})"),
       repeated + "\"}"},
      {"pattern {1,60}",
       Grammar::from_schema(R"({"type":"array","items":{"type":"string","pattern":"^[a-z]{1,60}$"}})"),
       R"(["understanding", "internationalization", "pneumonoultramicroscopic"])"},
      {"GBNF list", Grammar::from_gbnf(kGbnf), kGbnfText},
      {"GBNF free text", Grammar::from_gbnf("root ::= .*"), repeated},
      {"tools, automatic", Grammar::from_tools({&weather, 1}, hermes, lazy),
       "Let me look that up for you.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris, "
       "France\", \"days\": 3}}\n</tool_call>"},
      {"tools, in tags", Grammar::from_tools({&weather, 1}, tags, between),
       "Let me look that up for you.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis, " + repeated +
           "\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\nIt is warm there."},
  };
  std::vector<double> all_cold, all_warm;
  for (Case& c : cases) {
    if (!c.grammar.ok()) return std::fprintf(stderr, "%s: %s\n", c.name, c.grammar.error().message.c_str()), 1;
    const auto ids = cut(**vocabulary, c.text);
    const auto constraint = Constraint::create(*c.grammar, *vocabulary);
    for (const bool warm : {false, true}) {
      auto matcher = Matcher::create(*constraint);
      std::vector<double> masks, accepts;
      if (!run(*matcher, ids, masks, accepts)) return std::fprintf(stderr, "%s: the text is refused\n", c.name), 1;
      report(c.name, warm ? "warm" : "cold", masks);
      if (!warm) report(c.name, "accept", accepts);
      auto& all = warm ? all_warm : all_cold;
      all.insert(all.end(), masks.begin(), masks.end());
    }
  }
  report("all", "cold", all_cold);
  report("all", "warm", all_warm);
}
