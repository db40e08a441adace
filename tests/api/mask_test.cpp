// Calls of strict tools that may come, in every family's form: whatever a model tries, a call that is read back has a
// name of the request's tools, and a strict tool's arguments.
#include "api/mask.h"

#include <gtest/gtest.h>

#include <random>

#include "../engine/tiny.h"
#include "serve/grammar_mask.h"
#include "token/argument_types.h"

namespace quern::api {
namespace {

const char* const kSchema = R"({"type":"object","properties":{"n":{"type":"integer","minimum":3,"maximum":5},
  "e":{"enum":["a","b"]}},"required":["n"],"additionalProperties":false})";

// What a model may try: calls of all families that do not fit, and what could hide them.
const char* const kTries[] = {
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 9}}\n</tool_call>",
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 9}}</tool_call>",
    "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>",
    "{\"name\": \"f\", \"parameters\": {\"n\": 9}}",
    " \n{\"name\": \"f\", \"parameters\": {\"n\": 9}}",
    ";{\"name\": \"f\", \"parameters\": {\"n\": 9}}",
    "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"n\": 9}}",
    "<tool_call>\n<function=f>\n<parameter=n>\n9\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>\n<function=f>\n<parameter=n>\n4\n</parameter>\n<parameter=e>\nc\n</parameter>\n</function>\n</"
    "tool_call>",
    "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>9</arg_value>\n</tool_call>",
    "<|channel|>commentary to=functions.f<|message|>{\"n\": 9}<|call|>",
    "<|channel|>analysis to=functions.f <|constrain|>json<|message|>{\"n\": 9}<|call|>",
    " to=functions.f<|channel|>commentary json<|message|>{\"n\": 9}<|call|>",
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant",
    "<|channel|>commentary<|message|>words<|end|><|start|>assistant",
    "<|channel|>final<|message|>words",
    "<think>\n",
    "\n</think>\n\n",
    "words ",
    "g",
    "4",
    "\"",
    "}",
    "</parameter>",
    "</function>",
    "</arg_value>",
};

class Family {
 public:
  explicit Family(const char* model) {
    engine::EngineOptions options;
    options.n_threads = 1;
    auto engine = engine::Engine::load(engine::scripted(model), options);
    EXPECT_TRUE(engine.ok()) << model;
    model_.engine = std::move(*engine);
    model_.grammars = std::make_unique<serve::GrammarStore>(model_.engine->tokenizer());
    for (const char* name : {"f", "g"}) {
      request_.tools.push_back(
          {{"type", "function"}, {"function", {{"name", name}, {"parameters", Json::parse(kSchema)}}}});
    }
    token::Message message;
    message.role = "user";
    message.content = "hi";
    token::ChatOptions chat;
    chat.tools = request_.tools;
    auto prompt = engine::chat_prompt(*model_.engine, std::vector<token::Message>{message}, std::move(chat));
    EXPECT_TRUE(prompt.ok());
    prompt_ = std::move(*prompt);
    for (const char* text : kTries) {
      tries_.push_back(*tokenizer().encode(text, {.parse_special = true}));
    }
  }

  // A reply of tries and of other tokens, as far as the mask lets them; whole: it has come to its end.
  token::Reply random_reply(bool strict, std::mt19937& rng, bool* whole) {
    request_.strict_tools.clear();
    if (strict) request_.strict_tools.insert("f");
    std::unique_ptr<serve::TokenMask> mask;
    const auto problem = make_mask(model_, request_, prompt_, &mask);
    EXPECT_FALSE(problem) << problem->message;
    EXPECT_EQ(mask != nullptr, strict);
    const auto& supports = model_.engine->chat_template()->supports();
    const auto parser =
        token::make_reply_parser(supports.reply, &tokenizer(), supports.calls, token::text_arguments(request_.tools));
    parser->follow(prompt_.rendered);
    token::ReplyStream stream(tokenizer(), *parser);
    *whole = false;
    const auto take = [&](int32_t id) {
      if (mask != nullptr) {
        const auto bits = mask->mask();
        EXPECT_TRUE(bits.ok()) << bits.error().message;
        if (!bits.ok() || (((*bits)[static_cast<size_t>(id) / 64] >> (id % 64)) & 1) == 0) return false;
        EXPECT_TRUE(mask->accept(id).ok());
      }
      stream.feed(id);
      *whole = tokenizer().is_eog(id);
      return true;
    };
    for (int step = 0; step < 200 && !*whole; ++step) {
      if (mask != nullptr) {
        const auto forced = mask->forced();
        EXPECT_TRUE(forced.ok());
        for (const int32_t id : *forced) EXPECT_TRUE(take(id));
      }
      if (rng() % 8 == 0) {
        take(tokenizer().vocab().eos);
      } else if (rng() % 4 != 0) {
        for (const int32_t id : tries_[rng() % tries_.size()]) {
          if (*whole || !take(id)) break;
        }
      } else {
        take(static_cast<int32_t>(rng() % static_cast<uint32_t>(tokenizer().size())));
      }
    }
    stream.finish();
    return parser->reply();
  }

 private:
  const token::Tokenizer& tokenizer() const { return model_.engine->tokenizer(); }

  serve::LoadedModel model_;
  Request request_;
  engine::ChatPrompt prompt_;
  std::vector<std::vector<int32_t>> tries_;
};

class StrictTools : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, StrictTools,
                         ::testing::Values("harmony-tools", "tagged-tools", "bare-tools", "xml-tools", "arg-tools"),
                         [](const auto& which) {
                           std::string name = which.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(StrictTools, HoldWhateverAModelTries) {
  Family family(GetParam());
  const auto wanted = grammar::Grammar::from_schema(kSchema);
  ASSERT_TRUE(wanted.ok());
  for (const bool strict : {true, false}) {
    std::mt19937 rng(3);
    int n_good = 0, n_bad = 0, n_text = 0;
    for (int round = 0; round < 1500; ++round) {
      bool whole = false;
      const token::Reply reply = family.random_reply(strict, rng, &whole);
      n_text += whole && reply.calls.empty();
      for (size_t i = 0; i < reply.calls.size(); ++i) {
        const token::ReplyCall& call = reply.calls[i];
        if (!whole && i + 1 == reply.calls.size()) continue;  // cut off
        const bool object = Json::parse(call.arguments, nullptr, false).is_object();
        const auto match = match_text(*wanted, call.arguments);
        ASSERT_TRUE(match.ok());
        const bool fits = call.name == "f" ? match->complete : call.name == "g" && object;
        ++(fits ? n_good : n_bad);
        EXPECT_TRUE(fits || !strict) << call.name << call.arguments;
      }
    }
    if (!strict) {
      EXPECT_GT(n_bad, 20) << "the control";
      continue;
    }
    EXPECT_EQ(n_bad, 0);
    EXPECT_GT(n_good, 10);
    EXPECT_GT(n_text, 10);
  }
}

}  // namespace
}  // namespace quern::api
