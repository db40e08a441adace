// Requests of the Anthropic dialect and of the Responses API, and the small ones.
#include "parse_testing.h"

namespace quern::api::testing {
namespace {

TEST(Messages, WhatStandsInItArrives) {
  const Request request = good(&messages, R"({
    "model": "m", "max_tokens": 5, "stop_sequences": ["x"], "temperature": 0.5, "top_k": 3, "top_p": 0.5, "stream": true,
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=ab12;"}, {"type": "text", "text": "be short", "cache_control": {"type": "ephemeral"}}],
    "messages": [
      {"role": "user", "content": [{"type": "text", "text": "a"}]},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "b"},
                                        {"type": "tool_use", "id": "toolu_call00007", "name": "f", "input": {"x": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_call00007", "content": [{"type": "text", "text": "3"}], "is_error": true}, {"type": "text", "text": "go on"}]}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}, {"type": "custom", "name": "g", "description": "d", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "thinking": {"type": "enabled", "budget_tokens": 99}, "metadata": {"user_id": "u"}})");
  EXPECT_EQ(request.dialect, Dialect::anthropic);
  ASSERT_EQ(request.messages.size(), 5u);
  EXPECT_EQ(request.messages[0].content.dump().find("billing"), std::string::npos) << "it changes with each request";
  EXPECT_EQ(request.messages[0].content[0]["text"], "be short");
  EXPECT_EQ(request.messages[2].reasoning_content, "hm");
  EXPECT_EQ(request.messages[2].tool_calls[0]["id"], "call00007");
  EXPECT_EQ(request.messages[2].tool_calls[0]["function"]["arguments"], "{\"x\":1}");
  EXPECT_EQ(request.messages[3].role, "tool");
  EXPECT_EQ(request.messages[3].tool_call_id, "call00007");
  EXPECT_EQ(request.messages[3].content[0]["text"], "Error: ");
  EXPECT_EQ(request.messages[4].content[0]["text"], "go on");
  EXPECT_EQ(request.tools.size(), 2u);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(request.reasoning.thinking, true);
  EXPECT_EQ(request.thinking_budget, 99);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(request.stream);
}

TEST(Messages, WrongFieldsAreNamed) {
  const struct {
    const char *more, *field;
  } rows[] = {
      {R"("stream": false)", ""},
      {R"("n": 2)", "n"},
      {R"("system": 1)", "system"},
      {R"("system": [{"type": "image"}])", "system[0].type"},
      {R"("temperature": -0.1)", "temperature"},
      {R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])", "tools[0].type"},
      {R"("tool_choice": {"type": "any"})", "tool_choice"},
      {R"("tool_choice": {"type": "tool"})", "tool_choice.name"},
      {R"("thinking": {"type": "enabled"})", "thinking.budget_tokens"},
      {R"("thinking": {"type": "disabled"})", ""},
      {R"("mcp_servers": [])", ""},
      {R"("mcp_servers": [{}])", "mcp_servers"},
      {R"("stop": ["x"])", "stop"},
  };
  for (const auto& row : rows) EXPECT_EQ(refused(&messages, anthropic(row.more)), row.field) << row.more;
  EXPECT_EQ(refused(&messages, R"({"model": "m", "messages": [{"role": "user", "content": "a"}]})"), "max_tokens");
  EXPECT_EQ(refused(&count, R"({"model": "m", "messages": [{"role": "user", "content": "a"}]})"), "");
  EXPECT_EQ(refused(&messages, R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}]})"), "model");
  EXPECT_EQ(refused(&count, R"({"model": "m", "messages": []})"), "messages");
  EXPECT_EQ(refused(&count, R"({"model": "m", "messages": [{"role": "user", "content": []}]})"), "messages");
  EXPECT_EQ(refused(&count,
                    R"({"model": "m", "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(
      refused(
          &count,
          R"({"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}]})"),
      "messages[0].content[0].type");
  EXPECT_EQ(
      refused(
          &count,
          R"({"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]})"),
      "messages[0]");
}

TEST(Responses, Input) {
  EXPECT_EQ(good(&responses, R"({"input": "a", "instructions": "b", "store": true})").messages.size(), 2u);
  const Request request = good(&responses, R"({"input": [
    {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
    {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}], "encrypted_content": null},
    {"type": "function_call", "call_id": "call00004", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "call00005", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call00004", "output": [{"type": "input_text", "text": "x"}]},
    {"type": "function_call_output", "call_id": "call00005", "output": "y"}],
    "tools": [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false}, {"type": "namespace", "name": "z"}],
    "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"], "max_output_tokens": 4})");
  ASSERT_EQ(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[1].reasoning_content, "hm");
  EXPECT_EQ(request.messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(request.tools.size(), 1u);
  EXPECT_TRUE(request.strict_tools.empty());
  EXPECT_EQ(request.tool_name, "f");
  EXPECT_EQ(request.reasoning.effort, "high");
  EXPECT_EQ(request.max_tokens, 4);
}

// What an answer of ours looks like comes back in, in front of the input and behind the new instructions.
TEST(Responses, EarlierItemsComeFirst) {
  Json body, earlier;
  ASSERT_FALSE(parse_body(R"({"items": [{"role": "user", "content": "a"},
    {"id": "rs_1", "type": "reasoning", "status": "completed", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "b", "annotations": [], "logprobs": []}]},
    {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call00000", "name": "f", "arguments": "{}"}]})",
                          &earlier)
                   .has_value());
  ASSERT_FALSE(parse_body(R"({"instructions": "i", "previous_response_id": "resp_1", "store": false,
    "input": [{"type": "function_call_output", "call_id": "call00000", "output": "x"}]})",
                          &body)
                   .has_value());
  Request request;
  ASSERT_FALSE(parse_responses(body, earlier["items"], Defaults{}, &request).has_value());
  ASSERT_EQ(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "a");
  EXPECT_EQ(request.messages[2].reasoning_content, "hm");
  EXPECT_EQ(request.messages[2].content[0]["text"], "b");
  EXPECT_EQ(request.messages[2].tool_calls.size(), 1u);
  EXPECT_EQ(request.messages[3].tool_call_id, "call00000");
  EXPECT_EQ(request.n_calls(), 1u);
  EXPECT_FALSE(request.store);
  Defaults few;
  few.max_messages = 4;
  Request other;
  const auto problem = parse_responses(body, earlier["items"], few, &other);
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->field, "input");
  EXPECT_TRUE(good(&responses, R"({"input": "a"})").store);
}

TEST(Responses, WrongFieldsAreNamed) {
  const struct {
    const char *body, *field;
  } rows[] = {
      {R"({})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": [{"type": "item_reference", "id": "x"}]})", "input[0].type"},
      {R"({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]})", "input[0]"},
      {R"({"input": "a", "previous_response_id": "r"})", ""},
      {R"({"input": "a", "previous_response_id": 1})", "previous_response_id"},
      {R"({"input": "a", "store": "no"})", "store"},
      {R"({"input": "a", "conversation": "c"})", "conversation"},
      {R"({"input": "a", "background": true})", "background"},
      {R"({"input": "a", "truncation": "auto"})", "truncation"},
      {R"({"input": "a", "text": {"format": {"type": "json_schema"}}})", "text.format.schema"},
      {R"({"input": "a", "n": 1})", "n"},
      {R"({"input": "a", "tools": [{"name": "f"}]})", "tools[0].type"},
  };
  for (const auto& row : rows) EXPECT_EQ(refused(&responses, row.body), row.field) << row.body;
}

template <class T>
std::string refused_small(std::optional<Problem> (*parser)(const Json&, T*), const std::string& text, T* out) {
  Json json;
  const auto problem = parse_body(text, &json);
  EXPECT_FALSE(problem.has_value());
  const auto refused = parser(json, out);
  return refused ? refused->field : "";
}

TEST(Small, Requests) {
  TokenizeRequest tokenize;
  EXPECT_EQ(refused_small(&parse_tokenize, R"({"content": "a", "add_special": true, "with_pieces": true})", &tokenize),
            "");
  EXPECT_TRUE(tokenize.add_special && tokenize.with_pieces && tokenize.parse_special);
  EXPECT_EQ(refused_small(&parse_tokenize, R"({"text": "a"})", &tokenize), "content");
  EXPECT_EQ(refused_small(&parse_tokenize, R"({"content": "a", "x": 1})", &tokenize), "x");
  DetokenizeRequest detokenize;
  EXPECT_EQ(refused_small(&parse_detokenize, R"({"tokens": [1, 2]})", &detokenize), "");
  EXPECT_EQ(detokenize.tokens, (TokenIds{1, 2}));
  EXPECT_EQ(refused_small(&parse_detokenize, R"({"tokens": [-1]})", &detokenize), "tokens");
  EmbeddingRequest embedding;
  EXPECT_EQ(refused_small(&parse_embeddings, R"({"input": ["a", "b"], "encoding_format": "base64"})", &embedding), "");
  EXPECT_TRUE(embedding.base64);
  EXPECT_EQ(refused_small(&parse_embeddings, R"({"input": []})", &embedding), "input");
  EXPECT_EQ(refused(&parse_apply_template, chat(R"("enable_thinking": true)")), "");
  EXPECT_EQ(refused(&parse_apply_template, chat(R"("temperature": 1)")), "temperature");
}

}  // namespace
}  // namespace quern::api::testing
