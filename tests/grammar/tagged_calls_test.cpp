// Calls with arguments in tags, bound by a grammar and then read: whatever was written, what is read fits the schema.
#include <random>

#include "grammar_testing.h"
#include "token/argument_types.h"
#include "token/reply.h"

namespace quern::grammar {
namespace {

using testing::bytes_and;
using testing::compiled;
using testing::matcher;
using token::CallFormat;
using token::Json;

const char* const kSchemas[] = {
    R"({"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer","minimum":3}},"required":["s"]})",
    R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"string"},"maxItems":3},"s":{"type":"string"}},"required":["l","s"]})",
    R"({"type":"object","properties":{"e":{"enum":["a","b c",1]},"o":{"type":"object","properties":{"k":{"enum":["<",2]}},"required":["k"]}},"required":["e","o"]})",
    R"({"type":"object","properties":{"r":{"$ref":"#/$defs/B"},"m":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["r","m"],"$defs":{"B":{"type":"boolean"}}})",
    R"({"type":"object","additionalProperties":{"type":"number"}})",
    R"({"type":"object"})",
};

struct Form {
  CallFormat format;
  CallForm form;
  std::vector<std::string> markers, ends;  // ends: of a value, as text
};

std::vector<Form> forms() {
  return {{CallFormat::function_tags,
           {{{"<tool_call>"}, {"\n<function="}},
            {{">\n"}},
            {{"</function>\n</tool_call>"}},
            {},
            ArgumentTags{{{"<parameter="}}, {{">\n"}}, {{"\n"}}, {{"</parameter>"}, {"\n"}}}},
           {},
           {"</parameter>", "\n</parameter>\n"}},
          {CallFormat::argument_tags,
           {{{"<tool_call>", true}},
            {{"\n"}},
            {{"</tool_call>", true}},
            {},
            ArgumentTags{{{"<arg_key>", true}},
                         {{"</arg_key>", true}, {"\n"}, {"<arg_value>", true}},
                         {},
                         {{"</arg_value>", true}, {"\n"}}}},
           {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
           {"</arg_value>"}}};
}

// A text of the grammar as pieces, or nothing where the walk takes too long.
std::vector<std::pair<std::string, bool>> random_text(Matcher m, const Form& form, std::mt19937& rng) {
  constexpr std::string_view kLikely = "\"\"]},:1 <\n</parameter>";
  const int32_t first_marker = 256, end = first_marker + static_cast<int32_t>(form.markers.size());
  std::vector<std::pair<std::string, bool>> pieces;
  for (int step = 0; step < 600; ++step) {
    const std::string& closing = form.ends[rng() % form.ends.size()];
    if (rng() % 8 == 0 && m.accept_text(closing).ok()) {
      pieces.emplace_back(closing, false);
      continue;
    }
    std::vector<int32_t> ids, likely;
    for (int32_t id = 0; id <= end; ++id) {
      const bool usable = id >= first_marker || (id < 127 && (id >= ' ' || id == '\n'));
      if (!usable || !testing::allows(m, id)) continue;
      ids.push_back(id);
      if (id >= first_marker || kLikely.find(static_cast<char>(id)) != kLikely.npos) likely.push_back(id);
    }
    const auto& from = !likely.empty() && rng() % 3 != 0 ? likely : ids;
    if (from.empty()) return {};
    const int32_t id = from[rng() % from.size()];
    if (id == end) return pieces;
    EXPECT_TRUE(m.accept(id).ok());
    const bool is_marker = id >= first_marker;
    pieces.emplace_back(
        is_marker ? form.markers[static_cast<size_t>(id - first_marker)] : std::string(1, static_cast<char>(id)),
        is_marker);
  }
  return {};
}

TEST(TaggedCalls, WhatIsReadFitsTheSchema) {
  std::mt19937 rng(5);
  for (const Form& form : forms()) {
    const auto vocabulary = bytes_and({}, form.markers);
    for (const char* schema : kSchemas) {
      const Json tools = {{{"function", {{"name", "f"}, {"parameters", Json::parse(schema)}}}}};
      const Grammar calls = compiled(Grammar::from_tools(std::vector<Function>{{"f", schema}}, form.form, {}));
      const Grammar wanted = testing::schema(schema, JsonSpace::indented);
      int n_read = 0;
      for (int round = 0; round < 60; ++round) {
        const auto pieces = random_text(matcher(calls, vocabulary), form, rng);
        if (pieces.empty()) continue;
        const bool by_token = !form.markers.empty();
        const auto parser =
            token::make_reply_parser(token::ReplyFormat::plain, nullptr, form.format, token::text_arguments(tools));
        std::string shown;
        for (const auto& [text, marker] : pieces) {
          parser->feed({text, marker || !by_token});
          shown += text;
        }
        parser->finish();
        const token::Reply& reply = parser->reply();
        ASSERT_EQ(reply.calls.size(), 1U) << shown;
        EXPECT_EQ(reply.content, "") << shown;
        EXPECT_EQ(reply.calls[0].name, "f");
        std::string arguments = reply.calls[0].arguments;
        for (size_t at = 0; (at = arguments.find("\\u003c", at)) != arguments.npos;) arguments.replace(at, 6, "<");
        EXPECT_TRUE(testing::fits(wanted, arguments)) << shown << "\n" << arguments;
        ++n_read;
      }
      EXPECT_GT(n_read, 20) << schema;
    }
  }
}

}  // namespace
}  // namespace quern::grammar
