// Inputs made to exhaust the stack, memory or time: each ends quickly, in a grammar that works or in an error by name.
#include "grammar_testing.h"

namespace quern::grammar {
namespace {

using testing::allows;
using testing::bytes_and;
using testing::fits;
using testing::gbnf;
using testing::matcher;
using testing::schema;

std::string times(size_t n, std::string_view text) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

bool is_limit(const Result<Grammar>& grammar) {
  return !grammar.ok() && grammar.error().status == Status::limit_exceeded;
}

TEST(Hostile, Depth) {
  constexpr size_t kDeep = 100000;
  EXPECT_TRUE(is_limit(Grammar::from_gbnf("root ::= " + times(kDeep, "("))));
  EXPECT_TRUE(is_limit(Grammar::from_gbnf("root ::= " + times(kDeep, "(") + "\"a\"" + times(kDeep, ")"))));
  EXPECT_TRUE(is_limit(Grammar::from_schema(times(kDeep, "["))));
  EXPECT_TRUE(is_limit(Grammar::from_schema(times(kDeep, R"({"items":)") + "true" + times(kDeep, "}"))));
  EXPECT_TRUE(is_limit(Grammar::from_schema(times(kDeep, R"({"anyOf":[)") + "true" + times(kDeep, "]}"))));
  EXPECT_FALSE(Grammar::from_schema("{\"pattern\":\"" + times(kDeep / 2, "(") + "\"}").ok());
  EXPECT_TRUE(is_limit(Grammar::from_pattern(times(30000, "(") + times(30000, ")"))));
  EXPECT_FALSE(
      Grammar::from_schema("{\"type\":\"string\",\"pattern\":\"" + times(200, "(") + "a" + times(200, ")") + "\"}")
          .ok());
}

TEST(Hostile, LongChains) {
  std::string rules = "root ::= r0\n", schema_text = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 10000; ++i) rules += "r" + std::to_string(i) + " ::= \"a\"? r" + std::to_string(i + 1) + "\n";
  const Grammar g = gbnf(rules + "r10000 ::= \"b\"");
  EXPECT_TRUE(fits(g, "aab"));
  EXPECT_FALSE(fits(g, "aa"));
  for (int i = 0; i < 5000; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    schema_text += "\"d" + n + R"(":{"type":"array","items":{"$ref":"#/$defs/d)" + next + R"("},"minItems":1},)";
  }
  EXPECT_TRUE(fits(schema(schema_text + R"("d5000":{"type":"null"}}})"), times(5000, "[") + "null" + times(5000, "]")));
  std::string refs = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 5000; ++i)
    refs += "\"d" + std::to_string(i) + R"(":{"allOf":[{"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}]},";
  EXPECT_TRUE(is_limit(Grammar::from_schema(refs + R"("d5000":{"type":"null"}}})")));
}

TEST(Hostile, Repetitions) {
  EXPECT_TRUE(fits(schema(R"({"type":"string","maxLength":1000000000})"), "\"" + std::string(3000, 'x') + "\""));
  EXPECT_FALSE(fits(schema(R"({"type":"string","minLength":1000000000})"), "\"" + std::string(3000, 'x') + "\""));
  EXPECT_TRUE(fits(schema(R"({"type":"string","maxLength":100000000000000000000000})"), "\"x\""));
  EXPECT_TRUE(is_limit(Grammar::from_schema(R"({"type":"string","minLength":100000000000000000000000})")));
  EXPECT_TRUE(fits(schema(R"({"type":"array","maxItems":1000000000,"minItems":2})"), "[1,2,3]"));
  EXPECT_TRUE(is_limit(Grammar::from_schema(R"({"type":"object","maxProperties":1000000000})")));
  EXPECT_TRUE(fits(gbnf("root ::= \"a\"{0,1000000000}"), std::string(500, 'a')));
  EXPECT_TRUE(fits(gbnf("root ::= ((\"a\"{0,1000000}){0,1000000}){0,1000000}"), "aaaa"));
  EXPECT_TRUE(is_limit(Grammar::from_gbnf("root ::= \"a\"{99999999999}")));
  EXPECT_TRUE(is_limit(Grammar::from_schema(R"({"type":"string","pattern":"^(a{1000}){1000}$","maxLength":5000})")));
  EXPECT_TRUE(is_limit(Grammar::from_schema(R"({"type":"string","pattern":"^(a|b)*a(a|b){40}$","maxLength":500})")));
  EXPECT_FALSE(fits(schema(R"({"type":"string","pattern":"^(a{1000}){1000}$"})"), "\"a\""));
  EXPECT_TRUE(fits(schema(R"({"type":"string","pattern":"^(a{10}){10}$"})"), "\"" + std::string(100, 'a') + "\""));
}

TEST(Hostile, Combinations) {
  std::string all = R"({"allOf":[)";
  for (int i = 0; i < 30; ++i) all += std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"minLength":1},{"maxLength":9}]})";
  EXPECT_TRUE(is_limit(Grammar::from_schema(all + "]}")));
  std::string nested = R"({"type":"integer"})";
  for (int i = 0; i < 60; ++i) nested = R"({"anyOf":[)" + nested + R"(,{"type":"null"}],"description":"x"})";
  EXPECT_TRUE(fits(schema(nested), "3"));
  std::string choices = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 3000; ++i) {
    const std::string branch =
        R"({"type":"object","properties":{"k":{"$ref":"#/$defs/d)" + std::to_string(i + 1) + R"("}},"required":["k"]})";
    choices += "\"d" + std::to_string(i) + "\":{\"oneOf\":[" + branch + "," + branch + "]},";
  }
  EXPECT_FALSE(Grammar::from_schema(choices + R"("d3000":{"type":"null"}}})").ok());
  std::string doubling = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}";
    doubling += "\"d" + std::to_string(i) + "\":{\"allOf\":[" + next + "," + next + "]},";
  }
  EXPECT_TRUE(is_limit(Grammar::from_schema(doubling + R"("d60":{"type":"null"}}})")));
}

TEST(Hostile, Wide) {
  std::string names, values, alternatives = "root ::= \"x\"";
  for (int i = 0; i < 3000; ++i) {
    names += std::string(i == 0 ? "" : ",") + "\"p" + std::to_string(i) + R"(":{"type":"null"})";
    values += std::string(i == 0 ? "" : ",") + "\"v" + std::to_string(i) + "\"";
    alternatives += " | \"word" + std::to_string(i) + "\"";
  }
  const Grammar object = schema("{\"type\":\"object\",\"properties\":{" + names + "}}");
  EXPECT_TRUE(fits(object, R"({"p1":null,"p2999":null})"));
  EXPECT_FALSE(fits(object, R"({"p2999":null,"p1":null})"));
  EXPECT_TRUE(fits(schema("{\"enum\":[" + values + "]}"), "\"v2999\""));
  EXPECT_TRUE(fits(gbnf(alternatives), "word2999"));
  Matcher m = matcher(object, bytes_and({"{\"p", "123", "\":null", ",\""}));
  EXPECT_TRUE(allows(m, 256));
  ASSERT_TRUE(m.accept(256).ok());
  EXPECT_TRUE(allows(m, 257));
  std::string key(100000, 'k');
  EXPECT_TRUE(fits(schema("{\"type\":\"object\",\"properties\":{\"" + key +
                          "\":{\"type\":\"null\"}},\"additionalProperties\":true}"),
                   "{\"" + key + "\":null}"));
}

TEST(Hostile, AmbiguityHasALimit) {
  // Places of a loop in a loop grow with the square of the text: at some point that is an error, not a standstill.
  const Grammar g = gbnf("root ::= ((\"a\"{1,100000} \"a\"{1,100000}){1,100000}){1,100000}");
  Matcher m = matcher(g, bytes_and({}));
  Result<void> last;
  for (int i = 0; i < 3000 && last.ok(); ++i) last = m.accept('a');
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().status, Status::limit_exceeded) << last.error().message;
  EXPECT_FALSE(match_text(g, std::string(3000, 'a')).ok());
}

TEST(Hostile, Bytes) {
  EXPECT_FALSE(Grammar::from_schema(std::string("{\"type\":\"\xff\"}")).ok());
  EXPECT_FALSE(Grammar::from_schema(std::string("\0", 1)).ok());
  EXPECT_FALSE(Grammar::from_gbnf(std::string("root ::= \"a\"\0", 13)).ok());
  EXPECT_TRUE(is_limit(Grammar::from_gbnf(std::string(Grammar::kMaxText + 1, ' '))));
  EXPECT_TRUE(is_limit(Grammar::from_schema(std::string(Grammar::kMaxText + 1, ' '))));
  EXPECT_FALSE(Grammar::from_pattern("\xff").ok());
}

}  // namespace
}  // namespace quern::grammar
