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

// Text that would be something else if it began so.
TEST(Tools, WhatAFirstTextDoesNotBeginWith) {
  ToolOptions options;
  options.mode = CallMode::automatic;
  options.not_first = {{"{"}, {"<think>"}};
  for (const bool between : {false, true}) {
    options.text_between = between;
    const Grammar g = compiled(Grammar::from_tools(kFunctions, kHermes, options));
    for (const std::string& text :
         {std::string(), std::string(" \n"), std::string("a {"), std::string("<thin"), std::string(" <thin>"),
          std::string("<<think>"), std::string("\n<tool"), kCall, " \n" + kCall, "<t" + kCall, "a<think>" + kCall})
      EXPECT_TRUE(fits(g, text)) << text;
    for (const std::string& text :
         {std::string("{"), std::string(" \n{"), std::string("<think>"), std::string("\t<think>a"), "<think>" + kCall})
      EXPECT_FALSE(fits(g, text)) << text;
    EXPECT_EQ(fits(g, kCall + "{<think>"), between);
  }
  options.not_first = {{""}};
  EXPECT_NE(problem(Grammar::from_tools(kFunctions, kHermes, options)).find("begin with is empty"), std::string::npos);
  // Of a token that is text as well, neither spelling.
  auto entries = std::vector<TokenEntry>{};
  for (int b = 0; b < 256; ++b) entries.push_back({std::string(1, static_cast<char>(b)), TokenKind::text});
  entries.push_back({"<think>", TokenKind::both});
  entries.push_back({"", TokenKind::end});
  for (const bool both : {true, false}) {
    options.not_first = {{"<think>", true, both}};
    Matcher m = matcher(compiled(Grammar::from_tools(kFunctions, kHermes, options)), *Vocabulary::create(entries));
    EXPECT_EQ(testing::allows(m, 256), !both);
    ASSERT_TRUE(m.accept('a').ok());
    EXPECT_TRUE(testing::allows(m, 256));
  }
}

const CallForm kTags = {{{"<tool_call>"}, {"\n<function="}},
                        {{">\n"}},
                        {{"</function>\n</tool_call>"}},
                        {{"\n"}},
                        ArgumentTags{{{"<parameter="}}, {{">\n"}}, {{"\n"}}, {{"</parameter>"}, {"\n"}}}};

std::string tagged(const std::string& name, const std::vector<std::pair<std::string, std::string>>& arguments) {
  std::string out = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : arguments) out += "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  return out + "</function>\n</tool_call>";
}

TEST(Tools, ArgumentsInTags) {
  const std::vector<Function> functions = {
      {"f", R"({"type":"object","properties":{
         "city":{"type":"string"},"side":{"enum":["a b","c"]},"n":{"type":"integer","minimum":1},
         "list":{"type":"array","items":{"type":"string"}},"maybe":{"anyOf":[{"type":"boolean"},{"type":"null"}]}},
         "required":["city","n"]})"},
      {"anything", ""},
      {"nothing", R"({"type":"object","properties":{}})"},
      {"numbers", R"({"type":"object","additionalProperties":{"type":"number"}})"},
  };
  for (const bool automatic : {false, true}) {
    ToolOptions options;
    options.mode = automatic ? CallMode::automatic : CallMode::required;
    const Grammar g = compiled(Grammar::from_tools(functions, kTags, options));
    const std::string before = automatic ? "Let me see. <para" : "";
    for (const std::string& call :
         {tagged("f", {{"city", "Bonn"}, {"n", "2"}}), tagged("f", {{"city", "\n <b>\"</param>\n\n"}, {"n", "12"}}),
          "<tool_call>\n<function=f>\n<parameter=city>\nBonn</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n"
          "</tool_call>" +
              std::string(),
          tagged("f", {{"city", ""}, {"side", "a b"}, {"n", "1"}, {"list", "[\"x > \\u003cy\"]"}, {"maybe", "null"}}),
          tagged("anything", {}), tagged("anything", {{"a", "[1]"}, {"b-2", "two words"}}), tagged("nothing", {}),
          tagged("numbers", {{"a", "1.5"}})})
      EXPECT_TRUE(fits(g, before + call)) << call;
    for (const std::string& call :
         {tagged("f", {}), tagged("f", {{"city", "Bonn"}}), tagged("f", {{"n", "2"}, {"city", "Bonn"}}),
          tagged("f", {{"city", "Bonn"}, {"n", "0"}}), tagged("f", {{"city", "Bonn"}, {"n", "two"}}),
          tagged("f", {{"city", "Bonn"}, {"side", "d"}, {"n", "1"}}),
          tagged("f", {{"city", "Bonn"}, {"n", "1"}, {"list", "[\"<\"]"}}),
          tagged("f", {{"city", "a</parameter>b"}, {"n", "1"}}),
          tagged("f", {{"city", "a"}, {"n", "1"}, {"other", "1"}}), tagged("anything", {{"a b", "1"}}),
          tagged("nothing", {{"a", "1"}}), tagged("numbers", {{"a", "b"}}), tagged("g", {}), kCall})
      EXPECT_FALSE(fits(g, before + call)) << call;
  }
}

// An end that is a token: its text ends a value too.
TEST(Tools, TokensAsTags) {
  const CallForm form = {{{"<tool_call>", true}},
                         {{"\n"}},
                         {{"</tool_call>", true}},
                         {{"\n"}},
                         ArgumentTags{{{"<k>", true}}, {{"</k>", true}, {"<v>", true}}, {}, {{"</v>", true}}}};
  const auto vocabulary = bytes_and({}, {"<tool_call>", "</tool_call>", "<k>", "</k>", "<v>", "</v>"});
  const int32_t call_end = 257, value_end = 261;
  const std::vector<Function> functions = {
      {"f", R"({"properties":{"s":{"type":"string"},"n":{"type":"integer"}},"required":["s"]})"}};
  const auto ready = [&] {
    Matcher m = matcher(compiled(Grammar::from_tools(functions, form, {})), vocabulary);
    const auto forced = *m.forced_tokens();
    EXPECT_FALSE(forced.empty());
    for (const int32_t id : forced) EXPECT_TRUE(m.accept(id).ok());
    EXPECT_TRUE(m.accept_text("a\"<b").ok());
    EXPECT_FALSE(testing::allows(m, call_end));
    return m;
  };
  Matcher by_token = ready();
  ASSERT_TRUE(by_token.accept(value_end).ok());
  EXPECT_TRUE(testing::allows(by_token, call_end));
  EXPECT_FALSE(testing::allows(by_token, 'x'));
  Matcher by_text = ready();
  ASSERT_TRUE(by_text.accept_text("</v>").ok());
  EXPECT_FALSE(testing::allows(by_text, 'x'));
  EXPECT_TRUE(testing::allows(by_text, call_end));
}

TEST(Tools, WhatArgumentsInTagsCannotKeep) {
  const auto error = [](const char* schema) {
    return problem(Grammar::from_tools(std::vector<Function>{{"f", schema}}, kTags, {}));
  };
  for (const auto& [schema, word] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"properties":{"a":{"type":"string","pattern":"x"}}})", "pattern"},
           {R"({"properties":{"a":{"type":"string","minLength":2}}})", "#/properties/a"},
           {R"({"properties":{"a":{"type":"string","format":"date"}}})", "format"},
           {R"({"properties":{"a<b":{}}})", "a<b"},
           {R"({"minProperties":1})", "minProperties"},
           {R"({"maxProperties":1})", "maxProperties"},
           {R"({"enum":[{"a":1}]})", "enum"},
           {R"({"properties":{"a":{"not":{}}}})", "not"}}) {
    EXPECT_NE(error(schema).find("function 'f'"), std::string::npos) << error(schema);
    EXPECT_NE(error(schema).find(word), std::string::npos) << error(schema);
  }
  // As JSON most of them can be kept.
  EXPECT_TRUE(Grammar::from_tools(
                  std::vector<Function>{{"f", R"({"properties":{"a":{"type":"string","pattern":"x"}}})"}}, kHermes, {})
                  .ok());
  CallForm no_end = kTags;
  no_end.tags->end.clear();
  EXPECT_NE(problem(Grammar::from_tools(kFunctions, no_end, {})).find("end is empty"), std::string::npos);
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

const std::vector<Piece> kOpen = {{"<t>"}};

TEST(Tools, BlocksOfFreeTextFirst) {
  const Grammar inner = gbnf("root ::= [0-9]+");
  Lead lead{.open = {kOpen}, .close = {{"</t>"}}, .max_breaks = 2};
  const Grammar once = compiled(Grammar::after_lead(lead, inner));
  for (const char* text : {"1", "<t></t>1", "<t>a < b</t\n</t>\n\n12", "<t>7<t></t>8"})
    EXPECT_TRUE(fits(once, text)) << text;
  for (const char* text : {"", "x", "<t>1", "<t></t>", "<t></t>\n\n\n1", "<t></t><t></t>1", "</t>1", "<t>a</t>b</t>1"})
    EXPECT_FALSE(fits(once, text)) << text;
  lead.inside = true;
  lead.max_blocks = 0;
  const Grammar open = compiled(Grammar::after_lead(lead, inner));
  for (const char* text : {"</t>1", "a\n</t>\n1"}) EXPECT_TRUE(fits(open, text)) << text;
  for (const char* text : {"1", "<t></t><t></t>1"}) EXPECT_FALSE(fits(open, text)) << text;
  Lead several{.open = {{Piece{"[a]"}}, {Piece{"[b]"}, Piece{"[c]"}}},
               .close = {{"[e]"}, {"again"}},
               .max_blocks = Lead::kAnyNumber,
               .then = {{"[f]"}}};
  const Grammar channels = compiled(Grammar::after_lead(several, inner));
  for (const char* text : {"[f]1", "[a]x[e]again[a][e]again[f]1", "[b][c]x[e]again[a][e]again[f]1"})
    EXPECT_TRUE(fits(channels, text)) << text;
  for (const char* text : {"1", "[a]x[e][f]1", "[a]x[e]again1", "[b]x[e]again[f]1"})
    EXPECT_FALSE(fits(channels, text)) << text;
  EXPECT_TRUE(fits(compiled(Grammar::after_lead({}, inner)), "12"));
  EXPECT_FALSE(Grammar::after_lead({.open = {kOpen}}, inner).ok());
  EXPECT_FALSE(Grammar::after_lead({.open = {kOpen}, .close = {{""}}}, inner).ok());
}

// A user-defined token stands for its text too: neither spelling may lead past the end of the block.
TEST(Tools, ATokenThatIsTextEndsABlockEitherWay) {
  auto entries = std::vector<TokenEntry>{};
  for (int b = 0; b < 256; ++b) entries.push_back({std::string(1, static_cast<char>(b)), TokenKind::text});
  entries.push_back({"</t>", TokenKind::both});
  entries.push_back({"", TokenKind::end});
  const auto vocabulary = Vocabulary::create(entries);
  ASSERT_TRUE(vocabulary.ok());
  for (const bool both : {true, false}) {
    const Lead lead{.open = {kOpen}, .close = {{"</t>", true, both}}, .inside = true, .max_blocks = 0};
    Matcher m = matcher(compiled(Grammar::after_lead(lead, gbnf("root ::= [0-9]"))), *vocabulary);
    ASSERT_TRUE(m.accept('a').ok());
    ASSERT_TRUE(m.accept(256).ok());
    EXPECT_TRUE(testing::allows(m, '7'));
    EXPECT_EQ(testing::allows(m, 'x'), !both);  // without it the text of the token is more free text
  }
}

TEST(Tools, NoOtherControlTokensInABlock) {
  const auto vocabulary = bytes_and({}, {"<end>", "<endless>", "<other>"});
  const Lead lead{.open = {kOpen}, .close = {{"<end>", true}}, .inside = true, .max_blocks = 0};
  Matcher m = matcher(compiled(Grammar::after_lead(lead, gbnf("root ::= [0-9]"))), vocabulary);
  EXPECT_TRUE(testing::allows(m, 'x'));
  EXPECT_TRUE(testing::allows(m, 256));
  for (const int32_t id : {257, 258, 259}) EXPECT_FALSE(testing::allows(m, id)) << id;
}

TEST(Tools, OneOfSeveralGrammars) {
  const Grammar both[] = {gbnf("root ::= \"a\"+"), gbnf("root ::= \"b\"")};
  const Grammar g = compiled(Grammar::any_of(both));
  for (const char* text : {"a", "aaa", "b"}) EXPECT_TRUE(fits(g, text)) << text;
  for (const char* text : {"", "ab", "bb"}) EXPECT_FALSE(fits(g, text)) << text;
  EXPECT_FALSE(Grammar::any_of({}).ok());
}

}  // namespace
}  // namespace quern::grammar
