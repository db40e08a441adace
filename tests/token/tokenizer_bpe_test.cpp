// Byte-level BPE: merging, whole tokens in text, special ids, malformed vocabularies, round trips, growth of work.
#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using namespace testing;

TEST(Bpe, MergesBestFirstThenLeftmost) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  EXPECT_EQ(tokens_of(*tokenizer, "hello"), "hello");
  EXPECT_EQ(tokens_of(*tokenizer, "hellhe"), "hell|he");
  EXPECT_EQ(tokens_of(*tokenizer, "aaaaa"), "aa|aaa");  // aa, aa, a: then the second aa takes the last a
  EXPECT_EQ(tokens_of(*tokenizer, "hello world"), "hello|\u0120w|o|r|l|d");
  EXPECT_EQ(tokens_of(*tokenizer, "\u4E2D\u4E3D"), "\u00E4\u00B8\u0143|\u00E4\u00B8|\u00BD");
  EXPECT_TRUE(ids_of(*tokenizer, "").empty());
}

TEST(Bpe, WholeWordsBypassMergesWhereTheRuleSaysSo) {
  for (const bool whole : {false, true}) {
    TestVocab v = byte_vocab(whole ? "llama-bpe" : "dbrx");  // one rule, two settings
    v.add("xyz");                                            // reachable by no merge
    const auto tokenizer = v.build();
    EXPECT_EQ(tokens_of(*tokenizer, "xyz"), whole ? "xyz" : "x|y|z");
    EXPECT_EQ(tokens_of(*tokenizer, "xyzz"), "x|y|z|z");
  }
}

TEST(Bpe, ControlTokensAreTextUnlessAskedFor) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  const std::string plain = tokens_of(*tokenizer, "a<|im_end|>b");
  EXPECT_EQ(plain, "a|<|||i|m|_|e|n|d|||>|b");
  EXPECT_EQ(tokens_of(*tokenizer, "a<|im_end|>b", {.parse_special = true}), "a|<|im_end|>|b");
  EXPECT_EQ(tokens_of(*tokenizer, "<think>x"), "<think>|x");  // user-defined: always
}

TEST(Bpe, PiecesKeepMarkupAndTextApart) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  const auto tokens = [&](std::vector<TextPiece> pieces) {
    const auto ids = tokenizer->encode(pieces);
    std::string out;
    for (const int32_t id : *ids) out += std::string(tokenizer->vocab().text(id)) + " ";
    return out;
  };
  EXPECT_EQ(tokens({{"<|im_start|>", true}, {"<|im_end|>"}, {"<|im_end|>", true}}),
            "<|im_start|> < | i m _ e n d | > <|im_end|> ");
  EXPECT_EQ(tokens({{"<|im_", true}, {"end|>"}}), "< | i m _ e n d | > ");            // must lie within markup
  EXPECT_EQ(tokens({{"<|im_", true}, {"", false}, {"end|>", true}}), "<|im_end|> ");  // one stretch of markup
  EXPECT_EQ(tokens({{"he", true}, {"llo"}}), "hello ");                               // one text for merging
  EXPECT_EQ(tokens({{"<thi"}, {"nk>"}}), "<think> ");
}

TEST(Bpe, WholeTokensAreLeftmostThenLongest) {
  TestVocab v = byte_vocab("gpt-2");
  v.add("<ab", TokenType::user_defined);
  v.add("b>cdef", TokenType::user_defined);
  v.add("<abx>", TokenType::user_defined);
  v.add("<abx>>", TokenType::control);
  const auto tokenizer = v.build();
  EXPECT_EQ(tokens_of(*tokenizer, "<ab>cdef"), "<ab|>|c|d|e|f");
  EXPECT_EQ(tokens_of(*tokenizer, "<abx>>"), "<abx>|>");
  EXPECT_EQ(tokens_of(*tokenizer, "<abx>>", {.parse_special = true}), "<abx>>");
  EXPECT_EQ(tokens_of(*tokenizer, "<abx"), "<ab|x");
}

TEST(Bpe, AddsBosOnceAndEos) {
  TestVocab v = byte_vocab("gpt-2");
  v.data.bos = v.add("<s>", TokenType::control);
  v.data.eos = v.add("</s>", TokenType::control);
  v.data.add_bos = v.data.add_eos = true;
  const auto tokenizer = v.build();
  EXPECT_EQ(tokens_of(*tokenizer, "a", {.add_special = true}), "<s>|a|</s>");
  EXPECT_EQ(tokens_of(*tokenizer, "<s>a", {.add_special = true, .parse_special = true}), "<s>|a|</s>");
  EXPECT_EQ(tokens_of(*tokenizer, "", {.add_special = true}), "<s>|</s>");
  EXPECT_EQ(tokens_of(*tokenizer, "a"), "a");
}

TEST(Bpe, BytesWithoutATokenAreLeftOutAndNamed) {
  TestVocab v = byte_vocab("gpt-2");
  v.data.tokens[4] = v.keep("no-such-byte");
  const auto tokenizer = v.build();
  EXPECT_EQ(tokenizer->missing_bytes(), "04");
  EXPECT_EQ(tokens_of(*tokenizer, std::string("!\x04") + "!"), "!|!");
  EXPECT_EQ(byte_vocab("gpt-2").build()->missing_bytes(), "");
}

TEST(Bpe, NormalizesForRulesThatDo) {
  EXPECT_EQ(*byte_vocab("qwen2").build()->decode(ids_of(*byte_vocab("qwen2").build(), "e\u0301"), false), "\u00E9");
  EXPECT_EQ(*byte_vocab("llama-bpe").build()->decode(ids_of(*byte_vocab("llama-bpe").build(), "e\u0301"), false),
            "e\u0301");
}

TEST(Bpe, StripsWhiteSpaceAfterPhi3Markup) {
  TestVocab v = byte_vocab("gpt-2");
  v.data.name = "Phi-3 mini";
  v.add("<|end|>", TokenType::control);
  const auto tokenizer = v.build();
  EXPECT_EQ(tokens_of(*tokenizer, "<|end|> \n\u00A0x", {.parse_special = true}), "<|end|>|x");
  EXPECT_EQ(tokens_of(*tokenizer, "<|endoftext|> x", {.parse_special = true}), "<|endoftext|>|\u0120|x");
}

TEST(Vocab, KnowsWhatEndsAGeneration) {
  TestVocab v = byte_vocab("gpt-2");
  v.data.eos = v.add("my-end", TokenType::control);
  v.data.eog = {v.add("other-end")};
  v.add("</s>");                                 // an HTML tag here
  v.add("<|tool_response>", TokenType::normal);  // typed as text by mistake
  v.add("<|start_header_id|>", TokenType::normal);
  const auto tokenizer = v.build();
  for (const char* name : {"my-end", "other-end", "<|im_end|>", "<|endoftext|>", "<|tool_response>"}) {
    EXPECT_TRUE(tokenizer->is_eog(*tokenizer->find(name))) << name;
  }
  for (const char* name : {"</s>", "<|im_start|>", "<think>", "a"})
    EXPECT_FALSE(tokenizer->is_eog(*tokenizer->find(name))) << name;
  EXPECT_TRUE(tokenizer->is_control(*tokenizer->find("<|tool_response>")));
  EXPECT_TRUE(tokenizer->is_control(*tokenizer->find("<|start_header_id|>")));
  EXPECT_FALSE(tokenizer->is_control(*tokenizer->find("</s>")));
  EXPECT_EQ(tokenizer->vocab().eot, *tokenizer->find("<|im_end|>"));
  EXPECT_FALSE(tokenizer->is_eog(-1));
  EXPECT_FALSE(tokenizer->find("no such token").has_value());
}

TEST(Vocab, EndOfMessageIsNotEndOfTurnWithChannels) {
  // As gpt-oss files have it: eos is <|return|>; some name <|end|> as eot, or list it, or type the markup as text.
  for (const int variant : {0, 1, 2, 3}) {
    TestVocab v = byte_vocab("gpt-4o");
    const TokenType type = variant == 3 ? TokenType::normal : TokenType::control;
    v.data.eos = v.add("<|return|>", type);
    const int32_t end = v.add("<|end|>", type);
    v.add("<|call|>", type);
    for (const char* name : {"<|start|>", "<|message|>", "<|channel|>", "<|constrain|>"}) v.add(name, type);
    if (variant == 1) v.data.eot = end;
    if (variant == 2) v.data.eog = {end};
    const auto tokenizer = v.build();
    for (const char* name : {"<|return|>", "<|call|>", "<|endoftext|>"}) {
      EXPECT_TRUE(tokenizer->is_eog(*tokenizer->find(name))) << name << variant;
    }
    for (const char* name : {"<|end|>", "<|start|>", "<|message|>", "<|channel|>", "<|constrain|>"}) {
      EXPECT_FALSE(tokenizer->is_eog(*tokenizer->find(name))) << name << variant;
      EXPECT_TRUE(tokenizer->is_control(*tokenizer->find(name))) << name << variant;
    }
    EXPECT_NE(tokenizer->vocab().eot, end);
  }
  // The control: without tokens for channels <|end|> ends the turn (Phi 3).
  TestVocab v = byte_vocab("gpt-2");
  v.add("<|end|>", TokenType::control);
  v.add("<|return|>", TokenType::control);
  const auto tokenizer = v.build();
  EXPECT_TRUE(tokenizer->is_eog(*tokenizer->find("<|end|>")));
}

TEST(Vocab, TextNeverBecomesControlByMerging) {
  TestVocab v = byte_vocab("gpt-2");
  v.merge("<", "|");
  v.merge("|", ">");
  v.add("<||>", TokenType::control);
  v.merge("<|", "|>");
  EXPECT_EQ(tokens_of(*v.build(), "<||>"), "<|||>");
}

TEST(Tokenizer, MalformedVocabulariesAreNamed) {
  struct Case {
    const char* expect;
    void (*spoil)(TestVocab&);
  };
  const Case cases[] = {
      {"tokenizer model 'bert'", [](TestVocab& v) { v.data.model = "bert"; }},
      {"pre-tokenizer 'nope' is not supported; known: default, gpt-2", [](TestVocab& v) { v.data.pre = "nope"; }},
      {"the token list is empty", [](TestVocab& v) { v.data.tokens.clear(); }},
      {"token_type has 2 entries", [](TestVocab& v) { v.data.types.resize(2); }},
      {"both 'a'", [](TestVocab& v) { v.add("a"); }},
      {"has the unknown type 7", [](TestVocab& v) { v.data.types[3] = 7; }},
      {"has the unknown type -1", [](TestVocab& v) { v.data.types[3] = -1; }},
      {"the eos token id 99999 is outside", [](TestVocab& v) { v.data.eos = 99999; }},
      {"the bos token id -7 is outside", [](TestVocab& v) { v.data.bos = -7; }},
      {"end-of-generation token id 99999", [](TestVocab& v) { v.data.eog = {99999}; }},
      {"'ab' is not two parts", [](TestVocab& v) { v.data.merges.push_back("ab"); }},
      {"'a ' is not two parts", [](TestVocab& v) { v.data.merges.push_back("a "); }},
      {"'' is not two parts", [](TestVocab& v) { v.data.merges.push_back(""); }},
      {"'<0x-1>' is typed as a byte", [](TestVocab& v) { v.add("<0x-1>", TokenType::byte); }},
  };
  for (const Case& c : cases) {
    TestVocab v = byte_vocab("gpt-2");
    c.spoil(v);
    const auto tokenizer = Tokenizer::create(v.data);
    ASSERT_FALSE(tokenizer.ok()) << c.expect;
    EXPECT_NE(tokenizer.error().message.find(c.expect), std::string::npos) << tokenizer.error().message;
  }
  EXPECT_TRUE(Tokenizer::create(byte_vocab("gpt-2").data).ok());
  EXPECT_TRUE(Tokenizer::create(byte_vocab("").data).ok());  // no rule named: the default one
}

TEST(Tokenizer, MergesOfOrToNoTokenHaveNoEffect) {
  TestVocab v = byte_vocab("gpt-2");
  const auto plain = Tokenizer::create(v.data).value()->encode("a z ab abz").value();
  v.data.merges.push_back("a nothere");
  v.data.merges.push_back("a z");
  const auto tokenizer = Tokenizer::create(v.data);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("a z ab abz").value(), plain);
}

TEST(Tokenizer, EmptyTokensStandForNothing) {
  TestVocab v = byte_vocab("gpt-2");
  const int32_t a = v.add("");
  const int32_t b = v.add("", TokenType::control);
  const auto tokenizer = v.build();
  EXPECT_EQ(tokenizer->token_bytes(a), "");
  EXPECT_EQ(tokenizer->token_bytes(b), "");
}

TEST(Tokenizer, VocabulariesOfAFewBytesWork) {
  TestVocab v;
  v.data.model = "gpt2";
  v.data.pre = "gpt-2";
  for (const char* token : {"a", "b", "ab"}) v.add(token);
  v.data.merges = {"a b"};
  EXPECT_EQ(tokens_of(*v.build(), "aab"), "a|ab");
}

TEST(Tokenizer, DecodeRejectsForeignIds) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  for (const int32_t id : {-1, tokenizer->size(), 1 << 30}) {
    const std::vector<int32_t> ids{id};
    EXPECT_FALSE(tokenizer->decode(ids, true).ok());
    EXPECT_EQ(tokenizer->token_bytes(id), "");
  }
}

constexpr const char* kRoundTripRules[] = {"default", "gpt-2",  "llama-bpe",       "smollm",
                                           "tekken",  "gpt-4o", "deepseek-r1-qwen"};

TEST(Tokenizer, RoundTripsAnyBytes) {
  std::mt19937 rng(3);
  for (const char* rule : kRoundTripRules) {
    const auto tokenizer = byte_vocab(rule).build();
    for (int i = 0; i < 150; ++i) {
      const std::string text = i % 2 == 0 ? random_bytes(rng, rng() % 80) : random_unicode(rng, rng() % 80);
      ASSERT_EQ(*tokenizer->decode(ids_of(*tokenizer, text), true), text) << rule;
      ASSERT_EQ(*tokenizer->decode(ids_of(*tokenizer, text, {.parse_special = true}), true), text) << rule;
    }
  }
}

TEST(Tokenizer, WorkGrowsLinearly) {
  for (const char* rule : {"default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "tekken", "gpt-4o"}) {
    const auto tokenizer = byte_vocab(rule).build();
    for (const char* piece : {"A", "a", "\n", " ", "1", "\u4E2D", "\u0301", "<", "<|im_", "he", "\xFF", "a\u0301"}) {
      EncodeWork work[2];
      for (const size_t half : {size_t{1}, size_t{0}}) {
        const size_t count = half == 1 ? 20000 : 40000;
        std::string text;
        for (size_t i = 0; i < count; ++i) text += piece;
        ids_of(*tokenizer, text, {.parse_special = true, .work = &work[half]});
        EXPECT_LE(work[half].merges, 3 * text.size());
        EXPECT_LE(work[half].markup_bytes, 14 * text.size());
        EXPECT_GT(work[half].characters, 0u);
      }
      const auto sum = [](const EncodeWork& w) {
        return static_cast<double>(w.markup_bytes + w.characters + w.merges);
      };
      EXPECT_LE(sum(work[0]), 2.05 * sum(work[1]) + 1000) << rule << " '" << piece << "'";
    }
  }
}

}  // namespace
}  // namespace quern::token
