// What is not supported, malformed or contradictory is an error that names the keyword and its JSON pointer.
#include "grammar_testing.h"

namespace quern::grammar {
namespace {

using testing::problem;

struct ErrorCase {
  const char* schema;
  std::vector<std::string> parts;  // of status and message
};

void expect_errors(const std::vector<ErrorCase>& cases) {
  for (const ErrorCase& c : cases) {
    const std::string found = problem(Grammar::from_schema(c.schema));
    for (const std::string& part : c.parts)
      EXPECT_NE(found.find(part), std::string::npos) << c.schema << "\ngave " << found << "\nwithout " << part;
  }
}

TEST(SchemaErrors, UnsupportedKeywordsAreNamed) {
  for (const std::string keyword :
       {"not", "if", "then", "contains", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
        "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "nullable", "requierd", "minContains"}) {
    const auto grammar =
        Grammar::from_schema("{\"properties\":{\"a b\":{\"type\":\"object\",\"" + keyword + "\":{\"x\":{}}}}}");
    ASSERT_FALSE(grammar.ok()) << keyword;
    EXPECT_EQ(grammar.error().status, Status::unsupported);
    EXPECT_NE(grammar.error().message.find("#/properties/a b/" + keyword), std::string::npos)
        << grammar.error().message;
    EXPECT_NE(grammar.error().message.find("\"" + keyword + "\""), std::string::npos) << grammar.error().message;
  }
  expect_errors({
      {R"({"type":"array","uniqueItems":true})", {"unsupported", "#/uniqueItems"}},
      {R"({"type":"string","format":"color"})", {"unsupported", "#/format", "color"}},
      {R"({"type":"array","items":[{}]})", {"unsupported", "#/items"}},
      {R"({"type":"number","multipleOf":0.3})", {"unsupported", "#/multipleOf"}},
      {R"({"$ref":"https://example.org/other.json"})", {"unsupported", "#/$ref"}},
      {R"({"properties":{"a":{"$id":"x"}}})", {"unsupported", "#/properties/a/$id"}},
      {R"({"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]})",
       {"unsupported", "#/oneOf", "branches 0 and 1"}},
      {R"({"oneOf":[{"type":"object"},{"type":"object","properties":{"a":{}}}]})", {"unsupported", "#/oneOf"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"unsupported", "#/oneOf"}},
      {R"({"type":"object","minProperties":3})", {"unsupported", "minProperties"}},
  });
}

TEST(SchemaErrors, MalformedKeywordsAreNamed) {
  expect_errors({
      {"{", {"invalid", "not JSON"}},
      {"3", {"invalid", "'#'"}},
      {R"({"type":"strin"})", {"invalid", "#/type", "strin"}},
      {R"({"type":[]})", {"#/type"}},
      {R"({"items":3})", {"#/items"}},
      {R"({"type":"string","minLength":-1})", {"#/minLength"}},
      {R"({"type":"string","minLength":1.5})", {"#/minLength"}},
      {R"({"type":"integer","minimum":"3"})", {"#/minimum"}},
      {R"({"type":"integer","multipleOf":0})", {"#/multipleOf"}},
      {R"({"enum":[]})", {"#/enum"}},
      {R"({"anyOf":[]})", {"#/anyOf"}},
      {R"({"allOf":{}})", {"#/allOf"}},
      {R"({"required":"a"})", {"#/required"}},
      {R"({"properties":[]})", {"#/properties"}},
      {R"({"$ref":"/$defs/Name"})", {"#/$ref", "/$defs/Name"}},
      {R"({"$ref":"#/$defs/Name","$defs":{}})", {"invalid", "#/$ref", "points to nothing"}},
      {R"({"$ref":"#nowhere"})", {"#/$ref", "$anchor"}},
      {R"({"type":"string","type":"integer"})", {"twice", "'type'"}},
  });
}

TEST(SchemaErrors, PatternsAreNamed) {
  for (const char* pattern : {"(?=a)", "(?<!a)b", "(a)\\\\1", "\\\\bword", "\\\\p{L}", "a^b", "(a$)b"}) {
    const std::string found =
        problem(Grammar::from_schema(std::string("{\"properties\":{\"p\":{\"pattern\":\"") + pattern + "\"}}}"));
    EXPECT_NE(found.find("unsupported: schema at '#/properties/p/pattern'"), std::string::npos)
        << pattern << ": " << found;
  }
  for (const char* pattern :
       {"^hello\\\\!$", "(", ")", "[a", "a**", "*a", "a{2,1}", "[z-a]", "\\\\", "\\\\u12", "(?x)", "a{1", "}"}) {
    const std::string found =
        problem(Grammar::from_schema(std::string("{\"type\":\"string\",\"pattern\":\"") + pattern + "\"}"));
    EXPECT_NE(found.find("schema at '#/pattern'"), std::string::npos) << pattern << ": " << found;
    EXPECT_EQ(found.find("unsupported"), std::string::npos) << pattern;
  }
}

TEST(SchemaErrors, ContradictionsAreNamed) {
  expect_errors({
      {"false", {"no text matches"}},
      {R"({"type":"string","minLength":3,"maxLength":2})", {"invalid", "minLength is above maxLength"}},
      {R"({"properties":{"a":{"type":"array","minItems":3,"maxItems":2}}})",
       {"#/properties/a", "minItems is above maxItems"}},
      {R"({"type":"integer","minimum":3,"exclusiveMaximum":3})", {"minimum and maximum"}},
      {R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4})", {"within the limits"}},
      {R"({"type":"object","required":["a"],"properties":{"b":{}},"additionalProperties":false})",
       {"\"a\" is required and not allowed"}},
      {R"({"type":"object","required":["a","b"],"maxProperties":1})", {"maxProperties"}},
      {R"({"type":"integer","enum":["a"]})", {"enum"}},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", {"exclude each other"}},
      {R"({"type":"string","pattern":"^a$","minLength":2})", {"#/pattern", "leave no string"}},
      {R"({"type":"string","allOf":[{"pattern":"^a$"},{"pattern":"^b$"}]})", {"leave no string"}},
      {R"({"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]})", {"no text matches"}},
      {R"({"type":"array","items":false,"minItems":1})", {"no text matches"}},
      {R"({"anyOf":[{"type":"string","minLength":3,"maxLength":2},{"type":"null"}]})",
       {"#/anyOf/0", "minLength is above maxLength"}},
      {R"({"type":"string","maxLength":2,"anyOf":[{"minLength":3},{"minLength":4}]})",
       {"minLength is above maxLength"}},
  });
}

TEST(SchemaErrors, ReferencesThatOnlyLeadToThemselves) {
  for (const char* text :
       {R"({"$ref":"#"})", R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})",
        R"({"allOf":[{"$ref":"#"}]})", R"({"type":"object","anyOf":[{"$ref":"#"},{"type":"null"}]})",
        R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", R"({"oneOf":[{"$ref":"#"},{"type":"null"}]})"}) {
    const auto grammar = Grammar::from_schema(text);
    EXPECT_FALSE(grammar.ok()) << text;
    EXPECT_EQ(problem(grammar).find("limit"), std::string::npos) << problem(grammar);
  }
}

}  // namespace
}  // namespace quern::grammar
