// Replies taken apart: with and without reasoning in tags, from text and from ids, cut in every way.
#include "token/reply.h"

#include <random>

#include "reply_testing.h"
#include "token/chat.h"
#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using testing::ids_of;
using testing::read_reply;
using testing::shown;

std::string think(std::string_view text) {
  return shown(read_reply(ReplyFormat::think, text));
}

jinja::Rendered prompt_of(std::string_view markup, std::string_view content = {}) {
  jinja::Rendered prompt;
  prompt.text = std::string(markup) + std::string(content);
  add_span(prompt.content, markup.size(), prompt.text.size());
  return prompt;
}

TEST(Reply, TheTemplateTellsTheFormat) {
  EXPECT_EQ(reply_format_of("{{ '<|start|>assistant<|channel|>final<|message|>' + c }}"), ReplyFormat::harmony);
  EXPECT_EQ(reply_format_of("{{ c.split('</think>')[-1] }}"), ReplyFormat::think);
  EXPECT_EQ(reply_format_of("[THINK]{{ c }}[/THINK]"), ReplyFormat::bracketed_think);
  EXPECT_EQ(reply_format_of("{{ '<|start|>' + role + '<|message|>' }}"), ReplyFormat::plain);
  const auto compiled = ChatTemplate::compile("{{ messages[0].content }}<think></think>", {});
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->supports().reply, ReplyFormat::think);
}

TEST(Reply, PlainTextIsTheAnswer) {
  EXPECT_EQ(shown(read_reply(ReplyFormat::plain, " <think>a</think>\n<|end|>")), "content: <think>a</think>\n<|end|>");
  EXPECT_EQ(shown(read_reply(ReplyFormat::plain, "")), "");
}

TEST(Reply, ReasoningStandsInTagsAtTheBeginning) {
  EXPECT_EQ(think("<think>\nwhy\n\nso\n</think>\n\nYes.\n"), "reasoning:why\n\nso|content:Yes.\n");
  EXPECT_EQ(think(" \n<think>why</think>Yes"), "reasoning:why|content:Yes");
  EXPECT_EQ(think("<think>\n\n</think>\n\nYes"), "content:Yes");
  EXPECT_EQ(think("<think>a <think> b</think>c</think>"), "reasoning:a <think> b|content:c</think>");
  EXPECT_EQ(think("No <think>x</think>"), "content:No <think>x</think>");
  EXPECT_EQ(think("<think>cut of\n"), "reasoning:cut of\n");
  EXPECT_EQ(think("</think>Yes"), "content:Yes");
  EXPECT_EQ(think("<thin"), "content:<thin");
  EXPECT_EQ(think("<think>a</thin"), "reasoning:a</thin");
  EXPECT_EQ(think("  "), "content:  ");
  EXPECT_EQ(shown(read_reply(ReplyFormat::bracketed_think, "[THINK]a [b][/THINK]c")), "reasoning:a [b]|content:c");
}

TEST(Reply, ThePromptMayHaveOpenedOrClosedTheBlock) {
  const auto after = [](const jinja::Rendered& prompt, std::string_view text) {
    const auto parser = make_reply_parser(ReplyFormat::think);
    parser->follow(prompt);
    parser->feed({text, true});
    parser->finish();
    return shown(parser->reply());
  };
  EXPECT_EQ(after(prompt_of("<|Assistant|><think>\n"), "why\n</think>\n\nYes"), "reasoning:why|content:Yes");
  EXPECT_EQ(after(prompt_of("<think>\n\n</think>\n\n"), "<think>x</think>Yes"), "content:<think>x</think>Yes");
  EXPECT_EQ(after(prompt_of("<|Assistant|>"), "<think>why</think>Yes"), "reasoning:why|content:Yes");
  // What a person typed opens nothing.
  EXPECT_EQ(after(prompt_of("<|User|>", "<think>"), "Yes"), "content:Yes");
}

// What ends reasoning ends it, in every format, and the rest is answer.
TEST(Reply, TheEndOfReasoning) {
  const std::pair<ReplyFormat, const char*> rows[] = {{ReplyFormat::think, "<think>hm"},
                                                      {ReplyFormat::bracketed_think, "[THINK]hm"},
                                                      {ReplyFormat::harmony, "<|channel|>analysis<|message|>hm"}};
  for (const auto& [format, begin] : rows) {
    const auto parser = make_reply_parser(format);
    EXPECT_FALSE(parser->reasons());
    parser->feed({begin, true});
    EXPECT_TRUE(parser->reasons());
    for (const TextPiece& piece : end_of_reasoning(format, false)) parser->feed(piece);
    EXPECT_FALSE(parser->reasons());
    parser->feed({"yes", false});
    parser->finish();
    EXPECT_EQ(shown(parser->reply()), "reasoning:hm|content:yes");
  }
  EXPECT_TRUE(end_of_reasoning(ReplyFormat::plain, false).empty());
}

TEST(Reply, DeltasDoNotDependOnTheCuts) {
  for (const std::string_view text :
       {"<think>\n\nw<hy\n</thi\n</think>\n\n\nYes </think> \n", " \n <thi", "<think>\n"}) {
    for (const ReplyFormat format : {ReplyFormat::think, ReplyFormat::plain}) {
      const std::string whole = shown(read_reply(format, text));
      std::mt19937 rng(1);
      for (size_t limit = 1; limit < 12; ++limit) EXPECT_EQ(shown(read_reply(format, text, limit, &rng)), whole);
    }
  }
}

TEST(Reply, TextAndMarkupAreKeptApart) {
  const auto parser = make_reply_parser(ReplyFormat::think);
  parser->feed({"<think>", false});  // spelt by ordinary tokens
  parser->feed({"x", false});
  parser->finish();
  EXPECT_EQ(shown(parser->reply()), "content:<think>x");
  const auto seam = make_reply_parser(ReplyFormat::think);
  seam->feed({"<thi", true});
  seam->feed({"nk>", false});
  EXPECT_EQ(shown(seam->reply()), "content:<think>");
}

testing::TestVocab think_vocab(bool with_tokens) {
  testing::TestVocab vocab = testing::byte_vocab("gpt-2");  // has <think>
  if (with_tokens) vocab.add("</think>", TokenType::user_defined);
  return vocab;
}

std::string by_ids(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const auto parser = make_reply_parser(ReplyFormat::think, &tokenizer);
  ReplyStream stream(tokenizer, *parser);
  for (const int32_t id : ids) {
    for (const auto& delta : stream.feed(id)) {
      size_t at = 0;  // each delta is whole characters
      while (at < delta.text.size()) {
        const Utf8Step step = classify_utf8(delta.text, at);
        EXPECT_EQ(step.state, Utf8State::complete);
        at += step.length;
      }
    }
  }
  stream.finish();
  return shown(parser->reply());
}

TEST(ReplyStream, MarkupIsWhatTheVocabularySays) {
  const std::string_view text = "<think>a\u4E2D</think>b\U0001F600";
  for (const bool with_tokens : {false, true}) {
    const auto tokenizer = think_vocab(with_tokens).build();
    EXPECT_EQ(by_ids(*tokenizer, ids_of(*tokenizer, text)), "reasoning:a\u4E2D|content:b\U0001F600") << with_tokens;
  }
  // Where there are tokens, the same characters in ordinary tokens are text.
  const auto tokenizer = think_vocab(true).build();
  std::vector<int32_t> ids = ids_of(*tokenizer, "<think>a");
  for (const char c : std::string_view("</think>")) ids.push_back(static_cast<uint8_t>(c));
  EXPECT_EQ(by_ids(*tokenizer, ids), "reasoning:a</think>");
}

TEST(ReplyStream, OtherControlTokensAndBrokenCharactersDoNoHarm) {
  const auto tokenizer = think_vocab(true).build();
  std::vector<int32_t> ids = {*tokenizer->find("<think>"),    'a', 0xE4, 0xB8,    *tokenizer->find("</think>"),
                              *tokenizer->find("<|im_end|>"), 'b', -1,   1 << 30, 0xE4};
  EXPECT_EQ(by_ids(*tokenizer, ids), "reasoning:a\uFFFD|content:b\uFFFD");
}

TEST(Reply, BecomesTheNextPromptsMessage) {
  Reply reply{"why", "", {{"f", "{\"x\":1}", false}, {"g", "", false}}};
  const Message message = message_of(reply, 41);
  EXPECT_EQ(message.role, "assistant");
  EXPECT_TRUE(message.content.is_null());
  EXPECT_EQ(message.reasoning_content, "why");
  EXPECT_EQ(message.tool_calls, Json::parse(R"([
      {"id": "call00041", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
      {"id": "call00042", "type": "function", "function": {"name": "g", "arguments": ""}}])"));
  EXPECT_EQ(message_of({}).content, "");
}

}  // namespace
}  // namespace quern::token
