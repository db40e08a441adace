// Masks against accepting each token byte by byte; end tokens, rolling back, forced text, shared and exhausted caches.
#include <algorithm>
#include <random>
#include <thread>

#include "grammar/automaton.h"
#include "grammar_testing.h"

namespace quern::grammar {
namespace {

using testing::allows;
using testing::bytes_and;
using testing::gbnf;
using testing::matcher;
using testing::schema;

const std::vector<std::string> kWords = {"hello",
                                         "hel",
                                         "hello world",
                                         "{\"",
                                         "\": ",
                                         "\",",
                                         "\"}",
                                         "[\"",
                                         "\"]",
                                         "\\u",
                                         "\\n",
                                         "\\\"",
                                         "true",
                                         "null",
                                         "12",
                                         "123",
                                         "0.",
                                         "a\"b",
                                         "\xC3\xA9",
                                         "\xF0\x9F",
                                         "\x98\x80",
                                         "\xC3\xA9t\xC3",
                                         "\n  ",
                                         "abc",
                                         "xyz",
                                         "aa",
                                         "aaaa",
                                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                         "}\n",
                                         "name",
                                         "\"name\": \"",
                                         "-1",
                                         " ",
                                         "  ",
                                         ",",
                                         "\xE2\x82\xAC \xE2\x82"};

// Allowed tokens by trying each: the plain definition.
std::vector<int32_t> by_trying(const Matcher& m, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.size()); ++id) {
    Matcher copy = m;
    if (copy.accept(id).ok()) ids.push_back(id);
  }
  return ids;
}

std::vector<int32_t> by_mask(Matcher& m, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.size()); ++id) {
    if (allows(m, id)) ids.push_back(id);
  }
  return ids;
}

void walk_and_compare(const Grammar& grammar, const std::shared_ptr<const Vocabulary>& vocabulary,
                      const std::string& what) {
  const auto constraint = *Constraint::create(grammar, vocabulary);
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    Matcher m = *Matcher::create(constraint);
    for (int i = 0; i < 40 && !m.finished(); ++i) {
      const auto allowed = by_trying(m, *vocabulary);
      ASSERT_EQ(by_mask(m, *vocabulary), allowed) << what << ", token " << i;
      ASSERT_FALSE(allowed.empty());
      // Longer tokens more often: they are what masks are about.
      const auto longer = [&](int32_t id) { return vocabulary->bytes(id).size() > 1; };
      std::vector<int32_t> choice;
      std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(choice), longer);
      if (choice.empty() || random() % 2 == 0) choice = allowed;
      ASSERT_TRUE(m.accept(choice[random() % choice.size()]).ok());
    }
  }
}

TEST(Matcher, MasksAreWhatAcceptTakes) {
  const auto vocabulary = bytes_and(kWords, {"<think>", "<call>"});
  for (
      const char* text :
      {"true", R"({"type":"string"})", R"({"type":"string","maxLength":5})",
       R"({"type":"string","minLength":3,"maxLength":40})",
       R"({"type":"object","properties":{"name":{"type":"string","maxLength":10},"n":{"type":"integer","minimum":3}},"required":["name"]})",
       R"({"type":"array","items":{"type":"string","pattern":"^[a-z]{1,9}$"}})",
       R"({"type":"string","pattern":"a[^a]"})", R"({"enum":["hello","hello world","abc"]})",
       R"({"type":"string","pattern":"^é+$","maxLength":4})"}) {
    walk_and_compare(schema(text, JsonSpace::indented), vocabulary, text);
  }
  for (const char* text : {"root ::= [a-z]{0,7} [a-z0-9]{0,3}", "root ::= [a]{0,40} \"b\"?", "root ::= .*",
                           "root ::= ([a-z] | \"aa\"){2,9} \"!\"", "root ::= [^\"]* \"\\\"\" root?",
                           "root ::= <think> [^<]* <call> \"x\"?", "root ::= \"(\" root* \")\" | [a-z]+",
                           "root ::= ([a-z]{1,3} \" \"){0,4}"}) {
    walk_and_compare(gbnf(text), vocabulary, text);
  }
}

TEST(Matcher, EndTokensOnlyAtTheEnd) {
  const auto vocabulary = bytes_and({"ab"});
  const auto end = static_cast<int32_t>(vocabulary->size() - 1);
  Matcher m = matcher(gbnf("root ::= \"ab\" \"c\"?"), vocabulary);
  EXPECT_FALSE(allows(m, end));
  EXPECT_FALSE(m.accept(end).ok());
  ASSERT_TRUE(m.accept(256).ok());
  EXPECT_TRUE(allows(m, end));
  EXPECT_TRUE(allows(m, 'c'));
  EXPECT_TRUE(*m.may_end());
  ASSERT_TRUE(m.accept(end).ok());
  EXPECT_TRUE(m.finished());
  EXPECT_FALSE(m.accept('c').ok());
  EXPECT_TRUE(allows(m, end));
  EXPECT_FALSE(allows(m, 'c'));
  ASSERT_TRUE(m.rollback(1).ok());
  EXPECT_FALSE(m.finished());
  ASSERT_TRUE(m.accept('c').ok());
  EXPECT_TRUE(allows(m, end));
}

TEST(Matcher, UnusedAndMarkerTokensStayOut) {
  std::vector<TokenEntry> tokens = {{"a", TokenKind::text}, {"a", TokenKind::unused},  {"a", TokenKind::marker},
                                    {"", TokenKind::text},  {"\xff", TokenKind::text}, {"a", TokenKind::text},
                                    {"a", TokenKind::both}, {"<e>", TokenKind::end}};
  const auto vocabulary = *Vocabulary::create(tokens);
  Matcher m = matcher(gbnf("root ::= .+"), vocabulary);
  const auto mask = m.mask();
  ASSERT_TRUE(mask.ok());
  EXPECT_EQ((*mask)[0], 0b1100001U);
  for (const int32_t id : {1, 2, 3, 4, -1, 8}) EXPECT_FALSE(m.accept(id).ok()) << id;
  Matcher marked =
      matcher(gbnf("root ::= <a>"),
              *Vocabulary::create({{"a", TokenKind::text}, {"<a>", TokenKind::both}, {"<", TokenKind::text}}));
  EXPECT_EQ((*marked.mask())[0], 0b010U);
}

TEST(Matcher, SplitCharacters) {
  Matcher m = matcher(schema(R"({"const":"😀"})"), bytes_and({"\"\xF0\x9F", "\x98", "\x80\""}));
  ASSERT_TRUE(m.accept(256).ok());
  EXPECT_FALSE(m.accept('"').ok());
  ASSERT_TRUE(m.accept(257).ok());
  ASSERT_TRUE(m.accept(258).ok());
  EXPECT_TRUE(*m.may_end());
}

// A token that spans two or three terminals of a grammar is as good as its bytes.
TEST(Matcher, TokensAcrossTerminals) {
  const Grammar json = gbnf(
      "root ::= object\nvalue ::= object | array | string | number\n"
      "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
      "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\nstring ::= \"\\\"\" [^\"\\\\]* \"\\\"\" ws\n"
      "number ::= \"-\"? [0-9]+ ws\nws ::= [ \\t\\n]*");
  const auto vocabulary = bytes_and({"{\"", "\":[{\"", "\":7}]", "}}"});
  Matcher m = matcher(json, vocabulary);
  EXPECT_TRUE(allows(m, 256));
  EXPECT_FALSE(allows(m, 257));
  for (const int32_t id : {256, int32_t{'a'}, 257, int32_t{'b'}, 258}) {
    EXPECT_TRUE(allows(m, id)) << id;
    ASSERT_TRUE(m.accept(id).ok()) << id;
  }
  EXPECT_FALSE(allows(m, 259)) << "only one object is open";
  ASSERT_TRUE(m.accept('}').ok());
  EXPECT_TRUE(*m.may_end());
  walk_and_compare(json, vocabulary, "json");
}

TEST(Matcher, RollsBack) {
  const auto vocabulary = bytes_and(kWords);
  Matcher m = matcher(schema("true"), vocabulary);
  std::vector<std::vector<int32_t>> masks;
  const std::string text = R"({"a":["hello",1]})";
  for (const char c : text) {
    masks.push_back(by_mask(m, *vocabulary));
    ASSERT_TRUE(m.accept(static_cast<uint8_t>(c)).ok());
  }
  EXPECT_EQ(m.n_accepted(), text.size());
  for (size_t n = text.size(); n > 0; n -= n > 5 ? 3 : 1) {
    const size_t back = n > 5 ? 3 : 1;
    ASSERT_TRUE(m.rollback(back).ok());
    EXPECT_EQ(by_mask(m, *vocabulary), masks[n - back]);
  }
  EXPECT_FALSE(m.rollback(1).ok());
  Matcher longer = matcher(gbnf("root ::= \"a\"*"), vocabulary);
  for (size_t i = 0; i < 2 * Matcher::kMaxRollback; ++i) ASSERT_TRUE(longer.accept('a').ok());
  EXPECT_FALSE(longer.rollback(Matcher::kMaxRollback + 1).ok());
  EXPECT_TRUE(longer.rollback(Matcher::kMaxRollback).ok());
}

TEST(Matcher, ForcedText) {
  const char* text =
      R"({"type":"object","properties":{"name":{"type":"string"},"kind":{"const":"cat"}},"required":["name","kind"]})";
  const auto vocabulary = bytes_and({"{\"", "name", "na", "\":\"", "\":\"x", "\",\"", "kind", "cat", "\"}"});
  Matcher m = matcher(schema(text), vocabulary);
  EXPECT_EQ(*m.forced_text(), "{\"name\":\"");
  EXPECT_EQ(m.forced_text(3).value(), "{\"n");
  // `":"` could be the beginning of `":"x`, so it is left to the model.
  EXPECT_EQ(*m.forced_tokens(), (std::vector<int32_t>{256, 257}));
  ASSERT_TRUE(m.accept_text("{\"name\":\"Tom\"").ok());
  EXPECT_EQ(*m.forced_text(), ",\"kind\":\"cat\"}");
  const std::vector<int32_t> ids = *m.forced_tokens();
  std::string joined;
  for (const int32_t id : ids) {
    joined += vocabulary->bytes(id);
    ASSERT_TRUE(m.accept(id).ok());
  }
  EXPECT_EQ(joined, ",\"kind\":\"cat\"}");
  EXPECT_TRUE(*m.may_end());
  EXPECT_EQ(*m.forced_text(), "");
  Matcher free = matcher(gbnf("root ::= \"a\"* \"b\""), vocabulary);
  EXPECT_EQ(*free.forced_text(), "");
  Matcher marked = matcher(gbnf("root ::= \"a\" <m> \"b\""), bytes_and({}, {"<m>"}));
  EXPECT_EQ(*marked.forced_text(), "a");
  EXPECT_EQ(*marked.forced_tokens(), (std::vector<int32_t>{'a', 256, 'b'}));
}

TEST(Matcher, NoTokenForWhatMustCome) {
  Matcher m = matcher(gbnf("root ::= \"ab\""), *Vocabulary::create({{"a", TokenKind::text}, {"<e>", TokenKind::end}}));
  ASSERT_TRUE(m.accept(0).ok());
  const auto mask = m.mask();
  ASSERT_FALSE(mask.ok());
  EXPECT_EQ(mask.error().status, Status::unsupported);
}

TEST(Matcher, FullCachesAreLeftBehind) {
  // Each character of a bounded string is a new state, so that a long text fills caches; masks must not change.
  const auto vocabulary = bytes_and({"ab", "abab"});
  const auto constraint =
      *Constraint::create(schema(R"({"type":"array","items":{"type":"string","maxLength":1000000000}})"), vocabulary);
  Matcher m = *Matcher::create(constraint), behind = *Matcher::create(constraint);
  ASSERT_TRUE(m.accept_text("[\"").ok());
  ASSERT_TRUE(behind.accept_text("[\"a").ok());
  const auto expected = by_mask(m, *vocabulary);
  const std::string some(1000, 'x');
  for (size_t n = 0; n < 4 * Automaton::kMaxStates; n += some.size()) ASSERT_TRUE(m.accept_text(some).ok()) << n;
  EXPECT_EQ(by_mask(m, *vocabulary), expected);
  ASSERT_TRUE(m.rollback(3).ok());
  EXPECT_EQ(by_mask(m, *vocabulary), expected);
  EXPECT_EQ(by_mask(behind, *vocabulary), expected);
  ASSERT_TRUE(m.accept_text("\",\"a\"]").ok());
  EXPECT_TRUE(*m.may_end());
}

TEST(Matcher, ThreadsShareAConstraint) {
  const auto vocabulary = bytes_and(kWords);
  const auto constraint = *Constraint::create(schema("true"), vocabulary);
  const std::string text = R"({"a":["hello world",1,{"b":"éabc"}],"c":"hello"})";
  std::vector<std::thread> threads;
  std::array<size_t, 4> allowed{};
  for (size_t& sum : allowed) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        Matcher m = *Matcher::create(constraint);
        for (const char c : text) {
          sum += by_mask(m, *vocabulary).size();
          if (!m.accept(static_cast<uint8_t>(c)).ok()) sum = 0;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(allowed[0], 0U);
  EXPECT_EQ(std::count(allowed.begin(), allowed.end(), allowed[0]), 4);
}

}  // namespace
}  // namespace quern::grammar
