// Answers and events as bytes.
#include <gtest/gtest.h>

#include <limits>

#include "api/write.h"

namespace quern::api {
namespace {

using Kind = token::ReplyDelta::Kind;

Head head() {
  Head head;
  head.id = "chatcmpl-1";
  head.model = "m";
  head.created = 7;
  head.first_call = 3;
  head.bytes = [](int32_t id) {
    return id == 1   ? std::string("a\"b")
           : id == 2 ? std::string("\xE2\x82")
           : id == 3 ? std::string("\xC3")
                     : "tok" + std::to_string(id);
  };
  return head;
}

Choice choice() {
  Choice choice;
  choice.reply.reasoning = "hm";
  choice.reply.content = "yes";
  choice.usage = {10, 4, 5, 2};
  return choice;
}

Progress text(Kind kind, std::string words, size_t call = 0) {
  Progress progress;
  progress.deltas.push_back({kind, std::move(words), call});
  return progress;
}

// In this order, which + does not promise.
std::string all(std::initializer_list<std::string> parts) {
  std::string out;
  for (const auto& part : parts) out += part;
  return out;
}

// The JSON of each event, and [DONE] as a string; each event must be one block of lines.
std::vector<Json> events(const std::string& stream) {
  std::vector<Json> out;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    std::string block = stream.substr(at, end - at), name;
    if (block.starts_with("event: ")) {
      name = block.substr(7, block.find('\n') - 7);
      block = block.substr(block.find('\n') + 1);
    }
    EXPECT_TRUE(block.starts_with("data: ")) << block;
    EXPECT_EQ(block.find('\n'), std::string::npos);
    const std::string data = block.substr(6);
    Json json = data == "[DONE]" ? Json(data) : Json::parse(data);
    if (!name.empty()) {
      EXPECT_EQ(json["type"], name);
    }
    out.push_back(std::move(json));
    at = end + 2;
  }
  return out;
}

TEST(Errors, InEachDialect) {
  const Problem problem{.status = 429, .message = "bad \xFF", .field = "n", .code = "c", .details = {{"x", 1}}};
  const Json openai = error_json(problem, Dialect::openai);
  EXPECT_EQ(openai["error"]["type"], "rate_limit_error");
  EXPECT_EQ(openai["error"]["param"], "n");
  EXPECT_EQ(openai["error"]["code"], "c");
  EXPECT_EQ(openai["error"]["x"], 1);
  const Json anthropic = error_json(problem, Dialect::anthropic);
  EXPECT_EQ(anthropic["type"], "error");
  EXPECT_EQ(anthropic["error"]["type"], "rate_limit_error");
  EXPECT_NE(dump(openai).find("\xEF\xBF\xBD"), std::string::npos) << "what is not UTF-8 is replaced";
  EXPECT_EQ(error_json({.status = 413, .message = "m"}, Dialect::anthropic)["error"]["type"], "request_too_large");
  EXPECT_TRUE(error_json({.message = "m"}, Dialect::openai)["error"]["param"].is_null());
}

TEST(Chat, Whole) {
  Choice one = choice(), two = choice();
  one.ending.kind = EndKind::length;
  two.reply = {"", "", {{"f", "{\"a\": 1", false}, {"g", "{}", false}}};
  two.ending.kind = EndKind::calls;
  const Choice both[] = {one, two};
  const Json json = chat_response(head(), both, {10, 4, 9, 2});
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "yes");
  EXPECT_EQ(json["choices"][0]["message"]["reasoning_content"], "hm");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(json["choices"][0]["logprobs"].is_null());
  EXPECT_FALSE(json["choices"][0]["message"].contains("tool_calls"));
  EXPECT_TRUE(json["choices"][1]["message"]["content"].is_null());
  EXPECT_EQ(json["choices"][1]["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1")
      << "as the model wrote them";
  EXPECT_EQ(json["choices"][1]["message"]["tool_calls"][1]["id"], "call00004");
  EXPECT_EQ(json["choices"][1]["finish_reason"], "tool_calls");
  EXPECT_EQ(json["usage"]["total_tokens"], 19);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
}

TEST(Chat, Stream) {
  for (const bool include : {false, true}) {
    Head h = head();
    h.include_usage = include;
    const auto writer = make_chat_events(h);
    const auto list = events(
        all({writer->begin(0, {}), writer->add(0, text(Kind::reasoning, "hm")),
             writer->add(0, text(Kind::content, "yes\n\n")), writer->add(0, text(Kind::call, "f")),
             writer->add(0, text(Kind::arguments, "{}")), writer->finish(0, choice()), writer->end({10, 4, 5, 2})}));
    ASSERT_EQ(list.size(), include ? 8u : 7u);
    EXPECT_EQ(list[0]["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(list[1]["choices"][0]["delta"], Json({{"reasoning_content", "hm"}}));
    EXPECT_EQ(list[2]["choices"][0]["delta"]["content"], "yes\n\n");
    EXPECT_EQ(list[3]["choices"][0]["delta"]["tool_calls"][0]["id"], "call00003");
    EXPECT_EQ(list[4]["choices"][0]["delta"]["tool_calls"][0],
              Json::parse(R"({"index": 0, "function": {"arguments": "{}"}})"));
    EXPECT_TRUE(list[4]["choices"][0]["finish_reason"].is_null());
    EXPECT_EQ(list[5]["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(list[5].contains("usage"), include);
    if (include) {
      EXPECT_TRUE(list[6]["choices"].empty());
      EXPECT_EQ(list[6]["usage"]["prompt_tokens"], 10);
    }
    EXPECT_EQ(list.back(), "[DONE]");
  }
}

TEST(Logprobs, BytesAreReal) {
  serve::TokenScore score{2, -0.5F, {{1, -0.25F}, {2, -0.5F}}};
  const Json json = Json::parse(dump(chat_logprob(score, head().bytes)));
  EXPECT_EQ(json["bytes"], Json::parse("[226, 130]"));
  EXPECT_EQ(json["token"], "\xEF\xBF\xBD") << "half a character as text";
  EXPECT_EQ(json["top_logprobs"][0]["token"], "a\"b");
  EXPECT_FLOAT_EQ(json["top_logprobs"][0]["logprob"].get<float>(), -0.25F);
  score.log_prob = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(chat_logprob(score, head().bytes)["logprob"], -9999.0);
}

TEST(Logprobs, OfCompletions) {
  const float unknown = std::numeric_limits<float>::quiet_NaN();
  const serve::TokenScore scores[] = {{10, unknown, {}}, {2, -1, {{3, -0.5F}}}, {1, -2, {{1, -2}}}};
  int64_t offset = 0;
  const Json json = Json::parse(dump(completion_logprobs(scores, head().bytes, &offset)));
  EXPECT_TRUE(json["token_logprobs"][0].is_null());
  EXPECT_TRUE(json["top_logprobs"][0].is_null());
  EXPECT_EQ(json["tokens"][1], "bytes:\\xe2\\x82");
  EXPECT_EQ(json["top_logprobs"][1].size(), 2u) << "the token that was taken is always among them";
  EXPECT_TRUE(json["top_logprobs"][1].contains("bytes:\\xc3"));
  EXPECT_EQ(json["tokens"][2], "a\"b");
  EXPECT_EQ(json["text_offset"], Json::parse("[0, 5, 6]"));
}

TEST(Completion, EchoStandsBefore) {
  Head h = head();
  h.logprobs = true;
  Choice one = choice();
  one.prompt_scores = {{10, std::numeric_limits<float>::quiet_NaN(), {}}};
  one.scores = {{11, -1, {}}};
  const Choice list[] = {one};
  const Echo echoes[] = {{"before ", {10}}};
  const Json json = completion_response(h, list, echoes, one.usage);
  EXPECT_EQ(json["choices"][0]["text"], "before yes");
  EXPECT_EQ(json["choices"][0]["logprobs"]["tokens"], Json::parse(R"(["tok10", "tok11"])"));
  const Json without = completion_response(h, list, {}, one.usage);
  EXPECT_EQ(without["choices"][0]["text"], "yes");
  EXPECT_EQ(without["choices"][0]["logprobs"]["tokens"].size(), 1u);
}

TEST(Completion, Stream) {
  const auto writer = make_completion_events(head());
  EXPECT_EQ(writer->add(0, text(Kind::content, "")), "");
  const auto list = events(all(
      {writer->begin(0, {}), writer->add(1, text(Kind::content, "x")), writer->finish(1, choice()), writer->end({})}));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["choices"][0]["text"], "x");
  EXPECT_EQ(list[0]["choices"][0]["index"], 1);
  EXPECT_EQ(list[1]["choices"][0]["finish_reason"], "stop");
}

TEST(Messages, Whole) {
  Choice one = choice();
  one.reply.calls = {{"f", "{\"a\": 1}", false}, {"g", "{\"a\": ", false}};
  one.ending.kind = EndKind::calls;
  const Json json = messages_response(head(), one);
  ASSERT_EQ(json["content"].size(), 3u);
  EXPECT_EQ(json["content"][0]["thinking"], "hm");
  EXPECT_EQ(json["content"][1]["text"], "yes\ng {\"a\": ") << "a call that is not JSON is text";
  EXPECT_EQ(json["content"][2]["input"]["a"], 1);
  EXPECT_EQ(json["content"][2]["id"], "toolu_call00003");
  EXPECT_EQ(json["stop_reason"], "tool_use");
  EXPECT_EQ(json["usage"]["input_tokens"], 6);
  EXPECT_EQ(json["usage"]["cache_read_input_tokens"], 4);
  Choice stopped = choice();
  stopped.ending.matched_stop = "END";
  EXPECT_EQ(messages_response(head(), stopped)["stop_reason"], "stop_sequence");
  EXPECT_EQ(messages_response(head(), stopped)["stop_sequence"], "END");
}

TEST(Messages, Stream) {
  const auto writer = make_messages_events(head());
  EXPECT_EQ(writer->ping().substr(0, 1), ":") << "no event before message_start";
  std::string out = writer->begin(0, {10, 4, 0, 0});
  EXPECT_EQ(events(writer->ping())[0]["type"], "ping");
  out += all({writer->add(0, text(Kind::reasoning, "h")), writer->add(0, text(Kind::reasoning, "m")),
              writer->add(0, text(Kind::content, "yes"))});
  out += all({writer->add(0, text(Kind::call, "f")), writer->add(0, text(Kind::arguments, "{\"a\":")),
              writer->add(0, text(Kind::arguments, " 1}"))});
  out += all({writer->add(0, text(Kind::call, "g")), writer->add(0, text(Kind::arguments, "{\"a\":"))});
  Choice whole = choice();
  whole.ending.kind = EndKind::calls;
  out += all({writer->finish(0, whole), writer->end({})});
  std::vector<std::string> types;
  const auto list = events(out);
  for (const Json& json : list) {
    std::string type = json["type"];
    if (json.contains("content_block"))
      type += " " + json["content_block"]["type"].get<std::string>() + std::to_string(json["index"].get<int>());
    if (json.contains("delta") && json["delta"].contains("type"))
      type += " " + json["delta"]["type"].get<std::string>();
    types.push_back(type);
  }
  EXPECT_EQ(types, (std::vector<std::string>{
                       "message_start", "content_block_start thinking0", "content_block_delta thinking_delta",
                       "content_block_delta thinking_delta", "content_block_delta signature_delta",
                       "content_block_stop", "content_block_start text1", "content_block_delta text_delta",
                       "content_block_stop", "content_block_start tool_use2", "content_block_delta input_json_delta",
                       "content_block_stop", "content_block_start text3", "content_block_delta text_delta",
                       "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(list[10]["delta"]["partial_json"], "{\"a\":1}");
  EXPECT_EQ(list[15]["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(list[15]["usage"]["output_tokens"], 5);
  EXPECT_EQ(events(writer->error({.status = 500, .message = "x"}))[0]["error"]["type"], "api_error");
}

TEST(Responses, StreamEndsInTheWholeResponse) {
  Head h = head();
  h.id = "resp_1";
  const Json asked = {{"instructions", "be short"}};
  const auto writer = make_responses_events(h, asked);
  Choice whole = choice();
  whole.reply.calls = {{"f", "{}", false}};
  whole.ending.kind = EndKind::calls;
  const auto list = events(
      all({writer->begin(0, {}), writer->add(0, text(Kind::reasoning, "hm")), writer->add(0, text(Kind::content, "y")),
           writer->add(0, text(Kind::content, "es")), writer->add(0, text(Kind::call, "f")),
           writer->add(0, text(Kind::arguments, "{}")), writer->finish(0, whole), writer->end({})}));
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list[i]["sequence_number"], i);
  EXPECT_EQ(list.front()["type"], "response.created");
  EXPECT_EQ(list.back()["type"], "response.completed");
  EXPECT_EQ(list.back()["response"], responses_response(h, whole, asked));
  EXPECT_EQ(list.back()["response"]["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
  EXPECT_EQ(list.back()["response"]["output"][2]["call_id"], "call00003");
  EXPECT_EQ(list.back()["response"]["instructions"], "be short");
  whole.ending.kind = EndKind::length;
  EXPECT_EQ(responses_response(h, whole, asked)["status"], "incomplete");
}

TEST(Responses, WhatIsKeptIsTheWholeAnswer) {
  const Json asked = {{"store", true}, {"previous_response_id", "resp_0"}};
  Json kept;
  bool fits = true;
  const KeepResponse keep = [&](const Json& response) {
    kept = response;
    return fits;
  };
  const Json whole = responses_response(head(), choice(), asked, keep);
  EXPECT_EQ(whole, kept);
  EXPECT_EQ(whole["store"], true);
  EXPECT_EQ(whole["previous_response_id"], "resp_0");
  EXPECT_EQ(responses_response(head(), choice(), Json::object())["store"], false);
  fits = false;
  EXPECT_EQ(responses_response(head(), choice(), asked, keep)["store"], false) << "there was no room for it";
  kept = Json();
  const auto writer = make_responses_events(head(), asked, keep);
  const std::string begin = writer->begin(0, {}) + writer->add(0, text(Kind::content, "yes"));
  EXPECT_TRUE(kept.is_null()) << "it is not whole yet";
  const auto list = events(writer->finish(0, choice()));
  EXPECT_EQ(kept["output"][0]["content"][0]["text"], "yes");
  EXPECT_EQ(list.back()["response"]["store"], false);
}

TEST(Responses, TwoCallsAreTwoItems) {
  const auto writer = make_responses_events(head(), Json::object());
  writer->begin(0, {});
  const auto list = events(all(
      {writer->add(0, text(Kind::call, "f")), writer->add(0, text(Kind::call, "f", 1)), writer->finish(0, choice())}));
  EXPECT_EQ(list.back()["response"]["output"].size(), 2u);
}

TEST(Arguments, OnlyObjects) {
  EXPECT_EQ(arguments_of({"f", " {\"a\": [1]} ", false})["a"][0], 1);
  EXPECT_EQ(arguments_of({"f", " ", false}), Json::object());
  EXPECT_TRUE(arguments_of({"f", "[1]", false}).is_null());
  EXPECT_TRUE(arguments_of({"f", "{\"a\": \"\xFF\"}", false}).is_null());
}

}  // namespace
}  // namespace quern::api
