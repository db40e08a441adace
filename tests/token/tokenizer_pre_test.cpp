// Where each pre-tokenizer rule cuts: against tables made by Hugging Face tokenizers, and how its work grows.
#include "token/pretokenizer.h"

#include <string>
#include <vector>

#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using testing::random_bytes;
using testing::random_unicode;

constexpr PreRule kRules[] = {PreRule::basic,  PreRule::gpt2,   PreRule::llama3, PreRule::qwen2,
                              PreRule::qwen35, PreRule::smollm, PreRule::o200k,  PreRule::tekken};

std::vector<std::string> words(PreRule rule, std::string_view text) {
  std::vector<uint32_t> ends;
  split_words(rule, text, ends);
  std::vector<std::string> out;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

struct Golden {
  PreRule rule;
  std::string text;
  std::vector<std::string> words;
};

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> kGoldens = {
#include "tokenizer_pre_golden.inc"
  };
  return kGoldens;
}

TEST(PreTokenizer, CutsAsTheReferenceDoes) {
  for (const Golden& golden : goldens()) {
    EXPECT_EQ(words(golden.rule, golden.text), golden.words)
        << "rule " << static_cast<int>(golden.rule) << " text '" << golden.text << "'";
  }
}

TEST(PreTokenizer, TheTableTellsTheRulesApart) {
  // Every two rules differ on some text of the table, so no rule can stand in for another.
  for (const PreRule a : kRules) {
    for (const PreRule b : kRules) {
      if (a == b) continue;
      bool differ = false;
      for (const Golden& golden : goldens()) differ |= golden.rule == a && words(b, golden.text) != golden.words;
      EXPECT_TRUE(differ) << static_cast<int>(a) << " and " << static_cast<int>(b);
    }
  }
}

TEST(PreTokenizer, InvalidBytesAreSymbols) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words(PreRule::gpt2, "a\xFF\xFE b"), (Words{"a", "\xFF\xFE", " b"}));
  EXPECT_EQ(words(PreRule::gpt2, "\xE4\xB8"), (Words{"\xE4\xB8"}));                  // an unfinished character
  EXPECT_EQ(words(PreRule::gpt2, "1\xC0\x80"), (Words{"1", "\xC0\x80"}));            // overlong
  EXPECT_EQ(words(PreRule::llama3, "\xED\xA0\x80x"), (Words{"\xED\xA0\x80", "x"}));  // a surrogate
  EXPECT_EQ(words(PreRule::llama3, "\xFFx"), (Words{"\xFFx"}));                      // the one character before letters
}

TEST(PreTokenizer, WordsJoinToTheText) {
  std::mt19937 rng(1);
  for (int i = 0; i < 400; ++i) {
    const std::string text = i % 2 == 0 ? random_bytes(rng, rng() % 60) : random_unicode(rng, rng() % 60);
    for (const PreRule rule : kRules) {
      std::vector<uint32_t> ends;
      split_words(rule, text, ends);
      uint32_t last = 0;
      for (const uint32_t end : ends) {
        ASSERT_GT(end, last);
        last = end;
      }
      ASSERT_EQ(last, text.size());
    }
  }
}

TEST(PreTokenizer, WorkIsLinear) {
  constexpr size_t kCount = 20000;
  const std::vector<std::string> pieces = {"A",       "a",       "\n",      " ",          "\t ",  " \n",    "1",
                                           "'",       "!",       "/",       "Aa",         "aA",   "\u4E2D", "\u0301",
                                           "\u0301A", "\u02B0A", "A\u02B0", "e\u0301",    "\xFF", "'s",     "a ",
                                           " \r",     "1\n",     "\u00A0",  "\U0001F44D", "!\n"};
  for (const std::string& piece : pieces) {
    std::string text;
    for (size_t i = 0; i < kCount; ++i) text += piece;
    for (const PreRule rule : kRules) {
      std::vector<uint32_t> ends;
      const uint64_t reads = split_words(rule, text, ends);
      EXPECT_GE(reads, kCount) << "nothing was counted";
      EXPECT_LE(reads, 60 * kCount) << "rule " << static_cast<int>(rule) << " piece '" << piece << "'";
    }
  }
}

TEST(PreTokenizer, NamesStandForTheirRules) {
  constexpr PreTokenizer kExpected[] = {
      {"default", PreRule::basic},
      {"gpt-2", PreRule::gpt2},
      {"llama-bpe", PreRule::llama3, true, true},
      {"qwen2", PreRule::qwen2, false, false, true},  // qwen2moe and qwen3moe files too
      {"qwen35", PreRule::qwen35, false, false, true},
      {"smollm", PreRule::smollm},
      {"tekken", PreRule::tekken, true, true},  // mistral3, Mistral Small
      {"gpt-4o", PreRule::o200k},               // gpt-oss
      {"llama4", PreRule::o200k},
      {"chatglm-bpe", PreRule::llama3},
      {"glm4", PreRule::llama3, true},  // glm4moe files too
  };
  for (const PreTokenizer& expected : kExpected) {
    const PreTokenizer* found = find_pretokenizer(expected.name);
    ASSERT_NE(found, nullptr) << expected.name;
    EXPECT_EQ(found->rule, expected.rule) << expected.name;
    EXPECT_EQ(found->ignore_merges, expected.ignore_merges) << expected.name;
    EXPECT_EQ(found->add_bos, expected.add_bos) << expected.name;
    EXPECT_EQ(found->nfc, expected.nfc) << expected.name;
  }
  EXPECT_EQ(find_pretokenizer("no-such-rule"), nullptr);
  EXPECT_NE(known_pretokenizers().find("tekken, gpt-4o"), std::string::npos);
}

TEST(Unicode, DecodesStrictly) {
  const auto decode = [](std::string_view s) { return decode_utf8(s, 0); };
  EXPECT_EQ(decode("a").code_point, uint32_t{'a'});
  EXPECT_EQ(decode("\u00E9").code_point, 0xE9u);
  EXPECT_EQ(decode("\uFFFF").code_point, 0xFFFFu);
  EXPECT_EQ(decode("\U0010FFFF").code_point, 0x10FFFFu);
  for (const std::string_view bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                     "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE4\xB8",
                                     "\xE4"
                                     "a"}) {
    EXPECT_EQ(decode(bad).code_point, kInvalidByte);
    EXPECT_EQ(decode(bad).length, 1u);
  }
  for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 37) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string s;
    append_utf8(s, c);
    ASSERT_EQ(decode(s).code_point, c);
    ASSERT_EQ(decode(s).length, s.size());
  }
}

TEST(Unicode, Classes) {
  EXPECT_EQ(char_class('A'), CharClass::upper);
  EXPECT_EQ(char_class(0x1C5), CharClass::upper);  // titlecase
  EXPECT_EQ(char_class('z'), CharClass::lower);
  EXPECT_EQ(char_class(0x4E2D), CharClass::letter);
  EXPECT_EQ(char_class(0x301), CharClass::mark);
  EXPECT_EQ(char_class(0xBD), CharClass::number);
  EXPECT_EQ(char_class(0x85), CharClass::space);
  EXPECT_EQ(char_class(0x200B), CharClass::other);
  EXPECT_EQ(char_class('-'), CharClass::punct);
  EXPECT_EQ(char_class('+'), CharClass::other);
  EXPECT_EQ(char_class(0), CharClass::other);
  EXPECT_EQ(char_class(0x10FFFF), CharClass::other);
  EXPECT_EQ(char_class(kInvalidByte), CharClass::other);
}

TEST(Unicode, NormalizesToComposedForm) {
  EXPECT_EQ(normalize_nfc("plain \u00E9"), "plain \u00E9");
  EXPECT_EQ(normalize_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(normalize_nfc("a\u0308\u0323"), "\u1EA1\u0308");  // reordered, then composed
  EXPECT_EQ(normalize_nfc("\u1100\u1161\u11A8"), "\uAC01");   // Hangul
  EXPECT_EQ(normalize_nfc("\u212B\u2126"), "\u00C5\u03A9");   // singletons
  EXPECT_EQ(normalize_nfc("\u0958"), "\u0915\u093C");         // excluded from composition
  EXPECT_EQ(normalize_nfc("\xFF"
                          "e\u0301\xE4\xB8"),
            "\xFF\u00E9\xE4\xB8");                             // invalid bytes stay
  EXPECT_EQ(normalize_nfc("a\u0650\u07FD"), "a\u0650\u07FD");  // a mark newer than the reference's table
  std::string many = "a";
  for (int i = 0; i < 60000; ++i) many += i < 30000 ? "\u0301" : "\u0323";  // sorting by exchange would take 1e9 steps
  EXPECT_EQ(normalize_nfc(many).substr(0, 3), "\u1EA1");
}

}  // namespace
}  // namespace quern::token
