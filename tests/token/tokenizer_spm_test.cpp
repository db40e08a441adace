// SentencePiece BPE: merging by score, byte fallback, unknown text, the space prefix, malformed vocabularies, growth.
#include <limits>

#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using namespace testing;

const std::vector<std::string> kPieces = {"\u2581\u2581",
                                          "he",
                                          "ll",
                                          "hell",
                                          "hello",
                                          "\u2581hello",
                                          "aa",
                                          "aaa",
                                          "\u2581",
                                          "h",
                                          "e",
                                          "l",
                                          "o",
                                          "a",
                                          "<",
                                          "s",
                                          ">",
                                          "/",
                                          "</",
                                          "</s"};

TEST(Spm, MergesByScore) {
  const auto tokenizer = spm_vocab(kPieces).build();
  EXPECT_EQ(tokens_of(*tokenizer, "hello"), "\u2581hello");
  EXPECT_EQ(tokens_of(*tokenizer, "hello hello"), "\u2581hello|\u2581hello");
  EXPECT_EQ(tokens_of(*tokenizer, "aaaaa"), "\u2581|aa|aaa");
  EXPECT_EQ(tokens_of(*tokenizer, ""), "");
  EXPECT_EQ(tokens_of(*tokenizer, " "), "\u2581\u2581");
}

TEST(Spm, FallsBackToBytes) {
  const auto tokenizer = spm_vocab(kPieces).build();
  EXPECT_EQ(tokens_of(*tokenizer, "h\u4E2D"), "\u2581|h|<0xE4>|<0xB8>|<0xAD>");
  EXPECT_EQ(tokens_of(*tokenizer, "\n"), "\u2581|<0x0A>");
  EXPECT_EQ(tokens_of(*tokenizer, "\xFFh"), "\u2581|<0xFF>|h");
}

TEST(Spm, UnknownNeighboursShareOneToken) {
  const auto tokenizer = spm_vocab(kPieces, false).build();
  EXPECT_EQ(tokens_of(*tokenizer, "hxyzh\u4E2D"), "\u2581|h|<unk>|h|<unk>");
}

TEST(Spm, SpacePrefixFollowsTheFile) {
  TestVocab v = spm_vocab(kPieces);
  v.data.add_space_prefix = false;
  const auto tokenizer = v.build();
  EXPECT_EQ(tokens_of(*tokenizer, "hello"), "hello");
  EXPECT_EQ(*tokenizer->decode(ids_of(*tokenizer, " hello"), false), " hello");
  const auto with = spm_vocab(kPieces).build();
  EXPECT_EQ(tokens_of(*with, "hello</s>hello", {.parse_special = true}), "\u2581hello|</s>|\u2581hello");
  EXPECT_EQ(*with->decode(ids_of(*with, " hello"), false), " hello");
}

TEST(Spm, TextNeverBecomesControl) {
  const auto tokenizer = spm_vocab(kPieces).build();
  EXPECT_EQ(tokens_of(*tokenizer, "</s>"), "\u2581|</s|>");
  EXPECT_EQ(tokens_of(*tokenizer, "<0x41>").find("|A"), std::string::npos);
  EXPECT_EQ(tokens_of(*tokenizer, "a</s>", {.parse_special = true}), "\u2581|a|</s>");
}

TEST(Spm, UserDefinedTokensComeFirst) {
  TestVocab v = spm_vocab(kPieces);
  v.data.add_space_prefix = false;
  v.add("  ", TokenType::user_defined);
  v.add("\n\n", TokenType::user_defined);
  const auto tokenizer = v.build();
  EXPECT_EQ(tokens_of(*tokenizer, "a   hello"), "a|  |\u2581hello");
  EXPECT_EQ(tokens_of(*tokenizer, "\n\n\n"), "\n\n|<0x0A>");
  EXPECT_EQ(*tokenizer->decode(ids_of(*tokenizer, "a  \n\n\n"), false), "a  \n\n\n");
}

TEST(Spm, DefaultsWhereTheFileIsSilent) {
  const auto tokenizer = spm_vocab(kPieces).build();
  EXPECT_EQ(tokenizer->vocab().bos, 1);
  EXPECT_EQ(tokenizer->vocab().eos, 2);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_TRUE(tokenizer->is_eog(2));
  EXPECT_EQ(tokens_of(*tokenizer, "hello", {.add_special = true}), "<s>|\u2581hello");
  TestVocab untyped = spm_vocab(kPieces);
  untyped.data.types.clear();
  EXPECT_EQ(untyped.build()->token_bytes(3 + 0x41), "A");
}

TEST(Spm, MalformedVocabulariesAreNamed) {
  struct Case {
    const char* expect;
    void (*spoil)(TestVocab&);
  };
  const Case cases[] = {
      {"scores has 5 entries", [](TestVocab& v) { v.data.scores.resize(5); }},
      {"score of token 270", [](TestVocab& v) { v.data.scores.at(270) = std::numeric_limits<float>::quiet_NaN(); }},
      {"'<0x-1>' is typed as a byte", [](TestVocab& v) { v.data.tokens[50] = "<0x-1>"; }},
      {"'<0xG0>' is typed as a byte", [](TestVocab& v) { v.data.tokens[50] = "<0xG0>"; }},
      {"'A' is typed as a byte", [](TestVocab& v) { v.data.tokens[50] = "A"; }},
      {"both '<0x41>'", [](TestVocab& v) { v.data.tokens[50] = "<0x41>"; }},
      {"the unknown token id 100000", [](TestVocab& v) { v.data.unk = 100000; }},
  };
  for (const Case& c : cases) {
    TestVocab v = spm_vocab(kPieces);
    c.spoil(v);
    const auto tokenizer = Tokenizer::create(v.data);
    ASSERT_FALSE(tokenizer.ok()) << c.expect;
    EXPECT_NE(tokenizer.error().message.find(c.expect), std::string::npos) << tokenizer.error().message;
  }
}

TEST(Spm, RoundTripsAnyBytes) {
  const auto tokenizer = spm_vocab(kPieces).build();
  std::mt19937 rng(4);
  for (int i = 0; i < 300; ++i) {
    std::string text = i % 2 == 0 ? random_bytes(rng, rng() % 80) : random_unicode(rng, rng() % 80);
    if (text.find("\u2581") != std::string::npos) continue;
    ASSERT_EQ(*tokenizer->decode(ids_of(*tokenizer, text), true), text);
  }
}

TEST(Spm, WorkGrowsLinearly) {
  const auto tokenizer = spm_vocab(kPieces).build();
  for (const char* piece : {"a", "A", "\n", " ", "hello ", "\u4E2D", "\u0301", "<", "</s"}) {
    EncodeWork work;
    std::string text;
    for (int i = 0; i < 40000; ++i) text += piece;
    ids_of(*tokenizer, text, {.parse_special = true, .work = &work});
    EXPECT_LE(work.merges, 3 * text.size());
    EXPECT_LE(work.markup_bytes, 6 * text.size());
    EXPECT_GT(work.merges + work.markup_bytes, 0u);
  }
}

}  // namespace
}  // namespace quern::token
