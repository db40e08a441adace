// Each keyword of JSON Schema with texts that it lets through and texts that it stops.
#include "grammar_testing.h"

namespace quern::grammar {
namespace {

using testing::expect_fits;
using testing::FitCase;
using testing::fits;
using testing::schema;

void expect_all(const std::vector<FitCase>& cases) {
  for (const FitCase& c : cases) expect_fits(schema(c.grammar), c);
}

TEST(Schema, Types) {
  expect_all({
      {R"({"type":"null"})", {"null"}, {"", "nul", "nulll", "true", "\"null\"", " null"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "1", "truefalse"}},
      {R"({"type":"integer"})",
       {"0", "-1", "42", "1234567890123456789"},
       {"-", "-0", "01", "1.0", "1e3", "+1", "12345678901234567890"}},
      {R"({"type":"number"})",
       {"0", "-0", "-0.5", "3.25", "1e5", "2.5E-10"},
       {".5", "1.", "1e", "1e999", "NaN", "Infinity", "0x1", "00"}},
      {R"({"type":"string"})",
       {"\"\"", "\"a b\"", "\"\\n\\u00e9\\ud83d\\ude00\"", "\"😀é\""},
       {"\"", "a", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"a\"\""}},
      {R"({"type":"array"})", {"[]", "[1]", "[1,\"a\",[null,{}]]"}, {"[", "[1,]", "[,1]", "[1 2]"}},
      {R"({"type":"object"})",
       {"{}", R"({"a":1})", R"({"a":{"b":[]},"c":null})"},
       {"{", R"({"a"})", R"({a:1})", R"({"a":1,})"}},
      {R"({"type":["string","null"]})", {"null", "\"x\""}, {"1", "[]"}},
      {"true", {"1", "{}", "[[]]", "\"x\"", "null"}, {"", "prose", "1 2"}},
      {"{}", {"1", "{}"}, {"x"}},
      {R"({"title":"t","description":"d","default":3,"examples":[1],"$comment":"c","x-order":1,"deprecated":true})",
       {"1"},
       {"x"}},
  });
}

TEST(Schema, StringsAreWholeUtf8) {
  const Grammar g = schema(R"({"type":"string"})");
  EXPECT_TRUE(fits(g, "\"\xC3\xA9\xF0\x9F\x98\x80\""));
  for (const char* bad : {"\"\xC0\xAF\"", "\"\xE0\x80\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\x80\"",
                          "\"\xC3\"", "\"\xFF\""}) {
    EXPECT_FALSE(fits(g, bad));
  }
}

TEST(Schema, Enum) {
  expect_all({
      {R"({"enum":["red","green",3,null,{"a":[1]}]})",
       {"\"red\"", "\"green\"", "3", "null", R"({"a":[1]})"},
       {"\"re\"", "\"redd\"", "red", "33", "{}"}},
      {R"({"const":"a\"b\\\né"})", {R"("a\"b\\\né")"}, {R"("ab")"}},
      {R"({"type":"string","enum":["a",1,"bb",null],"minLength":2})", {"\"bb\""}, {"\"a\"", "1", "null"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2.0,3,4]}],"minimum":3})", {"3"}, {"2", "1", "4"}},
      {R"({"enum":["a","ab","abc"]})", {"\"a\"", "\"ab\"", "\"abc\""}, {"\"\"", "\"abcd\""}},
  });
}

TEST(Schema, StringLengths) {
  expect_all({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"abc\"", "\"😀é\"", R"("\ud83d\ude00\n\\")"},
       {"\"a\"", "\"abcd\"", R"("\n")"}},
      {R"({"type":"string","maxLength":0})", {"\"\""}, {"\"a\""}},
      {R"({"minLength":2})", {"1", "\"ab\"", "[]"}, {"\"a\""}},
  });
}

TEST(Schema, IntegerRanges) {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{
           {0, 10}, {-5, 5}, {7, 7}, {-100, -9}, {95, 1203}, {-1, 0}, {10, 100}, {99, 100}}) {
    const Grammar g = schema("{\"type\":\"integer\",\"minimum\":" + std::to_string(low) +
                             ",\"maximum\":" + std::to_string(high) + "}");
    const Grammar open = schema("{\"type\":\"integer\",\"exclusiveMinimum\":" + std::to_string(low - 1) +
                                ",\"exclusiveMaximum\":" + std::to_string(high + 1) + "}");
    for (int i = -1300; i <= 1300; ++i) {
      ASSERT_EQ(fits(g, std::to_string(i)), i >= low && i <= high) << low << ".." << high << ": " << i;
      ASSERT_EQ(fits(open, std::to_string(i)), i >= low && i <= high);
    }
  }
}

TEST(Schema, NumberRanges) {
  expect_all({
      {R"({"type":"number","minimum":-1.5,"maximum":2.25})",
       {"-1.5", "-1.50", "-1.49", "0", "-0.1", "2", "2.25", "2.2", "2.250"},
       {"-1.51", "-1.500001", "2.26", "2.250001", "3", "-2", "10", "1e0"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.001", "0.999"},
       {"0", "0.0", "1", "1.0", "-0.5", "-0"}},
      {R"({"type":"integer","minimum":1.5,"exclusiveMaximum":4})", {"2", "3"}, {"1", "4"}},
      {R"({"type":"integer","minimum":-1e300,"maximum":1e300})", {"-5", "999999999"}, {"x"}},
      {R"({"type":"integer","multipleOf":7,"minimum":-20,"maximum":30})",
       {"-14", "0", "7", "28"},
       {"1", "-15", "35", "-21"}},
      {R"({"type":"number","multipleOf":0.01,"minimum":0})", {"1.25", "1.2", "3"}, {"1.255"}},
      {R"({"type":"number","multipleOf":5})", {"5", "-10"}, {"4", "5.5"}},
      {R"({"minimum":3})", {"3", "\"x\"", "null"}, {"2"}},
  });
}

TEST(Schema, Arrays) {
  expect_all({
      {R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1,2,3]"}, {"[\"a\"]", "[1,\"a\"]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
       {"[null,null]", "[null,null,null]"},
       {"[]", "[null]", "[null,null,null,null]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"}})",
       {"[]", "[1]", "[1,\"a\"]", "[1,\"a\",null,null]"},
       {"[\"a\"]", "[1,2]", "[1,\"a\",3]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":false,"minItems":1})", {"[1]"}, {"[]", "[1,2]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"maxItems":1})",
       {"[]", "[1]"},
       {"[1,null]"}},
      {R"({"type":"array","items":{"type":"string","pattern":"^(\\d+|imap:[A-Za-z0-9_-]+)$"}})",
       {R"(["12","imap:a_B-"])"},
       {R"(["imap:"])", R"(["1a"])"}},
      {R"({"type":"array","uniqueItems":false})", {"[1,1]"}, {}},
  });
}

TEST(Schema, Objects) {
  expect_all({
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["b"]})",
       {R"({"b":"x"})", R"({"a":1,"b":""})"},
       {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","c":1})", R"({"a":1,"a":1,"b":""})"}},
      {R"({"type":"object","properties":{}})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":null})", R"({"a":null,"b":1,"ab":2})", R"({"b":1})", R"({"":1})"},
       {R"({"b":"x"})", R"({"b":1,"a":null})", R"({"a":1})", R"({"b":1,"a":2})", R"({"\u0061":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false})",
       {"{}", R"({"a":null})"},
       {R"({"b":1})"}},
      {R"({"type":"object","additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"x":true,"y":false})"},
       {R"({"x":1})"}},
      {R"({"type":"object","required":["x"],"additionalProperties":{"type":"integer"}})",
       {R"({"x":1})", R"({"x":1,"y":2})"},
       {"{}", R"({"y":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"minProperties":1,"maxProperties":2})",
       {R"({"a":null})", R"({"b":null,"c":null})"},
       {"{}", R"({"a":null,"b":null,"c":null})"}},
      {R"({"type":"object","minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{"a":false,"b":{"type":"null"}}})", {"{}", R"({"b":null})"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{"q\"é/~":{"type":"null"}},"required":["q\"é/~"]})",
       {R"({"q\"é/~":null})"},
       {"{}"}},
  });
}

TEST(Schema, Combinations) {
  expect_all({
      {R"({"anyOf":[{"type":"string","maxLength":1},{"type":"integer"}]})", {"\"a\"", "3"}, {"\"ab\"", "null"}},
      {R"({"type":"string","anyOf":[{"minLength":3},{"maxLength":1}]})", {"\"\"", "\"a\"", "\"abc\""}, {"\"ab\"", "3"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"}}}]})",
       {R"({"a":1})", R"({"a":1,"b":null})"},
       {R"({"b":null})", R"({"a":1,"b":2})"}},
      {R"({"allOf":[{"type":["integer","string"]},{"type":["string","null"]}],"minLength":1})",
       {"\"a\""},
       {"1", "null", "\"\""}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"},{"type":"array","maxItems":1},{"type":"array","minItems":2}]})",
       {"1", "\"a\"", "[]", "[1,2,3]"},
       {"null"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":"a","x":1})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})"},
       {"{}"}},
      {R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","minimum":4}]})", {"3", "4"}, {"\"x\""}},
      {R"({"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"^b"}]})",
       {"\"ax\"", "\"b\""},
       {"\"c\""}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"},
       {"{}"}},
      {R"({"maxLength":2,"anyOf":[{"type":"string","minLength":3},{"type":"null"}]})", {"null"}, {"\"\"", "\"abc\""}},
  });
}

TEST(Schema, References) {
  expect_all({
      {R"({"$defs":{"n":{"type":"integer"}},"type":"array","items":{"$ref":"#/$defs/n"}})", {"[1,2]"}, {"[\"a\"]"}},
      {R"({"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"]}},"$ref":"#/$defs/tree"})",
       {R"({"v":1})", R"({"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]})"},
       {R"({"kids":[]})", R"({"v":1,"kids":[{}]})"}},
      {R"({"type":"array","items":{"$ref":"#"},"maxItems":2})", {"[]", "[[],[[]]]"}, {"[1]", "[[],[],[]]"}},
      {R"({"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]})", {"null", "[null,[null]]"}, {"1"}},
      {R"({"$defs":{"a/b~":{"$anchor":"here","type":"null"}},"anyOf":[{"$ref":"#/$defs/a~1b~0"},{"type":"array","items":{"$ref":"#here"}}]})",
       {"null", "[null]"},
       {"[1]"}},
      {R"({"$id":"https://x.org/s","$defs":{"s":{"type":"string"}},"$ref":"https://x.org/s#/$defs/s","maxLength":1})",
       {"\"a\""},
       {"\"ab\"", "1"}},
  });
  std::string deep = "1";
  for (int i = 0; i < 5000; ++i) deep = "[" + deep + "]";
  EXPECT_TRUE(fits(schema("true"), deep));
  EXPECT_FALSE(fits(schema("true"), deep + "]"));
}

TEST(Schema, Patterns) {
  expect_all({
      {R"({"type":"string","pattern":"^[a-c]+$"})", {"\"abc\""}, {"\"\"", "\"abd\"", "\"abc\\n\""}},
      {R"({"type":"string","pattern":"\\S"})", {"\"a\"", "\"  x \"", "\"é\""}, {"\"\"", "\"   \"", "\"\\n\\t\""}},
      {R"({"type":"string","pattern":"^a|b$"})", {"\"ax\"", "\"xb\"", "\"a\""}, {"\"xa\"", "\"bx\""}},
      {R"({"type":"string","pattern":"^(a|b)$"})", {"\"a\"", "\"b\""}, {"\"ab\"", "\"\""}},
      {R"({"type":"string","pattern":"^(?:x{2,3}y?)*$"})",
       {"\"\"", "\"xx\"", "\"xxxyxx\""},
       {"\"x\"", "\"xxyy\"", "\"xxxx\\u0078\""}},
      {R"({"type":"string","pattern":"^[\"\\\\]+$"})", {R"("\"\\")"}, {R"("a")", R"("")"}},
      {R"({"type":"string","pattern":"^.$"})", {"\"a\"", "\"😀\"", R"("\"")"}, {"\"\\n\"", "\"\"", "\"ab\""}},
      {R"({"type":"string","pattern":"^\\u00e9[^\\d\\s]\\x41\\t$"})", {R"("éxA\t")"}, {R"("é1A\t")"}},
      {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"abc\""},
       {"\"a\"", "\"abcd\""}},
      {R"({"type":"string","pattern":"\\d","maxLength":3})", {"\"1\"", "\"ab1\"", "\"1ab\""}, {"\"abc\"", "\"abc1\""}},
      {R"({"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"},{"maxLength":2}]})",
       {"\"ab\"", "\"ba\""},
       {"\"a\"", "\"xab\""}},
      {R"({"type":"string","pattern":"^a{3}$","maxLength":100000})", {"\"aaa\""}, {"\"aa\""}},
      {R"({"type":"array","items":{"type":"string","pattern":"^(\\d+|imap:[A-Za-z0-9_-]+)$"}})",
       {"[]", R"(["12","imap:a_B-9"])"},
       {R"([""])", R"(["imap:"])", R"(["12","imap:é"])", R"(["12x"])"}},
  });
}

TEST(Schema, Formats) {
  expect_all({
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"24-01-01\""}},
      {R"({"type":"string","format":"time"})",
       {"\"23:59:59Z\"", "\"00:00:00.25+05:30\""},
       {"\"24:00:00Z\"", "\"12:00:00\"", "\"12:60:00Z\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2024-02-29T10:00:00Z\""},
       {"\"2024-02-29\"", "\"2024-02-29 10:00:00Z\""}},
      {R"({"type":"string","format":"duration"})",
       {"\"P1Y2M3D\"", "\"PT5M\"", "\"P2W\"", "\"P1DT12H\""},
       {"\"P\"", "\"P1DT\"", "\"1D\"", "\"PT\""}},
      {R"({"type":"string","format":"uuid"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567e89b12d3a456426614174000\"", "\"\""}},
      {R"({"type":"string","format":"email"})", {"\"a.b+c@x.org\""}, {"\"a\"", "\"a@\"", "\".a@x\""}},
      {R"({"type":"string","format":"ipv4"})",
       {"\"0.0.0.0\"", "\"192.168.1.255\""},
       {"\"256.1.1.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
      {R"({"type":"string","format":"ipv6"})",
       {"\"::\"", "\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\""},
       {"\"1:2\"", "\"1::2::3\"", "\"12345::\""}},
      {R"({"type":"string","format":"uri"})",
       {"\"https://x.org/a?b=c#d\"", "\"mailto:a@b.c\"", "\"urn:isbn:1\""},
       {"\"x.org\"", "\"http//x\"", "\"https://x.org/a b\""}},
      {R"({"type":"string","format":"hostname"})", {"\"a-b.example\"", "\"x\""}, {"\"-a\"", "\"a..b\""}},
      {R"({"type":"string","format":"email","maxLength":254})",
       {"\"a@b.c\""},
       {"\"a\"", "\"" + std::string(251, 'a') + "@b.c\""}},
      {R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})", {"\"http://a.b\""}, {"\"\""}},
      {R"({"type":"string","format":"ipv4","maxLength":7})", {"\"1.2.3.4\""}, {"\"10.2.3.4\""}},
  });
}

TEST(Schema, WhiteSpaceIsBounded) {
  const char* text = R"({"type":"object","properties":{"a":{"type":"array"},"b":{"type":"null"}}})";
  const std::string compact = R"({"a":[1,2],"b":null})", single = R"({"a": [1, 2], "b": null})";
  const std::string indented = "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": null\n}";
  EXPECT_TRUE(fits(schema(text), compact));
  EXPECT_FALSE(fits(schema(text), single));
  EXPECT_TRUE(fits(schema(text, JsonSpace::single), compact));
  EXPECT_TRUE(fits(schema(text, JsonSpace::single), single));
  EXPECT_FALSE(fits(schema(text, JsonSpace::single), indented));
  const Grammar free = schema(text, JsonSpace::indented);
  for (const auto& good : {compact, single, indented}) EXPECT_TRUE(fits(free, good));
  for (const auto& bad : {" {}", "{} ", "{ }", "{\n\n}", "{\"a\" :[]}", "{\"a\":  []}", "{\"a\":\n[]}"})
    EXPECT_FALSE(fits(free, bad)) << bad;
  EXPECT_TRUE(fits(free, "{\n" + std::string(kMaxIndent, ' ') + "\"b\":null}"));
  EXPECT_FALSE(fits(free, "{\n" + std::string(kMaxIndent + 1, ' ') + "\"b\":null}"));
}

}  // namespace
}  // namespace quern::grammar
