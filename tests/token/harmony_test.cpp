// Harmony replies: documented forms, malformed ones, any cuts, and round trips through writing and a chat template.
#include "token/harmony.h"

#include <cstdlib>
#include <random>

#include "base/file_io.h"
#include "reply_testing.h"
#include "token/chat.h"
#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using testing::read_pieces;
using testing::read_reply;
using testing::shown;

std::string read(std::string_view text) {
  return shown(read_reply(ReplyFormat::harmony, text));
}

std::vector<HarmonyMessage> messages_of(std::span<const TextPiece> pieces, size_t limit = 0,
                                        std::mt19937* rng = nullptr) {
  HarmonyParser parser(false);
  read_pieces(parser, pieces, limit, rng);
  return parser.messages();
}

std::vector<HarmonyMessage> messages_of(std::string_view text) {
  const TextPiece piece{text, true};
  return messages_of({&piece, 1});
}

constexpr std::string_view kAnswer =
    "<|channel|>analysis<|message|>Simple.<|end|><|start|>assistant<|channel|>final<|message|>4.<|return|>";
constexpr std::string_view kCall =
    "<|channel|>analysis<|message|>Use it.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Z\"}"
    "<|call|>";

TEST(Harmony, DocumentedRepliesAreTakenApart) {
  EXPECT_EQ(read(kAnswer), "reasoning:Simple.|content:4.");
  EXPECT_EQ(read(kCall), "reasoning:Use it.|content:I look.|call get_weather:{\"city\":\"Z\"}");
  const auto messages = messages_of(kCall);
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].channel, "analysis");
  EXPECT_EQ(messages[0].end, HarmonyEnd::end);
  EXPECT_EQ(messages[2].role, "assistant");
  EXPECT_EQ(messages[2].recipient, "functions.get_weather");
  EXPECT_EQ(messages[2].content_type, "json");
  EXPECT_TRUE(messages[2].constrained);
  EXPECT_FALSE(messages[2].recipient_first);
  EXPECT_EQ(messages[2].end, HarmonyEnd::call);
  EXPECT_EQ(read("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>"),
            "reasoning:a\n\nb");
}

TEST(Harmony, ARecipientMakesACallOnAnyChannel) {
  const std::string call = "call f:{}";
  EXPECT_EQ(read(" to=functions.f<|channel|>commentary json<|message|>{}<|call|>"), call);
  EXPECT_EQ(read(" to=functions.f<|channel|>analysis<|message|>{}<|call|>"), call);
  EXPECT_EQ(read("<|channel|>analysis to=functions.f code<|message|>{}"), call);
  EXPECT_EQ(read("<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|end|>"), call);
  EXPECT_EQ(read("<|channel|> commentary to=functions.f <|constrain|> json<|message|>{}<|call|>"), call);
  EXPECT_EQ(read("<|channel|>analysis to=browser.search code<|message|>{}<|call|>"), "builtin browser.search:{}");
  EXPECT_EQ(read("<|channel|>analysis to=python<|message|>1<|call|>"), "builtin python:1");
  EXPECT_EQ(read("to=functions.f<|channel|>commentary<|message|>{}<|call|>"), call);
  EXPECT_EQ(read("<|start|>to=functions.f<|channel|>commentary<|message|>{}<|call|>"), call);
  EXPECT_EQ(read("<|channel|>commentary to=assistant<|message|>x<|end|>"), "content:x");  // nobody to call
  EXPECT_EQ(read("<|channel|>final <|constrain|>json<|message|>{}<|return|>"), "content:{}");
  EXPECT_EQ(messages_of(" to=functions.f<|channel|>commentary json<|message|>{}<|call|>")[0].recipient_first, true);
}

TEST(Harmony, ReasonsInMessagesThatAreReasoning) {
  const auto reasons = [](std::string_view text) {
    HarmonyParser parser(false);
    parser.feed({text, true});
    return parser.reasons();
  };
  for (const char* text : {"<|channel|>analysis<|message|>", "<|channel|>analysis<|message|>hm",
                           "<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>"})
    EXPECT_TRUE(reasons(text)) << text;
  for (const char* text :
       {"", "<|channel|>", "<|channel|>analysis", "<|channel|>analysis<|message|>hm<|end|>",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant", "<|channel|>commentary<|message|>a",
        "<|channel|>analysis to=functions.f<|message|>{", "<|channel|>final<|message|>a", "a"})
    EXPECT_FALSE(reasons(text)) << text;
}

TEST(Harmony, WhatKeepsToNoFormatIsText) {
  EXPECT_EQ(read("I'm sorry, I can't.<|end|>"), "content:I'm sorry, I can't.");
  EXPECT_EQ(read("to be or not<|return|>"), "content:to be or not");
  EXPECT_EQ(read("as it is"), "content:as it is");
  EXPECT_EQ(read("<|start|>Hello there<|end|>"), "content:Hello there");
  EXPECT_EQ(read("<|constrain|>write: hello world<|end|>"), "content:write: hello world");
  EXPECT_EQ(read("<|channel|>final Hello  you<|return|>"), "content:Hello  you");
  EXPECT_EQ(read("<|channel|>analysis so what<|end|>"), "reasoning:so what");
  EXPECT_EQ(read("<|channel|>?? x<|end|>"), "content:?? x");
  EXPECT_EQ(read("<|channel|>commentary?commentary?<|message|>x<|end|>"), "content:x");
  EXPECT_EQ(read("<|channel|>thoughts<|message|>x<|end|>"), "content:x");
  EXPECT_EQ(read("<|channel|><|message|>x<|end|>"), "content:x");
  EXPECT_EQ(read("<|channel|>commentary to=functions.f {\"a\": 1}<|call|>"), "call f:{\"a\": 1}");
  EXPECT_EQ(read("<|channel|>commentary to=functions.f<|call|>"), "call f:");
  EXPECT_EQ(read("<|channel|>commentary to=functions.f<|end|>"), "");
  EXPECT_EQ(read("<|start|><|start|>assistant<|channel|>final<|message|>x"), "content:x");
  EXPECT_EQ(read("<|start|>assistantassistant<|channel|>final<|message|>x"), "content:x");
  EXPECT_EQ(read("<|message|>x<|constrain|>y<|message|>z"), "content:xyz");
  EXPECT_EQ(read("<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|end|>"), "reasoning:a|content:b");
  EXPECT_EQ(read("<|channel|>analysis<|message|>a<|end|>\n364 <|start|>assistant<|channel|>final<|message|>b"),
            "reasoning:a|content:\n364 \n\nb");
  EXPECT_EQ(read("<|channel|>final<|message|>a<|end|>\n"), "content:a");
  EXPECT_EQ(read("<|channel|>final<|message|>a<|en"), "content:a<|en");
  EXPECT_EQ(read("<|end|><|end|><|return|>"), "");
  // Other roles' messages are the model's own invention, and not its answer.
  EXPECT_EQ(read("<|channel|>final<|message|>a<|end|><|start|>user<|message|>q<|end|>"), "reasoning:q|content:a");
  EXPECT_EQ(read("<|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>"), "reasoning:42");
}

TEST(Harmony, LongTextInPlaceOfAHeaderIsNotHeldBack) {
  HarmonyParser parser(false);
  const std::string words(100000, 'x');
  EXPECT_FALSE(parser.feed({"Well, ", false}).empty());  // at once
  HarmonyParser late(false);
  late.feed({"<|channel|>", true});
  EXPECT_TRUE(late.feed({words.substr(0, HarmonyParser::kMaxHeader / 2), false}).empty());
  EXPECT_FALSE(late.feed({words, false}).empty());
  late.finish();
  EXPECT_EQ(late.reply().content.size(), words.size() + HarmonyParser::kMaxHeader / 2);
  // A long body with the beginnings of markup in it goes through at once, but for the last of them.
  std::string body;
  while (body.size() < 1000000) body += "<|en <|< ";
  HarmonyParser reasoning(false);
  reasoning.feed({"<|channel|>analysis<|message|>", true});
  EXPECT_EQ(reasoning.feed({body + "<|", true})[0].text, body);
  EXPECT_EQ(reasoning.finish()[0].text, "<|");
  HarmonyParser many(false);
  for (int i = 0; i < 1000; ++i) many.feed({"<|channel|>", true});
  EXPECT_LE(many.messages().size(), 16U);  // each of the longest header
}

TEST(Harmony, TextAndMarkupAreKeptApart) {
  const TextPiece pieces[] = {{"<|channel|>", true}, {"final", false},  {"<|message|>", true}, {"<|end|>", false},
                              {"<|re", true},        {"turn|>", false}, {"<|return|>", true}};
  const auto messages = messages_of(pieces);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].content, "<|end|><|return|>");
  EXPECT_EQ(messages[0].end, HarmonyEnd::done);
  // The control: the same bytes as markup end the message at the first name.
  EXPECT_EQ(read("<|channel|>final<|message|><|end|><|return|><|return|>"), "");
}

TEST(Harmony, TheReplyGoesOnWhereThePromptEnds) {
  const auto after = [](std::string_view prompt, std::string_view typed, std::string_view text) {
    jinja::Rendered rendered;
    rendered.text = std::string("<|start|>user<|message|>").append(typed).append(prompt);
    add_span(rendered.content, 24, 24 + typed.size());
    HarmonyParser parser(false);
    parser.follow(rendered);
    const TextPiece piece{text, true};
    read_pieces(parser, {&piece, 1});
    return shown(parser.reply());
  };
  EXPECT_EQ(after("<|end|><|start|>assistant", "q", kAnswer), "reasoning:Simple.|content:4.");
  EXPECT_EQ(after("<|end|>", "q", "<|start|>assistant<|channel|>final<|message|>x"), "content:x");
  EXPECT_EQ(after("<|end|><|start|>assistant<|channel|>analysis<|message|>Let", "q", " me<|end|>"), "reasoning: me");
  EXPECT_EQ(after("<|end|><|start|>assistant to=functions.f<|channel|>commentary<|message|>{", "q", "}<|call|>"),
            "call f:}");
  EXPECT_EQ(after("<|end|><|start|>assistant<|channel|>", "q", "final<|message|>x"), "content:x");
  // What a person typed is not where the prompt ends.
  EXPECT_EQ(after("<|end|><|start|>assistant", "<|start|>assistant<|channel|>analysis<|message|>",
                  "<|channel|>final<|message|>x"),
            "content:x");
}

// ---- properties over random messages and random streams

std::string random_text(std::mt19937& rng) {
  constexpr std::string_view kBits[] = {"a",  " ",     "\n", "{\"x\":1}", "<|",        "<|end|>", "<|start|>assistant",
                                        "to", "final", "|>", "\u4E2D",    "<|channel", "\xFF",    "analysis"};
  std::string out;
  for (size_t n = rng() % 8; n > 0; --n) out += kBits[rng() % std::size(kBits)];
  return out;
}

template <class Container>
auto pick(std::mt19937& rng, const Container& from) {
  return from[rng() % std::size(from)];
}

HarmonyMessage random_message(std::mt19937& rng) {
  HarmonyMessage m;
  m.role = pick(rng, std::vector<std::string>{"assistant", "assistant", "assistant", "user", "functions.f"});
  m.channel = pick(rng, std::vector<std::string>{"analysis", "commentary", "final", ""});
  m.recipient = pick(rng, std::vector<std::string>{"", "functions.f", "python", "assistant", "functions.<|end|>"});
  if (!m.recipient.empty()) m.recipient_first = m.channel.empty() || rng() % 2 == 0;
  if (!m.channel.empty() && rng() % 2 == 0) m.content_type = "json";
  m.constrained = !m.content_type.empty() && rng() % 2 == 0;
  m.content = random_text(rng);
  m.end = pick(rng, std::vector<HarmonyEnd>{HarmonyEnd::end, HarmonyEnd::done, HarmonyEnd::call});
  return m;
}

// Where the two differ, or nothing.
std::string difference(const HarmonyMessage& a, const HarmonyMessage& b) {
  if (a.role != b.role) return "role";
  if (a.recipient != b.recipient) return "recipient";
  if (a.channel != b.channel) return "channel";
  if (a.content_type != b.content_type || a.constrained != b.constrained) return "content type";
  if (a.recipient_first != b.recipient_first) return "the recipient's place";
  if (a.content != b.content) return "content";
  return a.end != b.end ? "end" : "";
}

std::string difference(const std::vector<HarmonyMessage>& a, const std::vector<HarmonyMessage>& b) {
  if (a.size() != b.size()) return "count";
  for (size_t i = 0; i < a.size(); ++i) {
    if (const std::string what = difference(a[i], b[i]); !what.empty()) return what;
  }
  return "";
}

TEST(HarmonyProperty, WrittenMessagesAreReadBackAndWrittenTheSame) {
  std::mt19937 rng(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<HarmonyMessage> messages(1 + rng() % 4);
    for (auto& m : messages) m = random_message(rng);
    const jinja::Rendered text = render_harmony(messages);
    const auto pieces = pieces_of(text);
    HarmonyParser parser(false);
    parser.follow(jinja::Rendered{"<|start|>user<|message|><|end|>", {}});
    read_pieces(parser, pieces, rng() % 7, &rng);
    ASSERT_EQ(difference(parser.messages(), messages), "") << text.text;
    // The header as it was read gives the same text too.
    ASSERT_EQ(render_harmony(parser.messages()).text, text.text);
    // The control: the comparison sees one changed byte.
    auto poisoned = messages;
    poisoned[rng() % poisoned.size()].content += 'x';
    ASSERT_EQ(difference(parser.messages(), poisoned), "content");
  }
}

TEST(HarmonyProperty, RepliesAreWrittenAsTheModelWritesThem) {
  constexpr std::string_view kStart = "<|start|>assistant";
  for (const std::string_view text : {kAnswer, kCall}) {
    EXPECT_EQ(render_harmony(harmony_messages(read_reply(ReplyFormat::harmony, text))).text,
              std::string(kStart).append(text));
  }
  std::mt19937 rng(6);
  for (int round = 0; round < 2000; ++round) {
    Reply reply{random_text(rng), random_text(rng), {}};
    for (size_t n = rng() % 3; n > 0; --n) reply.calls.push_back({rng() % 2 ? "f" : "g_2", random_text(rng), false});
    if (rng() % 4 == 0) reply.calls.push_back({"browser.open", random_text(rng), true});
    const jinja::Rendered text = render_harmony(harmony_messages(reply));
    HarmonyParser parser(false);
    parser.follow(jinja::Rendered{"<|start|>user<|message|><|end|>", {}});
    read_pieces(parser, pieces_of(text), rng() % 7, &rng);
    ASSERT_EQ(shown(parser.reply()), shown(reply)) << text.text;
    ASSERT_EQ(render_harmony(parser.messages()).text, text.text);
  }
}

TEST(HarmonyProperty, AnyStreamGivesTheSameHoweverCut) {
  constexpr std::string_view kBits[] = {"<|start|>",
                                        "<|end|>",
                                        "<|message|>",
                                        "<|channel|>",
                                        "<|constrain|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "assistant",
                                        "user",
                                        "analysis",
                                        "final",
                                        "commentary",
                                        " to=",
                                        "functions.f",
                                        " ",
                                        "\n",
                                        "json",
                                        "hello",
                                        "<|",
                                        "to=x",
                                        "{\"a\":1}",
                                        "\xE4\xB8\xAD",
                                        "<|start|>assistant<|channel|>final<|message|>"};
  std::mt19937 rng(7);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (size_t n = rng() % 24; n > 0; --n) text += kBits[rng() % std::size(kBits)];
    if (round % 50 == 0) text += "<|channel|>" + std::string(HarmonyParser::kMaxHeader + rng() % 9, ' ') + "tail";
    const Reply whole = read_reply(ReplyFormat::harmony, text);
    const Reply bytes = read_reply(ReplyFormat::harmony, text, 1);
    const Reply cut = read_reply(ReplyFormat::harmony, text, 9, &rng);
    ASSERT_EQ(shown(bytes), shown(whole)) << text;
    ASSERT_EQ(shown(cut), shown(whole)) << text;
  }
}

TEST(Harmony, ChatTemplateAndParserAgree) {
  const char* root = std::getenv("QUERN_SOURCE_DIR");
  const auto source =
      read_file(std::string(root != nullptr ? root : ".") + "/tests/token/jinja_templates/harmony.jinja");
  ASSERT_TRUE(source.ok());
  const auto chat = ChatTemplate::compile(*source, {});
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->supports().reply, ReplyFormat::harmony);
  const Reply reply{"I should <|look|>.", "", {{"get_weather", R"({"city":"Z\u00fcrich","days":[1,2]})", false}}};
  Message question;
  question.role = "user";
  question.content = "Weather? <|end|>";
  std::vector<Message> messages = {question, message_of(reply)};
  ASSERT_TRUE(chat->adapt(messages).ok());
  ChatOptions options;
  options.now = [] { return std::tm{}; };
  options.add_generation_prompt = false;
  const auto after = chat->render(messages, options);
  ASSERT_TRUE(after.ok()) << after.error().message;
  options.add_generation_prompt = true;
  const auto before = chat->render({messages.data(), 1}, options);
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(after->text.starts_with(before->text));
  HarmonyParser parser(false);
  parser.follow(*before);
  // The rest of the pieces behind the generation prompt.
  std::vector<TextPiece> rest;
  size_t at = 0;
  for (const TextPiece& piece : pieces_of(*after)) {
    const size_t skip = std::min(piece.text.size(), before->text.size() - std::min(at, before->text.size()));
    rest.push_back({piece.text.substr(skip), piece.markup});
    at += piece.text.size();
  }
  read_pieces(parser, rest);
  EXPECT_EQ(parser.reply().reasoning, reply.reasoning);
  ASSERT_EQ(parser.reply().calls.size(), 1U);
  EXPECT_EQ(parser.reply().calls[0].name, "get_weather");
  EXPECT_EQ(Json::parse(parser.reply().calls[0].arguments), Json::parse(reply.calls[0].arguments));
}

TEST(Harmony, IdsOfAGptOssLikeVocabulary) {
  testing::TestVocab vocab = testing::byte_vocab("gpt-4o");
  for (const char* name :
       {"<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>"}) {
    vocab.add(name, TokenType::control);
  }
  const auto tokenizer = vocab.build();
  const auto parser = make_reply_parser(ReplyFormat::harmony, tokenizer.get());
  ReplyStream stream(*tokenizer, *parser);
  auto ids = testing::ids_of(*tokenizer, kCall, {.parse_special = true});
  const auto text = testing::ids_of(*tokenizer, "<|end|>\u4E2D");  // spelt by ordinary tokens
  ids.insert(ids.end() - 1, text.begin(), text.end());
  for (const int32_t id : ids) stream.feed(id);
  stream.finish();
  EXPECT_EQ(shown(parser->reply()), "reasoning:Use it.|content:I look.|call get_weather:{\"city\":\"Z\"}<|end|>\u4E2D");
  // Every end of generation that the format has, and <|end|> is none.
  for (const char* name : {"<|return|>", "<|call|>"}) EXPECT_TRUE(tokenizer->is_eog(*tokenizer->find(name))) << name;
  EXPECT_FALSE(tokenizer->is_eog(*tokenizer->find("<|end|>")));
}

}  // namespace
}  // namespace quern::token
