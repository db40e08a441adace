// Tool calls in a family's form: required, after free text, several; grammars that wait for a trigger.
#include "grammar_testing.h"

namespace quern::grammar {
namespace {

using testing::bytes_and;
using testing::compiled;
using testing::fits;
using testing::gbnf;
using testing::matcher;
using testing::problem;

const std::vector<Function> kFunctions = {
    {"get_weather",
     R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false})"},
    {"get_time", R"({"properties":{"zone":{"enum":["UTC","CET"]}}})"},
    {"anything", ""},
};
const CallForm kHermes = {
    {{"<tool_call>"}, {"\n{\"name\": \""}}, {{"\", \"arguments\": "}}, {{"}\n</tool_call>"}}, {{"\n"}}};
const std::string kCall = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>";
const std::string kTime = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"zone\":\"UTC\"}}\n</tool_call>";

TEST(Tools, Required) {
  const Grammar one = compiled(Grammar::from_tools(kFunctions, kHermes, {}));
  EXPECT_TRUE(fits(one, kCall));
  EXPECT_TRUE(fits(one, kTime));
  EXPECT_TRUE(fits(one, "<tool_call>\n{\"name\": \"anything\", \"arguments\": {\"a\":[1]}}\n</tool_call>"));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"anything\", \"arguments\": 3}\n</tool_call>"));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"get_time\", \"arguments\": \"x\"}\n</tool_call>"));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"zone\":\"UTC\"}}\n</tool_call>"));
  EXPECT_FALSE(fits(one, kCall + "\n" + kCall));
  EXPECT_FALSE(fits(one, "text " + kCall));
  EXPECT_FALSE(fits(one, ""));
  ToolOptions several;
  several.max_calls = 2;
  const Grammar two = compiled(Grammar::from_tools(kFunctions, kHermes, several));
  EXPECT_TRUE(fits(two, kCall + "\n" + kTime));
  EXPECT_FALSE(fits(two, kCall + "\n" + kTime + "\n" + kCall));
  several.max_calls = 0;
  EXPECT_TRUE(fits(compiled(Grammar::from_tools(kFunctions, kHermes, several)), kCall + "\n" + kTime + "\n" + kCall));
}

TEST(Tools, Automatic) {
  ToolOptions options;
  options.mode = CallMode::automatic;
  const Grammar g = compiled(Grammar::from_tools(kFunctions, kHermes, options));
  for (const std::string text : {"", "Just text.", "a < b <tool <tool_cal", "<<tool_cal>"})
    EXPECT_TRUE(fits(g, text)) << text;
  EXPECT_TRUE(fits(g, kCall));
  EXPECT_TRUE(fits(g, "Let me see.\n<<tool_" + kCall));
  EXPECT_FALSE(fits(g, "<tool_call>"));
  EXPECT_FALSE(fits(g, "text <tool_call>more text"));
  EXPECT_FALSE(fits(g, kCall + " and text"));
  options.text_between = true;
  options.max_calls = 2;
  const Grammar between = compiled(Grammar::from_tools(kFunctions, kHermes, options));
  for (const std::string& text : {std::string("no call"), kCall + " and text", "a" + kCall + "b" + kTime + "c"})
    EXPECT_TRUE(fits(between, text)) << text;
  EXPECT_FALSE(fits(between, kCall + kCall + kCall));
  EXPECT_FALSE(fits(between, "a<tool_call>b"));
}

TEST(Tools, Markers) {
  const CallForm form = {{{"[TOOL_CALLS]", true}}, {{"[ARGS]", true}}, {}, {}};
  ToolOptions options;
  options.mode = CallMode::automatic;
  options.schema.space = JsonSpace::compact;
  const auto vocabulary = bytes_and({"[TOOL"}, {"[TOOL_CALLS]", "[ARGS]", "<other>"});
  const int32_t calls = 257, args = 258, other = 259, end = 260;
  Matcher m = matcher(compiled(Grammar::from_tools(std::span(kFunctions).first(1), form, options)), vocabulary);
  ASSERT_TRUE(m.accept_text("[TOOL_CALLS]is only text here").ok());
  ASSERT_TRUE(m.accept(other).ok());  // free text may have any token
  EXPECT_TRUE(testing::allows(m, end));
  ASSERT_TRUE(m.accept(calls).ok());
  EXPECT_FALSE(testing::allows(m, end));
  EXPECT_FALSE(testing::allows(m, other));
  EXPECT_EQ(*m.forced_text(), "get_weather");
  const auto forced = *m.forced_tokens();
  ASSERT_FALSE(forced.empty());
  EXPECT_TRUE(std::find(forced.begin(), forced.end(), args) != forced.end());
  for (const int32_t id : forced) ASSERT_TRUE(m.accept(id).ok());
  ASSERT_TRUE(m.accept_text("Bonn\"}").ok());
  EXPECT_TRUE(testing::allows(m, end));
  EXPECT_FALSE(testing::allows(m, 'x'));
}

// Schemas as agents send them: an unanchored pattern, a length beyond what would be written out.
TEST(Tools, ArgumentsWithPatternsAndLengths) {
  const std::vector<Function> functions = {
      {"note",
       R"({"type":"object","properties":{"title":{"type":"string","pattern":"\\S"},"body":{"type":"string","maxLength":100000}},"required":["title","body"]})"}};
  const Grammar g = compiled(Grammar::from_tools(functions, kHermes, {}));
  const auto call = [](const std::string& title, const std::string& body) {
    return "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"title\":\"" + title + "\",\"body\":\"" + body +
           "\"}}\n</tool_call>";
  };
  EXPECT_TRUE(fits(g, call(" a ", "")));
  EXPECT_TRUE(fits(g, call("a", std::string(100000, 'x'))));
  EXPECT_FALSE(fits(g, call("a", std::string(100001, 'x'))));
  EXPECT_FALSE(fits(g, call("  ", "b")));
}

TEST(Tools, Errors) {
  EXPECT_NE(problem(Grammar::from_tools({}, kHermes, {})).find("no function"), std::string::npos);
  const auto with = [](Function function) {
    return problem(Grammar::from_tools(std::vector<Function>{std::move(function)}, kHermes, {}));
  };
  EXPECT_NE(with({"a b", ""}).find("name"), std::string::npos);
  EXPECT_NE(with({"", ""}).find("name"), std::string::npos);
  EXPECT_NE(with({"f", "{"}).find("function 'f': the schema is not JSON"), std::string::npos);
  EXPECT_NE(with({"f", R"({"properties":{"a":{"not":{}}}})"}).find("function 'f': schema at '#/properties/a/not'"),
            std::string::npos);
  EXPECT_NE(with({"f", R"({"type":"string"})"}).find("function 'f'"), std::string::npos);
  EXPECT_NE(with({"f", R"({"required":["a"],"properties":{"a":{"anyOf":[false]}}})"}).find("function f"),
            std::string::npos);
  EXPECT_NE(
      problem(Grammar::from_tools(std::vector<Function>{{"f", ""}, {"f", ""}}, kHermes, {})).find("two functions"),
      std::string::npos);
  ToolOptions automatic;
  automatic.mode = CallMode::automatic;
  EXPECT_NE(problem(Grammar::from_tools(kFunctions, CallForm{}, automatic)).find("beginning"), std::string::npos);
}

TEST(Tools, GrammarsAfterATrigger) {
  const std::vector<Piece> triggers = {{"aab"}, {"ab!"}, {"<json>"}};
  const Grammar g =
      compiled(Grammar::after_trigger(triggers, gbnf("root ::= [0-9]+ inner?\ninner ::= \"(\" inner? \")\"")));
  for (const char* text : {"", "aa", "aaa", "ab", "aaab1", "xab!42", "aab7", "<json>12(())", "<jsob"})
    EXPECT_TRUE(fits(g, text)) << text;
  for (const char* text : {"aab", "aaabx", "<json>", "<json>12(()", "ab!7 "}) EXPECT_FALSE(fits(g, text)) << text;
  EXPECT_FALSE(Grammar::after_trigger({}, g).ok());
  EXPECT_FALSE(Grammar::after_trigger(std::vector<Piece>{{""}}, g).ok());
}

}  // namespace
}  // namespace quern::grammar
