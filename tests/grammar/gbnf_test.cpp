// GBNF: notation, languages, errors with their place.
#include "grammar_testing.h"

namespace quern::grammar {
namespace {

using testing::expect_fits;
using testing::FitCase;
using testing::fits;
using testing::gbnf;
using testing::problem;

TEST(Gbnf, Notation) {
  const std::vector<FitCase> cases = {
      {"root ::= \"ab\"", {"ab"}, {"", "a", "abc"}},
      {"root ::= \"\"", {""}, {"a"}},
      {"root ::= \"a\" | \"b\" \"c\"", {"a", "bc"}, {"b", "ac"}},
      {"root ::= [a-cx] [^0-9\\]]", {"aé", "x-"}, {"d-", "a1", "a]"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\\"\\\\\"", {"Aé😀\n\t\"\\"}, {"A"}},
      {"root ::= .", {"a", "\n", "😀"}, {"", "ab", "\x80"}},
      {"root ::= \"a\"? \"b\"* \"c\"+", {"c", "abbc", "bccc"}, {"", "ab", "aac"}},
      {"root ::= \"a\"{2} \"b\"{1,2} \"c\"{2,} \"d\"{0,1}",
       {"aabcc", "aabbccccd"},
       {"abcc", "aabbbcc", "aabc", "aabccdd"}},
      {"root ::= \"ab\"*", {"", "abab"}, {"aba"}},
      {"root ::= (\"a\" | \"b\")+ # comment\n", {"abba"}, {""}},
      {"root ::= x-1 \",\" x-1 # a\n\n# b\nx-1 ::=\n  \"1\" |\n  \"2\"", {"1,2"}, {"1,3"}},
      {"root ::= (\n  \"a\"\n  \"b\"\n) \"c\"\r\n", {"abc"}, {"ab"}},
      {"  root ::= [-a] [a-]", {"--", "aa"}, {"b-"}},
      {"root ::= \"(\" root? \")\"", {"()", "((()))"}, {"(", "(()", "())"}},
      {"root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"[\" root \"]\"", {"1,2", "[1,[2,3]],4"}, {"[]", "1,", "[1"}},
      {"root ::= \"é\"", {"é"}, {"e"}},
  };
  for (const FitCase& c : cases) expect_fits(gbnf(c.grammar), c);
}

TEST(Gbnf, RepetitionsOfNothing) {
  for (const char* text : {"root ::= (\"a\"*)*", "root ::= (\"a\"?)+", "root ::= ((\"a\"*)*)*",
                           "root ::= x*\nx ::= (\"a\" | \"\")*", "root ::= (\"a\"?){3,1000000000}"}) {
    const Grammar g = gbnf(text);
    for (const char* good : {"", "a", "aaaa"}) EXPECT_TRUE(fits(g, good)) << text;
    EXPECT_FALSE(fits(g, "b")) << text;
  }
  EXPECT_FALSE(fits(gbnf("root ::= (\"a\"?){0,3}"), "aaaa"));
}

TEST(Gbnf, AmbiguityIsNoTrouble) {
  const std::string as(300, 'a');
  EXPECT_TRUE(fits(gbnf("root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\""), as));
  EXPECT_TRUE(fits(gbnf("root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\""),
                   std::string(20, 'a') + "bcbcbcbcbcbcbcbcbcb"));
  EXPECT_FALSE(fits(gbnf("root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\""),
                    std::string(20, 'a') + "bcbcbcbcbcbcbcbcbcbcb"));
  EXPECT_TRUE(fits(gbnf("root ::= ([ab] | \"aa\" | [a-z])*"), as));
  EXPECT_TRUE(fits(gbnf("root ::= x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x?\nx ::= \"a\" | \"aa\""),
                   std::string(40, 'a')));
  EXPECT_FALSE(fits(gbnf("root ::= x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x? x?\nx ::= \"a\" | \"aa\""),
                    std::string(41, 'a')));
  EXPECT_TRUE(fits(gbnf("root ::= p\np ::= \"0\" p \"0\" | \"1\" p \"1\" | \"\""),
                   "0110110110011011011011001101101101"
                   "1011011011001101101101100110110110"));
}

TEST(Gbnf, ErrorsNameTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no rule 'root'"},
      {"a ::= \"x\"", "no rule 'root'"},
      {"root ::= a", "rule 'a' is not defined (grammar line 1, column 10)"},
      {"root ::= \"a", "inside a literal"},
      {"root ::= \"a\nb\"", "inside a literal"},
      {"root ::= [a", "inside a literal or class"},
      {"root ::= (\"a\"", "expected ')' (grammar line 1"},
      {"root ::= \"a\")", "unexpected text"},
      {"root = \"a\"", "expected '::='"},
      {"root ::= \"a\"\nroot ::= \"b\"", "defined twice"},
      {"root ::= \"a\"{3,2}", "wrong way round"},
      {"root ::= \"a\"{x}", "expected a number"},
      {"root ::= \"a\"+?", "two repetitions"},
      {"root ::= *", "unexpected character"},
      {"root ::= [z-a]", "wrong way round"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root ::= \"\\uD800\"", "no character"},
      {"root ::= \"\\U00110000\"", "no character"},
      {"root ::= \"\xff\"", "invalid UTF-8"},
      {"root ::= <[12]>", "tokens by number"},
      {"root ::= !<a>", "tokens by number or by exclusion"},
      {"root ::= <a", "expected '>'"},
      {"root ::= \"a\" root", "no text matches"},
      {"root ::= e\ne ::= e \"+\" e | \"1\"", "rule 'e' is left-recursive"},
      {"root ::= a\na ::= b \"x\" | \"y\"\nb ::= a | \"z\"", "left-recursive"},
      {"root ::= e\ne ::= n e \"x\" | \"y\"\nn ::= \"z\"?", "left-recursive"},
      {"root ::= root", "no text matches"},
  };
  for (const auto& [text, part] : cases) {
    const std::string found = problem(Grammar::from_gbnf(text));
    EXPECT_NE(found.find(part), std::string::npos) << text << "\ngave " << found;
  }
}

TEST(Gbnf, PatternsAlone) {
  const Grammar whole = testing::compiled(Grammar::from_pattern("a+b"));
  EXPECT_TRUE(fits(whole, "aab"));
  EXPECT_FALSE(fits(whole, "xaab"));
  const Grammar part = testing::compiled(Grammar::from_pattern("a+b", true));
  EXPECT_TRUE(fits(part, "xaab\n\""));
  EXPECT_FALSE(fits(part, "xaa"));
}

}  // namespace
}  // namespace quern::grammar
