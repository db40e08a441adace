// Tool calls in answers: every family's form, malformed ones, cut in every way.
#include <random>
#include <tuple>

#include "reply_testing.h"
#include "token/argument_types.h"
#include "token/chat.h"
#include "token/reply_calls.h"
#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using testing::read_reply;
using testing::shown;

struct Row {
  const char *text, *reply;
};

const char* const kWeather = R"({"city": "Oslo", "days": 2})";

// Schemas of the functions in these tests: n is a number, l a list, s or whatever else text.
TextArguments types() {
  return [](std::string_view, std::string_view key) { return key != "n" && key != "l"; };
}

std::string read(CallFormat calls, std::string_view text, ReplyFormat format = ReplyFormat::plain) {
  return shown(read_reply(format, text, 0, nullptr, calls, types()));
}

TEST(ReplyCalls, TheTemplateTellsTheForm) {
  EXPECT_EQ(call_format_of("<tool_call>\n{{ c | tojson }}\n</tool_call>"), CallFormat::tagged_json);
  EXPECT_EQ(call_format_of("<tool_call>\n<function={{ name }}>"), CallFormat::function_tags);
  EXPECT_EQ(call_format_of("<tool_call>{{ name }}\n<arg_key>"), CallFormat::argument_tags);
  EXPECT_EQ(call_format_of("<function={{ name }}>{{ arguments }}</function>"), CallFormat::none);
  EXPECT_EQ(call_format_of("[TOOL_CALLS][{{ c }}]"), CallFormat::mistral);
  EXPECT_EQ(call_format_of(R"(<|python_tag|>{"name": "x", "parameters": {{ a }}})"), CallFormat::bare_json);
  EXPECT_EQ(call_format_of("<|tool_call>call:{{ name }}<tool_call|>"), CallFormat::gemma);
  EXPECT_EQ(call_format_of("{{ messages[0].content }}"), CallFormat::none);
}

TEST(ReplyCalls, WithoutToolsEverythingIsText) {
  EXPECT_EQ(read(CallFormat::none, R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)"),
            R"(content:<tool_call>{"name": "f", "arguments": {}}</tool_call>)");
}

TEST(ReplyCalls, InTags) {
  const Row rows[] = {
      {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", R"(call f:{"a": 1})"},
      {"Well.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}"
       "</tool_call>\n",
       "content:Well.\n|call f:{}|call g:{}"},
      {"<tool_call>{\"arguments\": {\"a\": [1, {\"b\": \"}\"}]}, \"name\": \"f\"}</tool_call>",
       R"(call f:{"a": [1, {"b": "}"}]})"},
      {"<tool_call>{\"name\": \"f\"}</tool_call>", "call f:{}"},
      {"<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "call f:{}"},
      {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", R"(call f:{"a": 1})"},
      {"<tool_call>{\"name\": \"f\", \"parameters\": {}, \"id\": 7}</tool_call>", "call f:{}"},
      {"<tool_call>{\"name\": \"a\\u0062c\", \"arguments\": {}}</tool_call>", "call abc:{}"},
      {"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
       "call f:{}|call g:{}"},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n\nDone.", "content:\n\nDone.|call f:{}"},
      // Cut off: what is known of the call stays, and what is not even a call is text.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", "call f:{\"a\": "},
      {"<tool_call>{\"name\": \"f", "content:<tool_call>{\"name\": \"f"},
      // Not closed before the next.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}}<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
       "call f:{}|call g:{}"},
      // Malformed: text, whole.
      {"<tool_call>f(1)</tool_call>", "content:<tool_call>f(1)</tool_call>"},
      {"<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
       "content:<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>"},
      {"<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
       "content:<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"},
      {"<tool_call>{\"arguments\": {}}</tool_call>", "content:<tool_call>{\"arguments\": {}}</tool_call>"},
      {"<tool_call>{name: \"f\"}</tool_call>", "content:<tool_call>{name: \"f\"}</tool_call>"},
      {"<tool_call></tool_call>", "content:<tool_call></tool_call>"},
      {"a</tool_call>b", "content:a</tool_call>b"},
      // Tags in a string are text; a brace that is missing ends with the tag.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>",
       "call f:{\"a\": \"</tool_call>\"}"},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}</tool_call>b", "content:b|call f:{}"},
      // One brace too many is a common slip.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>", "content:}|call f:{}"},
      {"```json\n{\"name\": \"f\", \"arguments\": {}}\n```",
       "content:```json\n{\"name\": \"f\", \"arguments\": {}}\n```"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(CallFormat::tagged_json, row.text), row.reply) << row.text;
}

TEST(ReplyCalls, BehindReasoning) {
  const char* text =
      "<think>\n<tool_call>{}</tool_call>?\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}"
      "\n</tool_call>";
  EXPECT_EQ(read(CallFormat::tagged_json, text, ReplyFormat::think), "reasoning:<tool_call>{}</tool_call>?|call f:{}");
}

TEST(ReplyCalls, Bare) {
  const Row rows[] = {
      {R"({"name": "f", "parameters": {"a": "x"}})", R"(call f:{"a": "x"})"},
      {"\n<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}", "call f:{}"},
      {R"({"name": "f", "parameters": {}}; {"name": "g", "parameters": {}})", "call f:{}|call g:{}"},
      // Other JSON is an answer.
      {R"({"name": "Ada", "age": 36})", R"(content:{"name": "Ada", "age": 36})"},
      {R"({"name": "Ada"})", R"(content:{"name": "Ada"})"},
      {R"({"a": {"name": "f", "parameters": {}}})", R"(content:{"a": {"name": "f", "parameters": {}}})"},
      {R"([{"name": "f", "parameters": {}}])", R"(content:[{"name": "f", "parameters": {}}])"},
      {"The call {\"name\": \"f\", \"parameters\": {}}", "content:The call {\"name\": \"f\", \"parameters\": {}}"},
      {"<|python_tag|>print(1)", "content:print(1)"},
      {R"({"name": "f", "parameters": {}} is it.)", "content:is it.|call f:{}"},
      {R"({"name": "f)", R"(content:{"name": "f)"},
      {"{", "content:{"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(CallFormat::bare_json, row.text), row.reply) << row.text;
}

TEST(ReplyCalls, Mistral) {
  const Row rows[] = {
      {R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}])", R"(call f:{"a": 1})"},
      {R"([TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "abc123def"}, {"name": "g", "arguments": {}}])",
       "call f:{}|call g:{}"},
      {R"([TOOL_CALLS]f[ARGS]{"a": {"b": "}"}})", R"(call f:{"a": {"b": "}"}})"},
      {"[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]g[ARGS]{}", "call f:{}|call g:{}"},
      {R"([TOOL_CALLS]f{"a": 1})", R"(call f:{"a": 1})"},
      {"Yes.[TOOL_CALLS]f[ARGS]{} ", "content:Yes.|call f:{}"},
      {"[TOOL_CALLS]f[ARGS]{\"a\": ", "call f:{\"a\": "},
      {"[TOOL_CALLS]what is this[ARGS]", "content:[TOOL_CALLS]what is this[ARGS]"},
      {"[TOOL_CALLS]", "content:[TOOL_CALLS]"},
      {"[TOOL_CALLS][]", "content:[TOOL_CALLS][]"},
      {R"([TOOL_CALLS][{"name": "f"}])", "call f:{}"},
      {R"([TOOL_CALLS][1])", "content:[TOOL_CALLS][1]"},
      {"a [ARGS] b", "content:a [ARGS] b"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(CallFormat::mistral, row.text), row.reply) << row.text;
}

TEST(ReplyCalls, Gemma) {
  const Row rows[] = {
      {"<|tool_call>call:f{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|>", R"(call f:{"city":"Oslo","days":2})"},
      {"<|tool_call>call:f{}<tool_call|><|tool_call>call:g{}<tool_call|>", "call f:{}|call g:{}"},
      {"<|tool_call>call:f{a:<|\"|>{\"x\": 1}, y:<|\"|>}<tool_call|>", R"(call f:{"a":"{\"x\": 1}, y:"})"},
      {"<|tool_call>call:f{a:{b:[1,-2.5,true,null,<|\"|>c<|\"|>]}, <|\"|>d e<|\"|>: \"f\"}<tool_call|>",
       R"(call f:{"a":{"b":[1,-2.5,true,null,"c"]},"d e":"f"})"},
      {"<|tool_call>call:f{a:some words}<tool_call|>", R"(call f:{"a":"some words"})"},
      {"<|tool_call>call:mcp:f{}<tool_call|>", "call mcp:f:{}"},
      {"Yes.<|tool_call>call:f{}<tool_call|>\n", "content:Yes.|call f:{}"},
      {"<|tool_call>call:f{a:<|\"|>b}<tool_call|>", "content:<|tool_call>call:f{a:<|\"|>b}<tool_call|>"},
      {"<|tool_call>call:f{a}<tool_call|>", "content:<|tool_call>call:f{a}<tool_call|>"},
      {"<|tool_call>f{}<tool_call|>", "content:<|tool_call>f{}<tool_call|>"},
      {"<|tool_call>call:f{", "content:<|tool_call>call:f{"},
      {"a <tool_call|> b", "content:a <tool_call|> b"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(CallFormat::gemma, row.text), row.reply) << row.text;
  EXPECT_EQ(gemma_arguments("{" + std::string(200, '[') + "}"), "");
  std::string deep = "{a:";
  for (int i = 0; i < 100; ++i) deep += "{a:";
  EXPECT_EQ(gemma_arguments(deep + "1" + std::string(101, '}')), "");
}

TEST(ReplyCalls, FunctionTags) {
  const Row rows[] = {
      {"<tool_call>\n<function=f>\n<parameter=s>\nOslo\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n"
       "</tool_call>",
       R"(call f:{"s": "Oslo", "n": 2})"},
      {"I look.\n<tool_call><function=f><parameter=s>Oslo</parameter></function></tool_call>\n<tool_call>\n<function=g>"
       "\n</function>\n</tool_call>\n",
       "content:I look.\n|call f:{\"s\": \"Oslo\"}|call g:{}"},
      // Text as it stands: one line break on either side is the form's.
      {"<tool_call><function=f><parameter=s>\n\n a \"b\"\\\n\tc\n\n</parameter></function></tool_call>",
       R"(call f:{"s": "\n a \"b\"\\\n\tc\n"})"},
      {"<tool_call><function=f><parameter=s>\n</parameter></function></tool_call>", R"(call f:{"s": ""})"},
      {"<tool_call><function=f><parameter=s>\n\n</parameter></function></tool_call>", R"(call f:{"s": ""})"},
      {"<tool_call><function=f><parameter=s>7</parameter></function></tool_call>", R"(call f:{"s": "7"})"},
      {"<tool_call><function=f><parameter=s></para</parameter></function></tool_call>", R"(call f:{"s": "</para"})"},
      {"<tool_call><function=f><parameter=s>\n<tool_call></tool_call></function>\n</parameter></function></tool_call>",
       R"(call f:{"s": "<tool_call></tool_call></function>"})"},
      {"<tool_call><function=f><parameter=a b\">é\x01</parameter></function></tool_call>",
       R"(call f:{"a b\"": "é\u0001"})"},
      // Other types: JSON, as it stands; and what is none is a string.
      {"<tool_call><function=f><parameter=l>\n[1, {\"a\":  \"b\"}]\n</parameter></function></tool_call>",
       R"(call f:{"l": [1, {"a":  "b"}]})"},
      {"<tool_call><function=f><parameter=n>1.50</parameter><parameter=l>\"q\"</parameter></function></tool_call>",
       R"(call f:{"n": 1.50, "l": "q"})"},
      {"<tool_call><function=f><parameter=n>True</parameter><parameter=l>None</parameter></function></tool_call>",
       R"(call f:{"n": true, "l": null})"},
      {"<tool_call><function=f><parameter=n>\nabout "
       "two\n</parameter><parameter=l>[1</parameter></function></tool_call>",
       R"(call f:{"n": "about two", "l": "[1"})"},
      {"<tool_call><function=f><parameter=n></parameter></function></tool_call>", R"(call f:{"n": ""})"},
      // Two in one pair of tags; a function that is not closed.
      {"<tool_call><function=f></function>\n<function=g></function></tool_call>", "call f:{}|call g:{}"},
      {"<tool_call><function=f><parameter=s>a</parameter></tool_call>b", "content:b|call f:{\"s\": \"a\"}"},
      // Cut off: what is known of the call stays, and what is not even a call is text.
      {"<tool_call><function=f><parameter=s>\nOsl", "call f:{\"s\": \"Osl"},
      {"<tool_call><function=f><parameter=n>\n12", "call f:{\"n\": "},
      {"<tool_call><function=f>\n<parameter=s", "content:<tool_call><function=f>\n<parameter=s"},
      // Malformed: text, whole, or from where a call goes wrong.
      {"<tool_call>f(1)</tool_call>", "content:<tool_call>f(1)</tool_call>"},
      {"<tool_call>{\"name\": \"f\"}</tool_call>", "content:<tool_call>{\"name\": \"f\"}</tool_call>"},
      {"<tool_call></tool_call>", "content:<tool_call></tool_call>"},
      {"<tool_call><function=a b></function></tool_call>", "content:<tool_call><function=a b></function></tool_call>"},
      {"<tool_call><function=></function></tool_call>", "content:<tool_call><function=></function></tool_call>"},
      {"<tool_call><function=f><parameter=>1</parameter></function></tool_call>",
       "content:<tool_call><function=f><parameter=>1</parameter></function></tool_call>"},
      {"<tool_call><function=f>what</function></tool_call>",
       "content:<tool_call><function=f>what</function></tool_call>"},
      {"<tool_call><function=f><parameter=s>a</parameter><par?</function></tool_call>",
       "content:<par?</function>|call f:{\"s\": \"a\""},
      {"<function=f></function>", "content:<function=f></function>"},
      {"a</tool_call>b", "content:a</tool_call>b"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(CallFormat::function_tags, row.text), row.reply) << row.text;
}

TEST(ReplyCalls, ArgumentTags) {
  const Row rows[] = {
      {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>n</arg_key>\n<arg_value>2</"
       "arg_value>\n"
       "</tool_call>",
       R"(call f:{"s": "Oslo", "n": 2})"},
      {"Well.\n<tool_call>f\n</tool_call>\n<tool_call>g<arg_key>s</arg_key><arg_value>a</arg_value></tool_call>",
       "content:Well.\n|call f:{}|call g:{\"s\": \"a\"}"},
      {"<tool_call>f</tool_call>", "call f:{}"},
      // All of a text counts, line breaks too.
      {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>\n<b>\n</arg_value></tool_call>", R"(call f:{"s": "\n<b>\n"})"},
      {"<tool_call>f\n<arg_key>l</arg_key>\n<arg_value>{\"a\": [1]}</arg_value></tool_call>",
       R"(call f:{"l": {"a": [1]}})"},
      {"<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>many</arg_value></tool_call>", R"(call f:{"n": "many"})"},
      {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value><arg_key></tool_call></arg_value></tool_call>",
       R"(call f:{"s": "<arg_key></tool_call>"})"},
      {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>Osl", "call f:{\"s\": \"Osl"},
      {"<tool_call>f\n<arg_key>s</arg_key>", "content:<tool_call>f\n<arg_key>s</arg_key>"},
      {"<tool_call>f", "content:<tool_call>f"},
      {"<tool_call>two words</tool_call>", "content:<tool_call>two words</tool_call>"},
      {"<tool_call>{\"name\": \"f\"}</tool_call>", "content:<tool_call>{\"name\": \"f\"}</tool_call>"},
      {"<tool_call>f\n<arg_key>s</arg_key>a</tool_call>", "content:<tool_call>f\n<arg_key>s</arg_key>a</tool_call>"},
      {"<tool_call>f\n<arg_key>s</arg_key><arg_value>a</arg_value>b</tool_call>c", "content:bc|call f:{\"s\": \"a\""},
      {"<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value>\n<arg_key>t</arg_key>?</tool_call>c",
       "content:\n<arg_key>t</arg_key>?c|call f:{\"s\": \"a\""},
      {"<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value><arg_key>t</arg_", "call f:{\"s\": \"a\""},
      {"<tool_call></tool_call>", "content:<tool_call></tool_call>"},
      {"a <arg_key> b", "content:a <arg_key> b"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(CallFormat::argument_tags, row.text), row.reply) << row.text;
}

// A long value does not wait for its end.
TEST(ReplyCalls, TextInTagsIsPassedOnAsItComes) {
  const auto parser = make_reply_parser(ReplyFormat::plain, nullptr, CallFormat::function_tags);
  parser->feed({"<tool_call><function=f><parameter=s>\n", true});
  ASSERT_EQ(parser->reply().calls.size(), 1U);
  parser->feed({"some words\n", true});
  EXPECT_EQ(parser->reply().calls[0].arguments, R"({"s": "some words)");
  parser->feed({"more", true});
  EXPECT_EQ(parser->reply().calls[0].arguments, R"({"s": "some words\nmore)");
}

TEST(ReplyCalls, TypesOfArgumentsAreTheSchemas) {
  const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
    "properties": {
      "s": {"type": "string"}, "n": {"type": "integer"}, "both": {"type": ["string", "null"]}, "none": {"type": ["integer", "null"]},
      "nothing": {}, "true": true, "words": {"enum": ["a", 1]}, "numbers": {"enum": [1, 2]}, "one": {"const": 1},
      "ref": {"$ref": "#/$defs/List"}, "lost": {"$ref": "#/$defs/Lost"}, "far": {"$ref": "http://a/b"}, "bad": {"$ref": "#no"},
      "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "any": {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/Name"}]},
      "all": {"allOf": [{"type": "integer"}, {"minimum": 1}]}, "circle": {"$ref": "#/$defs/Circle"}},
    "$defs": {"List": {"type": "array"}, "Name": {"type": "string"}, "Circle": {"allOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Circle"}]}},
    "additionalProperties": {"type": "number"}}}},
    {"type": "function", "function": {"name": "g"}}, {"type": "function"}, 7])");
  const auto is_text = text_arguments(tools);
  for (const char* key : {"s", "both", "nothing", "true", "words", "lost", "far", "bad", "any", "circle"})
    EXPECT_TRUE(is_text("f", key)) << key;
  for (const char* key : {"n", "none", "numbers", "one", "ref", "maybe", "all", "unlisted"})
    EXPECT_FALSE(is_text("f", key)) << key;
  EXPECT_TRUE(is_text("g", "n"));
  EXPECT_TRUE(is_text("nobody", "n"));
  EXPECT_TRUE(text_arguments(nullptr)("f", "n"));
}

// Whatever comes: the same however it is cut, and nothing is lost that is no call.
TEST(ReplyCalls, CutAnywhere) {
  const std::string_view parts[] = {"<tool_call>",
                                    "</tool_call>",
                                    "{\"name\": \"f\"",
                                    ", \"arguments\": ",
                                    "{\"a\": \"}\"}",
                                    "}",
                                    "[TOOL_CALLS]",
                                    "[ARGS]",
                                    "[",
                                    "]",
                                    "<|tool_call>",
                                    "<tool_call|>",
                                    "<|\"|>",
                                    "call:f{",
                                    "a:1",
                                    "<|python_tag|>",
                                    "f",
                                    "\n",
                                    "text ",
                                    "<think>",
                                    "</think>",
                                    ", \"parameters\": {}",
                                    "\"",
                                    "\\",
                                    "é",
                                    "<function=",
                                    ">",
                                    "<parameter=n>",
                                    "<parameter=s>\n",
                                    "\n</parameter>",
                                    "</function>",
                                    "<arg_key>n</arg_key>",
                                    "<arg_key>s",
                                    "</arg_key>",
                                    "<arg_value>",
                                    "</arg_value>"};
  // Mostly calls, by format.
  const std::string_view kBegun[kCallFormats] = {"",
                                                 R"(<tool_call>{"name": "f", "arguments": {"a")",
                                                 "<tool_call><function=f>",
                                                 "<tool_call>f<arg_key>n</arg_key>",
                                                 R"({"name": "f", "parameters": {"a")",
                                                 R"([TOOL_CALLS]f[ARGS]{"a")",
                                                 "<|tool_call>call:f{a:1}<tool_call|>"};
  std::mt19937 rng(7);
  int n_calls[8] = {};
  for (int round = 0; round < 8000; ++round) {
    std::string text;
    const auto calls = static_cast<CallFormat>(rng() % kCallFormats);
    if (rng() % 2 == 0) text = kBegun[static_cast<size_t>(calls)];
    for (size_t i = 0, n = 1 + rng() % 9; i < n; ++i) text += parts[rng() % std::size(parts)];
    if (rng() % 3 == 0) text.insert(0, parts[rng() % std::size(parts)]);
    const auto format = static_cast<ReplyFormat>(rng() % 3);
    const Reply whole = read_reply(format, text, 0, nullptr, calls, types());
    n_calls[static_cast<size_t>(calls)] += static_cast<int>(whole.calls.size());
    EXPECT_EQ(shown(whole), shown(read_reply(format, text, 1, nullptr, calls, types()))) << text;
    EXPECT_EQ(shown(whole), shown(read_reply(format, text, 5, &rng, calls, types()))) << text;
    if (whole.calls.empty() && format == ReplyFormat::plain && calls != CallFormat::bare_json) {
      EXPECT_EQ(whole.content, text);
    }
  }
  for (size_t calls = 1; calls < kCallFormats; ++calls) EXPECT_GT(n_calls[calls], 10) << calls;
}

// A call as a template writes it reads back.
TEST(ReplyCalls, WhatSyntaxWritesIsReadBack) {
  testing::TestVocab vocab = testing::byte_vocab("gpt-2");
  for (const char* name : {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<tool_call>", "</tool_call>"})
    vocab.add(name, TokenType::control);
  const auto tokenizer = vocab.build();
  for (const CallFormat calls : {CallFormat::tagged_json, CallFormat::bare_json, CallFormat::mistral}) {
    const auto syntax = call_syntax(ReplyFormat::plain, calls, *tokenizer);
    ASSERT_TRUE(syntax);
    std::vector<TextPiece> pieces;
    const auto add = [&](const std::vector<TextPiece>& more) { pieces.insert(pieces.end(), more.begin(), more.end()); };
    for (const char* name : {"f", "g"}) {
      if (name[0] == 'g') add(syntax->between);
      add(syntax->before_name);
      pieces.push_back({name, false});
      add(syntax->before_arguments);
      pieces.push_back({kWeather, false});
      add(syntax->after);
    }
    const auto parser = make_reply_parser(ReplyFormat::plain, tokenizer.get(), calls);
    testing::read_pieces(*parser, pieces, 3);
    EXPECT_EQ(shown(parser->reply()), std::string("call f:") + kWeather + "|call g:" + kWeather);
  }
  EXPECT_FALSE(call_syntax(ReplyFormat::plain, CallFormat::gemma, *tokenizer));
}

TEST(ReplyCalls, TagsThatSyntaxWritesAreReadBack) {
  for (const bool tokens : {true, false}) {
    testing::TestVocab vocab = testing::byte_vocab("gpt-2");
    for (const char* name : {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}) {
      if (tokens) vocab.add(name, TokenType::control);
    }
    const auto tokenizer = vocab.build();
    for (const CallFormat calls : {CallFormat::function_tags, CallFormat::argument_tags}) {
      const auto syntax = call_syntax(ReplyFormat::plain, calls, *tokenizer);
      ASSERT_TRUE(syntax && syntax->tags);
      std::vector<TextPiece> pieces;
      const auto add = [&](const std::vector<TextPiece>& more) {
        pieces.insert(pieces.end(), more.begin(), more.end());
      };
      const auto argument = [&](const char* key, const char* value, bool json) {
        add(syntax->tags->before_key);
        pieces.push_back({key, false});
        add(syntax->tags->before_value);
        pieces.push_back({value, false});
        if (json) add(syntax->tags->behind_json);
        add(syntax->tags->end);
      };
      for (const char* name : {"f", "g"}) {
        if (name[0] == 'g') add(syntax->between);
        add(syntax->before_name);
        pieces.push_back({name, false});
        add(syntax->before_arguments);
        if (name[0] == 'f') argument("s", " \"Oslo\" ", false);
        if (name[0] == 'f') argument("n", "2", true);
        add(syntax->after);
      }
      const auto parser = make_reply_parser(ReplyFormat::plain, tokenizer.get(), calls, types());
      testing::read_pieces(*parser, pieces, 3);
      EXPECT_EQ(shown(parser->reply()), R"(call f:{"s": " \"Oslo\" ", "n": 2}|call g:{})");
    }
  }
}

}  // namespace
}  // namespace quern::token
