// Bodies, and the requests of the OpenAI dialect.
#include "parse_testing.h"

#include <cmath>

namespace quern::api::testing {
namespace {

std::string body_problem(const std::string& text, const JsonLimits& limits = {}) {
  Json json;
  const auto problem = parse_body(text, &json, limits);
  return problem ? problem->message : "";
}

TEST(Body, OnlyJsonObjectsPass) {
  EXPECT_EQ(body_problem("{\"a\": [1, 2.5, \"ü\", null, true]}"), "");
  EXPECT_NE(body_problem(""), "");
  EXPECT_NE(body_problem("[1]"), "");
  EXPECT_NE(body_problem("{\"a\": }"), "");
  EXPECT_NE(body_problem("{} {}"), "");
  EXPECT_NE(body_problem("{\"a\": NaN}"), "");
  EXPECT_NE(body_problem("{\"a\": 1e999}"), "");
}

TEST(Body, InvalidUtf8IsRefused) {
  EXPECT_EQ(body_problem("{\"a\": \"\xC3\xA9\"}"), "");
  EXPECT_NE(body_problem("{\"a\": \"\xC3\x28\"}"), "");
  EXPECT_NE(body_problem("{\"a\": \"\xC4\xE3\xBA\xC3\"}"), "");  // GBK
  EXPECT_NE(body_problem("{\"a\": \"\\ud800\"}"), "");
  EXPECT_NE(body_problem("{\"a\": \"\xED\xA0\x80\"}"), "");
}

TEST(Body, NestingIsBounded) {
  const auto nested = [](size_t n) { return "{\"a\": " + std::string(n, '[') + std::string(n, ']') + "}"; };
  EXPECT_EQ(body_problem(nested(63)), "");
  EXPECT_NE(body_problem(nested(64)), "");
  EXPECT_NE(body_problem(nested(5'000'000)), "");
  EXPECT_EQ(body_problem("{\"a\": \"" + std::string(1000, '[') + "\"}"), "") << "brackets in a string are text";
  EXPECT_EQ(body_problem("{\"a\": \"\\\"" + std::string(1000, '{') + "\"}"), "");
}

TEST(Body, ANameGivenTwiceIsRefused) {
  EXPECT_NE(body_problem(R"({"n": 1, "n": 2})").find("\"n\""), std::string::npos);
  EXPECT_NE(body_problem(R"({"a": [{"b": 1, "b": 1}]})"), "");
  EXPECT_EQ(body_problem(R"({"a": {"b": 1}, "c": {"b": 1}})"), "");
}

TEST(Chat, WhatStandsInItArrives) {
  const Request request = good(&parse_chat, R"({
    "model": "m", "messages": [{"role": "developer", "content": "be short"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": -1, "repeat_penalty": 1.5,
    "seed": -3, "n": 2, "stop": ["x", "yz"], "max_completion_tokens": 12, "logprobs": true, "top_logprobs": 4,
    "logit_bias": {"7": -100, "9": 2.5}, "stream": true, "stream_options": {"include_usage": true}, "reasoning_effort": "minimal",
    "enable_thinking": false, "chat_template_kwargs": {"x": 1}})");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content[1]["text"], "b");
  EXPECT_FLOAT_EQ(request.sampler.temperature, 0.5F);
  EXPECT_FLOAT_EQ(request.sampler.top_p, 0.9F);
  EXPECT_EQ(request.sampler.top_k, 7);
  EXPECT_FLOAT_EQ(request.sampler.min_p, 0.1F);
  EXPECT_FLOAT_EQ(request.sampler.presence_penalty, 1);
  EXPECT_FLOAT_EQ(request.sampler.frequency_penalty, -1);
  EXPECT_FLOAT_EQ(request.sampler.repeat_penalty, 1.5F);
  EXPECT_TRUE(request.has_seed);
  EXPECT_EQ(request.sampler.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_EQ(request.max_tokens, 12);
  EXPECT_EQ(request.top_logprobs, 4);
  ASSERT_EQ(request.sampler.logit_bias.size(), 2u);
  EXPECT_TRUE(std::isinf(request.sampler.logit_bias[0].second));
  EXPECT_FLOAT_EQ(request.sampler.logit_bias[1].second, 2.5F);
  EXPECT_TRUE(request.stream && request.include_usage);
  EXPECT_EQ(request.reasoning.effort, "low");
  EXPECT_EQ(request.reasoning.thinking, false);
}

TEST(Chat, WhatIsNotGivenIsTheDefault) {
  Json json;
  ASSERT_FALSE(parse_body(chat(), &json));
  Defaults defaults;
  defaults.sampler.temperature = 0.25F;
  Request request;
  ASSERT_FALSE(parse_chat(json, defaults, &request));
  EXPECT_FLOAT_EQ(request.sampler.temperature, 0.25F);
  EXPECT_EQ(request.top_logprobs, -1);
  EXPECT_EQ(good(&parse_chat, chat("\"logprobs\": true")).top_logprobs, 0);
  EXPECT_EQ(request.max_tokens, 0);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.has_seed);
}

TEST(Chat, NullIsAbsent) {
  good(
      &parse_chat,
      chat(
          R"("temperature": null, "stop": null, "tools": null, "seed": null, "logit_bias": null, "response_format": null)"));
}

// Each wrong field is named. The row above each kind of mistake that is good keeps the tests honest.
TEST(Chat, WrongFieldsAreNamed) {
  const struct {
    const char *more, *field;
  } rows[] = {
      {R"("temperature": 2)", ""},
      {R"("temperature": -1)", ""},
      {R"("temperature": "2")", "temperature"},
      {R"("temperature": 1e9)", "temperature"},
      {R"("top_k": 1.0)", ""},
      {R"("top_k": 1.5)", "top_k"},
      {R"("top_k": 1e300)", "top_k"},
      {R"("n": 0)", "n"},
      {R"("n": 17)", "n"},
      {R"("seed": 18446744073709551615)", "seed"},
      {R"("max_tokens": 5)", ""},
      {R"("max_tokens": -1)", "max_tokens"},
      {R"("max_tokens": 5, "max_completion_tokens": 5)", ""},
      {R"("max_tokens": 5, "max_completion_tokens": 6)", "max_tokens"},
      {R"("stop": "x")", ""},
      {R"("stop": "")", "stop"},
      {R"("stop": ["a", ""])", "stop"},
      {R"("stop": [1])", "stop"},
      {R"("stop": {"a": 1})", "stop"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"-1": 1})", "logit_bias"},
      {R"("logit_bias": {"1": 101})", "logit_bias"},
      {R"("logit_bias": {"99999999999": 1})", "logit_bias"},
      {R"("logprobs": 1)", "logprobs"},
      {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"("top_logprobs": 3)", "top_logprobs"},
      {R"("stream": "yes")", "stream"},
      {R"("stream_options": {"include_usage": true})", "stream_options"},
      {R"("stream": true, "stream_options": {"nonsense": true})", "stream_options"},
      {R"("reasoning_effort": "huge")", "reasoning_effort"},
      {R"("response_format": {"type": "text"})", ""},
      {R"("response_format": {"type": "xml"})", "response_format.type"},
      {R"("response_format": {"type": "json_schema"})", "response_format.json_schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "a"}})",
       "response_format.json_schema.schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": true}})", ""},
      {R"("modalities": ["text"])", ""},
      {R"("modalities": ["text", "audio"])", "modalities"},
      {R"("store": false)", ""},
      {R"("store": true)", "store"},
      {R"("functions": [])", "functions"},
      {R"("user": "me", "metadata": {"a": "b"})", ""},
      {R"("n_discard": -1)", "n_discard"},
      {R"("chat_template": "{% for i in range(100000) %}{% endfor %}")", "chat_template"},
      {R"("suffix": "x")", "suffix"},
      {R"("echo": true)", "echo"},
  };
  for (const auto& row : rows) EXPECT_EQ(refused(&parse_chat, chat(row.more)), row.field) << row.more;
}

TEST(Chat, WrongMessagesAreNamed) {
  const struct {
    const char *messages, *field;
  } rows[] = {
      {R"([{"role": "user", "content": "a"}])", ""},
      {R"([])", "messages"},
      {R"({})", "messages"},
      {R"([1])", "messages[0]"},
      {R"([{"role": "king", "content": "a"}])", "messages[0].role"},
      {R"([{"content": "a"}])", "messages[0].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": null}])", "messages[0].content"},
      {R"([{"role": "user", "content": 1}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "content": "a", "weight": 1}])", "messages[0].weight"},
      {R"([{"role": "tool", "content": "a"}])", "messages[0].tool_call_id"},
      {R"([{"role": "tool", "content": "a", "tool_call_id": "x"}])", "messages[0]"},
      {R"([{"role": "assistant", "content": null}])", "messages[0].content"},
      {R"([{"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}])",
       ""},
      {R"([{"role": "assistant", "tool_calls": [{"id": "a", "type": "x", "function": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].type"},
      {R"([{"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].id"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(refused(&parse_chat, std::string("{\"messages\": ") + row.messages + "}"), row.field) << row.messages;
}

TEST(Chat, Tools) {
  const std::string tool =
      R"({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}})";
  const Request request = good(&parse_chat, chat("\"tools\": [" + tool +
                                                 "], \"tool_choice\": {\"type\": \"function\", \"function\": "
                                                 "{\"name\": \"f\"}}, \"parallel_tool_calls\": false"));
  ASSERT_EQ(request.tools.size(), 1u);
  EXPECT_EQ(request.tools[0]["function"]["description"], "d");
  EXPECT_EQ(request.strict_tools, std::set<std::string>{"f"});
  EXPECT_FALSE(request.tools[0]["function"].contains("strict")) << "the prompt does not depend on it";
  EXPECT_EQ(request.tool_choice, ToolChoice::named);
  EXPECT_EQ(request.tool_name, "f");
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(good(&parse_chat, chat("\"tools\": [" + tool + "], \"tool_choice\": \"required\"")).tool_choice,
            ToolChoice::required);
  EXPECT_EQ(refused(&parse_chat, chat("\"tool_choice\": \"required\"")), "tool_choice");
  EXPECT_EQ(refused(&parse_chat, chat("\"tools\": [" + tool + "], \"tool_choice\": \"maybe\"")), "tool_choice");
  EXPECT_EQ(refused(&parse_chat, chat("\"tools\": [" + tool +
                                      "], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"g\"}}")),
            "tool_choice");
  EXPECT_EQ(refused(&parse_chat, chat("\"tools\": [" + tool + ", " + tool + "]")), "tools[1].function.name");
  EXPECT_EQ(refused(&parse_chat, chat("\"tools\": [{\"type\": \"web_search\"}]")), "tools[0].type");
  EXPECT_EQ(refused(&parse_chat, chat(R"("tools": [{"type": "function", "function": {"name": "a b"}}])")),
            "tools[0].function.name");
}

// Nine letters and digits stay; other forms are numbered, in call and result alike.
TEST(Chat, IdsOfCalls) {
  const Request request = good(&parse_chat, R"({"messages": [
    {"role": "assistant", "tool_calls": [{"id": "toolu_01ABC", "function": {"name": "f", "arguments": "{}"}}, {"id": "abcdefgh9", "function": {"name": "f", "arguments": {"a": 1}}}]},
    {"role": "tool", "tool_call_id": "abcdefgh9", "content": "2"}, {"role": "tool", "tool_call_id": "toolu_01ABC", "content": "1"}]})");
  EXPECT_EQ(request.messages[0].tool_calls[0]["id"], "call00000");
  EXPECT_EQ(request.messages[0].tool_calls[1]["id"], "abcdefgh9");
  EXPECT_EQ(request.messages[0].tool_calls[1]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(request.messages[1].tool_call_id, "abcdefgh9");
  EXPECT_EQ(request.messages[2].tool_call_id, "call00000");
  EXPECT_EQ(request.messages[2].name, "f") << "templates print the function's name with its result";
  EXPECT_EQ(request.n_calls(), 2u);
}

TEST(Completion, Prompts) {
  EXPECT_EQ(std::get<std::string>(good(&parse_completion, R"({"prompt": "a"})").prompts.at(0)), "a");
  EXPECT_EQ(good(&parse_completion, R"({"prompt": ["a", "b"]})").prompts.size(), 2u);
  EXPECT_EQ(std::get<TokenIds>(good(&parse_completion, R"({"prompt": [1, 2]})").prompts.at(0)), (TokenIds{1, 2}));
  EXPECT_EQ(good(&parse_completion, R"({"prompt": [[1], [2, 3]]})").prompts.size(), 2u);
  for (const char* prompt : {"[-1]", "[]", "[1, \"a\"]", "[[]]", "[[-1]]", "[1.5]", "{}", "1", "[99999999999]"})
    EXPECT_EQ(refused(&parse_completion, std::string("{\"prompt\": ") + prompt + "}"), "prompt") << prompt;
  EXPECT_EQ(refused(&parse_completion, "{}"), "prompt");
}

TEST(Completion, Fields) {
  const Request request =
      good(&parse_completion, R"({"prompt": "a", "echo": true, "logprobs": 2, "max_tokens": 0, "n": 2, "best_of": 2})");
  EXPECT_TRUE(request.echo && request.no_tokens);
  EXPECT_EQ(request.top_logprobs, 2);
  EXPECT_EQ(good(&parse_completion, R"({"prompt": "a"})").max_tokens, 16);
  EXPECT_EQ(good(&parse_completion, R"({"prompt": "a", "suffix": "b"})").suffix, "b");
  const struct {
    const char *more, *field;
  } rows[] = {
      {R"("max_tokens": 0)", "max_tokens"}, {R"("echo": true, "stream": true)", "echo"},
      {R"("best_of": 3)", "best_of"},       {R"("logprobs": true)", "logprobs"},
      {R"("logprobs": 21)", "logprobs"},    {R"("n": 9, "prompt": ["a", "b"])", "prompt"},
      {R"("messages": [])", "messages"},    {R"("suffix": 1)", "suffix"},
  };
  for (const auto& row : rows) {
    const std::string field = refused(&parse_completion, std::string("{\"prompt\": \"a\", ") + row.more + "}");
    EXPECT_EQ(field, row.field) << row.more;
  }
  EXPECT_EQ(refused(&parse_completion, R"({"prompt": ["a", "b"], "n": 9})"), "n");
}

}  // namespace
}  // namespace quern::api::testing
