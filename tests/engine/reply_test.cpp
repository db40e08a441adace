// Generation and the formats of replies together: every token reaches the caller, a reply is taken apart while it
// comes, and goes back into the conversation as the model's template wants it. The models say one fixed reply each.
#include "engine/prompt.h"
#include "tiny.h"
#include "token/harmony.h"
#include "token/sampler.h"
#include "token/tokenizer.h"

namespace quern::engine {
namespace {

std::shared_ptr<Engine> load(const std::string& path) {
  EngineOptions options;
  options.n_threads = 1;
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message << "; tools/make_testdata.py makes the models";
  return engine.ok() ? *engine : nullptr;
}

token::SamplerOptions greedy() {
  token::SamplerOptions options;
  options.temperature = 0;
  return options;
}

struct Said {
  GenerateStats stats;
  std::vector<int32_t> ids;  // all that came, the last one too
  std::string text;
  token::Reply reply;
};

// left_out: a token that the parser does not get to see.
Said ask(Engine& engine, const ChatPrompt& prompt, int max_tokens = 100, const char* left_out = "") {
  const auto session = std::move(engine.new_session()).value();
  const auto parser = token::make_reply_parser(engine.chat_template()->supports().reply, &engine.tokenizer());
  parser->follow(prompt.rendered);
  token::ReplyStream stream(engine.tokenizer(), *parser);
  Said said;
  const auto on_token = [&](const Produced& token) {
    said.text += token.text;
    EXPECT_EQ(token.ends, engine.tokenizer().is_eog(token.id));
    if (token.id >= 0) said.ids.push_back(token.id);
    if (engine.tokenizer().vocab().text(token.id) != left_out) stream.feed(token.id);
    return true;
  };
  auto stats = generate_tokens(engine, *session, prompt.ids, greedy(), max_tokens, on_token);
  EXPECT_TRUE(stats.ok());
  stream.finish();
  said.stats = *std::move(stats);
  said.reply = parser->reply();
  return said;
}

ChatPrompt prompt_of(const Engine& engine, const std::vector<Turn>& turns, token::ChatOptions options = {}) {
  auto prompt = chat_prompt(engine, turns, std::move(options));
  EXPECT_TRUE(prompt.ok()) << prompt.error().message;
  return prompt.ok() ? *std::move(prompt) : ChatPrompt{};
}

TEST(Replies, EveryTokenComesTheLastOneToo) {
  const auto engine = load(scripted("harmony"));
  const ChatPrompt prompt = prompt_of(*engine, {{"user", "hello"}});
  const Said said = ask(*engine, prompt);
  std::vector<int32_t> expected = said.stats.tokens;
  expected.push_back(*engine->tokenizer().find("<|return|>"));
  EXPECT_EQ(said.ids, expected);
  EXPECT_EQ(said.stats.end_token, expected.back());
  EXPECT_EQ(said.stats.stop, StopReason::eog);
  EXPECT_EQ(engine->tokenizer().decode(said.ids, true).value(),
            "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>final<|message|>It is four."
            "<|return|>");
  // Its last token tells how the last message ended.
  token::HarmonyParser parser(false);
  token::ReplyStream stream(engine->tokenizer(), parser);
  for (const int32_t id : said.ids) stream.feed(id);
  EXPECT_EQ(parser.messages().back().end, token::HarmonyEnd::done);
  // The callback for text gets the same without control tokens.
  std::string text;
  const auto session = std::move(engine->new_session()).value();
  const auto stats =
      generate(*engine, *session, prompt.ids, greedy(), 100, [&](std::string_view t) { return text += t, true; });
  EXPECT_EQ(text, said.text);
  EXPECT_EQ(stats->tokens, said.stats.tokens);
  EXPECT_EQ(stats->end_token, said.stats.end_token);
}

TEST(Replies, WhatEndsOtherwiseHasNoLastToken) {
  const auto engine = load(scripted("harmony"));
  const ChatPrompt prompt = prompt_of(*engine, {{"user", "hello"}});
  const Said cut = ask(*engine, prompt, 4);
  EXPECT_EQ(cut.stats.stop, StopReason::max_tokens);
  EXPECT_EQ(cut.stats.end_token, -1);
  EXPECT_EQ(cut.ids, cut.stats.tokens);
  EXPECT_EQ(cut.reply.reasoning, "Let me");
  const auto session = std::move(engine->new_session()).value();
  int calls = 0;
  const auto stats =
      generate_tokens(*engine, *session, prompt.ids, greedy(), 100, [&](const Produced&) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(stats->stop, StopReason::callback);
  EXPECT_EQ(stats->n_generated, 3);
}

TEST(Replies, HalfACharacterComesAtTheEndWithoutAToken) {
  const auto engine = load(tiny_dir() + "/llama.gguf");
  token::SamplerOptions forced = greedy();
  const int32_t half = engine->tokenizer().encode("\xC3").value().at(0);
  forced.logit_bias = {{half, 1e9F}};
  const auto session = std::move(engine->new_session()).value();
  std::vector<std::pair<int32_t, std::string>> got;
  const auto on_token = [&](const Produced& p) { return got.emplace_back(p.id, p.text), true; };
  ASSERT_TRUE(generate_tokens(*engine, *session, some_tokens(3, 1), forced, 1, on_token).ok());
  const std::vector<std::pair<int32_t, std::string>> expected = {{half, ""}, {-1, "\xEF\xBF\xBD"}};
  EXPECT_EQ(got, expected);
}

TEST(Replies, AreTakenApart) {
  struct {
    const char *model, *reasoning, *content, *call, *arguments;
  } const rows[] = {{"harmony", "Let me see.", "It is four.", "", ""},
                    {"harmony-call", "Let me see.", "", "get_weather", "{\"city\": \"Zürich\"}"},
                    {"think", "Weigh it.", "Yes, indeed.", "", ""}};
  for (const auto& row : rows) {
    const auto engine = load(scripted(row.model));
    const Said said = ask(*engine, prompt_of(*engine, {{"user", "hello"}}));
    EXPECT_EQ(said.reply.reasoning, row.reasoning) << row.model;
    EXPECT_EQ(said.reply.content, row.content) << row.model;
    ASSERT_EQ(said.reply.calls.size(), *row.call != '\0' ? 1U : 0U) << row.model;
    if (said.reply.calls.empty()) continue;
    EXPECT_EQ(said.reply.calls[0].name, row.call);
    EXPECT_EQ(said.reply.calls[0].arguments, row.arguments);
  }
}

// A parser that sees only text, as it was before there were tokens, cannot tell the parts.
TEST(Replies, WithoutAControlTokenTheyAreNotTheSame) {
  const auto engine = load(scripted("harmony"));
  const ChatPrompt prompt = prompt_of(*engine, {{"user", "hello"}});
  for (const char* lost : {"<|message|>", "<|channel|>"}) {
    const token::Reply whole = ask(*engine, prompt).reply, poor = ask(*engine, prompt, 100, lost).reply;
    EXPECT_NE(whole.reasoning + "|" + whole.content, poor.reasoning + "|" + poor.content) << lost;
  }
}

TEST(Prompts, AReplyGoesBackAsTheTemplateWantsIt) {
  const auto engine = load(scripted("harmony-call"));
  std::vector<Turn> turns = {{"user", "hello"}};
  turns.push_back(turn_of(ask(*engine, prompt_of(*engine, turns)).reply, 7));
  ASSERT_EQ(turns[1].calls.size(), 1U);
  EXPECT_EQ(turns[1].calls[0].id, "call00007");
  turns.push_back({.role = "tool", .content = "3 <|end|>", .call_id = turns[1].calls[0].id, .tool = "get_weather"});
  const ChatPrompt prompt = prompt_of(*engine, turns);
  EXPECT_EQ(prompt.rendered.text,
            "<|start|>system<|message|>Reasoning: medium<|end|><|start|>user<|message|>hello<|end|>"
            "<|start|>assistant<|channel|>analysis<|message|>Let me see.<|end|>"
            "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>"
            "{\"city\": \"Zürich\"}<|call|>"
            "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>\"3 <|end|>\"<|end|>"
            "<|start|>assistant");
  // The ids say the same, and the <|end|> that a tool wrote is no token.
  EXPECT_EQ(engine->tokenizer().decode(prompt.ids, true).value(), prompt.rendered.text);
  const auto ends = std::count(prompt.ids.begin(), prompt.ids.end(), *engine->tokenizer().find("<|end|>"));
  EXPECT_EQ(ends, 4);
  // Content beside a call is joined to the reasoning: this template refuses both.
  turns[1].content = "I look.";
  EXPECT_NE(prompt_of(*engine, turns).rendered.text.find("Let me see.\n\nI look.<|end|>"), std::string::npos);
}

TEST(Prompts, ReasoningInTheHistoryReachesTheModel) {
  const auto with = load(scripted("think")), without = load(scripted("think-renamed"));
  for (const auto& [engine, reasons_again] : {std::pair(with, false), std::pair(without, true)}) {
    std::vector<Turn> turns = {{"user", "hello"}};
    turns.push_back(turn_of(ask(*engine, prompt_of(*engine, turns)).reply));
    EXPECT_EQ(turns[1], (Turn{"assistant", "Yes, indeed.", "Weigh it."}));
    turns.push_back({"user", "again"});
    EXPECT_EQ(!ask(*engine, prompt_of(*engine, turns)).reply.reasoning.empty(), reasons_again);
  }
}

TEST(Prompts, TurnsAreMessages) {
  const Turn turn{.role = "assistant", .reasoning = "r", .calls = {{"a", "f", "{}"}, {"b", "g", "no JSON"}}};
  const token::Message message = message_of(turn);
  EXPECT_TRUE(message.content.is_null());
  EXPECT_EQ(message.reasoning_content, "r");
  EXPECT_EQ(message.tool_calls[1]["id"], "b");
  EXPECT_EQ(message.tool_calls[1]["function"]["arguments"], "no JSON");
  const token::Message result = message_of({.role = "tool", .content = "x", .call_id = "a", .tool = "f"});
  EXPECT_EQ(result.tool_call_id, "a");
  EXPECT_EQ(result.name, "f");
  EXPECT_EQ(message_of({"assistant", ""}).content, "");
}

TEST(Prompts, ReasoningIsAskedForWhereTheTemplateCan) {
  const auto harmony = load(scripted("harmony")), think = load(scripted("think")),
             renamed = load(scripted("think-renamed")), none = load(tiny_dir() + "/llama.gguf");
  EXPECT_TRUE(reasoning_variables(*none, {})->empty());
  token::ChatOptions options;
  options.variables = reasoning_variables(*harmony, {"high", std::nullopt}).value();
  EXPECT_NE(prompt_of(*harmony, {{"user", "x"}}, options).rendered.text.find("Reasoning: high<|end|>"),
            std::string::npos);
  options.variables = reasoning_variables(*think, {"", false}).value();
  EXPECT_TRUE(prompt_of(*think, {{"user", "x"}}, options).rendered.text.ends_with("<think>\n\n</think>\n\n"));
  EXPECT_EQ(ask(*think, prompt_of(*think, {{"user", "x"}}, options)).reply.content, "Yes, indeed.");
  options.variables = reasoning_variables(*renamed, {"", false}).value();
  EXPECT_TRUE(prompt_of(*renamed, {{"user", "x"}}, options).rendered.text.ends_with("<think>\n\n</think>\n\n"));
  const auto refusal = [](const Engine& engine, const ReasoningOptions& asked) {
    const auto refused = reasoning_variables(engine, asked);
    return refused.ok() ? "" : refused.error().message;
  };
  EXPECT_NE(refusal(*think, {"low", std::nullopt}).find("no variable reasoning_effort"), std::string::npos);
  // Its `thinking` is a variable of its own, which nobody outside can set.
  EXPECT_NE(refusal(*harmony, {"", true}).find("no variable enable_thinking"), std::string::npos);
  EXPECT_NE(refusal(*none, {"", true}).find("no chat template"), std::string::npos);
}

}  // namespace
}  // namespace quern::engine
