// Answers taken apart as their events come: which words are calls, what is text, how they end. Recorded replies, as the
// scheduler hands them out.
#include "api/assembler.h"

#include <gtest/gtest.h>

#include "../engine/tiny.h"
#include "engine/prompt.h"

namespace quern::api {
namespace {

using serve::Piece;

// Control tokens stand as "<|name|>" in the text.
std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  while (!text.empty()) {
    const size_t begin = text.find("<|"), end = text.find("|>");
    if (begin == std::string_view::npos || end == std::string_view::npos) {
      pieces.push_back({Piece::Kind::text, std::string(text)});
      break;
    }
    if (begin > 0) pieces.push_back({Piece::Kind::text, std::string(text.substr(0, begin))});
    pieces.push_back({Piece::Kind::control, std::string(text.substr(begin, end + 2 - begin))});
    text.remove_prefix(end + 2);
  }
  return pieces;
}

class Model {
 public:
  explicit Model(const std::string& path) {
    engine::EngineOptions options;
    options.n_threads = 1;
    auto engine = engine::Engine::load(path, options);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    engine_ = std::move(*engine);
    request_.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");
    token::Message message;
    message.role = "user";
    message.content = "hi";
    auto prompt = engine::chat_prompt(*engine_, std::vector<token::Message>{message});
    EXPECT_TRUE(prompt.ok());
    prompt_ = std::move(*prompt);
  }
  Request& request() { return request_; }

  // The answer that this text makes, piece by piece, with its end.
  Choice read(std::string_view text, serve::FinishReason reason = serve::FinishReason::eog, bool* enough = nullptr) {
    Assembler assembler(request_, *engine_, &prompt_.rendered);
    assembler.take(serve::PromptDone{static_cast<int>(prompt_.ids.size()), 0, {}});
    for (Piece& piece : pieces_of(text)) {
      serve::Token token;
      token.pieces.push_back(std::move(piece));
      assembler.take(token);
    }
    if (enough != nullptr) *enough = assembler.enough();
    serve::Finish finish;
    finish.reason = reason;
    assembler.take(finish);
    EXPECT_TRUE(assembler.ended());
    return assembler.choice();
  }

 private:
  std::shared_ptr<engine::Engine> engine_;
  Request request_;
  engine::ChatPrompt prompt_;
};

// Models leave out the token that ends a call, write calls on any channel, and have no end of ways to get it wrong.
TEST(Assembler, HarmonyCalls) {
  Model model(engine::scripted("harmony-tools"));
  for (const char* text :
       {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
        "<|channel|>analysis to=functions.f<|message|>{\"a\":1}<|call|>",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>"
        "{\"a\":1}<|end|>"}) {
    const Choice choice = model.read(text);
    ASSERT_EQ(choice.reply.calls.size(), 1U) << text;
    EXPECT_EQ(choice.reply.calls[0].name, "f");
    EXPECT_EQ(choice.reply.calls[0].arguments, "{\"a\":1}");
    EXPECT_EQ(choice.reply.content, "");
    EXPECT_EQ(choice.ending.kind, EndKind::calls) << text;
  }
  // One that is cut off by a limit is not told as complete.
  EXPECT_EQ(
      model.read("<|channel|>commentary to=functions.f<|message|>{\"a\"", serve::FinishReason::max_tokens).ending.kind,
      EndKind::length);
}

TEST(Assembler, WhatIsNoCallIsText) {
  Model harmony(engine::scripted("harmony-tools"));
  const Choice constrained = harmony.read("<|constrain|>write: hello<|end|>");
  EXPECT_EQ(constrained.reply.content, "write: hello");
  EXPECT_EQ(constrained.ending.kind, EndKind::stop);
  const Choice role = harmony.read("<|start|>wizard<|channel|>final<|message|>abra<|end|>");
  EXPECT_EQ(role.reply.reasoning + role.reply.content, "abra");
  EXPECT_TRUE(role.reply.calls.empty());
  Model think(engine::scripted("think"));
  const std::string fenced = "```json\n{\"name\": \"f\", \"arguments\": {}}\n```";
  const Choice choice = think.read(fenced);
  EXPECT_EQ(choice.reply.content, fenced);
  EXPECT_TRUE(choice.reply.calls.empty());
  EXPECT_EQ(choice.ending.kind, EndKind::stop);
  // Nobody offered tools, or they are not wanted this time.
  harmony.request().tool_choice = ToolChoice::none;
  const Choice unwanted = harmony.read("<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|>");
  EXPECT_EQ(unwanted.reply.content, "{\"a\":1}");
  EXPECT_EQ(unwanted.ending.kind, EndKind::stop);
}

TEST(Assembler, ASecondCallEndsAnAnswerThatMayHaveOne) {
  Model model(engine::scripted("harmony-tools"));
  const char* two =
      "<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|><|start|>assistant<|channel|>commentary "
      "to=functions.f<|message|>{\"a\":2}<|call|>";
  bool enough = false;
  EXPECT_EQ(model.read(two, serve::FinishReason::eog, &enough).reply.calls.size(), 2U);
  EXPECT_FALSE(enough);
  model.request().parallel_tool_calls = false;
  const Choice one = model.read(two, serve::FinishReason::cancelled, &enough);
  EXPECT_TRUE(enough);
  ASSERT_EQ(one.reply.calls.size(), 1U);
  EXPECT_EQ(one.reply.calls[0].arguments, "{\"a\":1}");
  EXPECT_EQ(one.ending.kind, EndKind::calls);
}

TEST(Assembler, AMegabyteOfReasoning) {
  Model model(engine::scripted("harmony-tools"));
  const std::string words(1 << 20, 'x');
  const Choice choice = model.read("<|channel|>analysis<|message|>" + words +
                                   "<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>");
  EXPECT_EQ(choice.reply.reasoning.size(), words.size());
  EXPECT_EQ(choice.reply.content, "4");
}

TEST(Assembler, EndsThatAreNobodysChoice) {
  Model model(engine::scripted("think"));
  EXPECT_EQ(model.read("a", serve::FinishReason::context_full).ending.kind, EndKind::length);
  EXPECT_EQ(model.read("a", serve::FinishReason::cancelled).ending.kind, EndKind::cancelled);
  const Choice stopped = model.read("a", serve::FinishReason::shutdown);
  EXPECT_EQ(stopped.ending.kind, EndKind::failed);
  EXPECT_EQ(stopped.ending.problem.status, 503);
  const Choice failed = model.read("a", serve::FinishReason::error);
  EXPECT_EQ(failed.ending.kind, EndKind::failed);
  EXPECT_EQ(failed.ending.problem.status, 500);
  EXPECT_FALSE(failed.ending.problem.message.empty());
}

}  // namespace
}  // namespace quern::api
