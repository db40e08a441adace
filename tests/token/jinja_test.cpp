// The Jinja interpreter against what Python's jinja2 gives (jinja_cases.json and jinja_chats.json, written by
// tools/jinja_compare.py), and what jinja2 does not promise: limits, content spans, error texts.
#include "token/jinja.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file_io.h"

namespace quern::token::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string data_path(const std::string& name) {
  const char* root = std::getenv("QUERN_SOURCE_DIR");
  return std::string(root != nullptr ? root : ".") + "/tests/token/" + name;
}

Json read_json(const std::string& name) {
  auto text = read_file(data_path(name));
  if (!text.ok()) {
    ADD_FAILURE() << text.error().message;
    return Json::object();
  }
  return Json::parse(*text);
}

std::tm test_clock() {
  std::tm t{};
  t.tm_year = 124;
  t.tm_mon = 6;
  t.tm_mday = 6;
  t.tm_hour = 15;
  t.tm_min = 4;
  t.tm_sec = 5;
  t.tm_wday = 6;
  t.tm_yday = 187;
  return t;
}

Result<Rendered> render(const std::string& source, const Json& context, RenderOptions options = {}) {
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.error();
  std::vector<Variable> variables;
  for (const auto& [name, value] : context.items()) variables.push_back({name, &value});
  options.now = test_clock;
  return parsed->render(variables, options);
}

std::string text_of(const Result<Rendered>& result) {
  return result.ok() ? result->text : "error: " + result.error().message;
}

// Compares one render with jinja2's outcome: {"expect": text} or {"error": message}.
void expect_outcome(const Result<Rendered>& result, const Json& outcome) {
  if (outcome.contains("expect")) {
    EXPECT_TRUE(result.ok()) << text_of(result) << "\ninstead of: " << outcome["expect"];
    if (result.ok()) {
      EXPECT_EQ(result->text, outcome["expect"].get<std::string>());
    }
    return;
  }
  EXPECT_FALSE(result.ok()) << "rendered: " << text_of(result) << "\ninstead of the error: " << outcome["error"];
  const std::string message = outcome["error"].get<std::string>();
  if (result.ok()) return;
  EXPECT_NE(result.error().message.find(message), std::string::npos)
      << result.error().message << "\nlacks: " << message;
}

TEST(Jinja, EveryCaseRendersLikeJinja2) {
  const Json data = read_json("jinja_cases.json");
  ASSERT_GT(data["cases"].size(), 800U);
  for (const auto& test : data["cases"]) {
    SCOPED_TRACE("template: " + test["template"].get<std::string>());
    const Json context = data["contexts"].value(test.value("context", ""), Json::object());
    expect_outcome(render(test["template"], context), test);
  }
}

// Every conversation of a file with every template it was rendered with.
void expect_chats(const Json& data) {
  for (const auto& chat : data["chats"]) {
    Json context = data["tokens"];
    context.update(chat["context"]);
    for (const auto& [name, outcome] : chat["results"].items()) {
      SCOPED_TRACE("template " + name + ", chat: " + chat["name"].get<std::string>());
      std::string source;
      if (data.contains("templates")) {
        source = data["templates"][name].get<std::string>();
      } else {
        auto text = read_file(data_path("jinja_templates/" + name + ".jinja"));
        ASSERT_TRUE(text.ok());
        source = std::move(*text);
      }
      expect_outcome(render(source, context), outcome);
    }
  }
}

TEST(Jinja, WholeTemplatesRenderLikeJinja2) {
  const Json data = read_json("jinja_chats.json");
  ASSERT_GE(data["chats"].size(), 12U);
  ASSERT_GE(data["chats"][0]["results"].size(), 8U);
  expect_chats(data);
}

TEST(Jinja, OtherTemplatesRenderLikeJinja2) {
  const char* path = std::getenv("QUERN_JINJA_CHATS");
  if (path == nullptr) GTEST_SKIP() << "QUERN_JINJA_CHATS names no file (tools/jinja_compare.py --templates)";
  auto text = read_file(path);
  ASSERT_TRUE(text.ok());
  expect_chats(Json::parse(*text));
}

std::string repeated(const std::string& text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

TEST(JinjaLimits, WorkWithoutEndIsRefused) {
  RenderOptions options;
  options.fuel = 1'000'000;
  options.max_memory_bytes = size_t{64} << 20;
  const std::string long_loop = "{% for i in range(100000) %}";
  for (const std::string& source : {
           repeated(long_loop, 3) + repeated("{% endfor %}", 3),
           std::string("{{ range(10**9) }}"),
           std::string("{{ 'x' * 10**12 }}"),
           std::string("{{ ('x' * 10**6) * 10**6 }}"),
           std::string("{{ [1] * 10**12 }}"),
           std::string("{{ (1,) * 10**18 }}"),
           std::string("{{ '%1000000000000s' % 'a' }}"),
           std::string("{{ '{:>1000000000000}'.format('a') }}"),
           std::string("{{ 'a'.center(10**12) }}"),
           std::string("{{ 'a'.zfill(10**12) }}"),
           std::string("{{ 'a\\tb'.expandtabs(10**12) }}"),
           std::string("{{ 'a\\nb' | indent(10**12) }}"),
           std::string("{{ [1] | batch(10**12, 0) | list }}"),
           std::string("{{ [1] | slice(10**12) | list }}"),
           std::string("{{ [1] | tojson(indent=10**12) }}"),
           std::string(
               "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
           std::string("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor "
                       "%}{{ ns.x }}"),
           std::string("{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
                       "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"),
           std::string("{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ "
                       "ns.x | tojson }}"),
           std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
           std::string("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"),
           std::string("{% for x in [[1]] recursive %}{{ loop([[x]]) }}{% endfor %}"),
           std::string("{{ ('ab' * 200000).replace('a', 'b' * 100000) }}"),
           std::string("{{ ('a' * 200000).rsplit('a' * 100000 ~ 'b') }}"),
           std::string("{{ 9223372036854775807 + 1 }}"),
       }) {
    SCOPED_TRACE(source.substr(0, 120));
    const auto result = render(source, Json::object(), options);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().status, Status::limit_exceeded) << result.error().message;
  }
}

TEST(JinjaLimits, OutputIsBounded) {
  RenderOptions options;
  options.max_output_bytes = 1000;
  const std::string ten = "{% for i in range(100) %}0123456789{% endfor %}";
  EXPECT_TRUE(render(ten, Json::object(), options).ok());
  const auto result = render(ten + "x", Json::object(), options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, Status::limit_exceeded);
}

TEST(JinjaLimits, NestingIsBoundedInTheParser) {
  for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                                                    {"[", "]"},
                                                                                    {"{1:", "}"},
                                                                                    {"-", ""},
                                                                                    {"not ", ""},
                                                                                    {"1 if 1 else ", ""},
                                                                                    {"1+", ""},
                                                                                    {"f(", ")"},
                                                                                    {"1|default(", ")"}}) {
    SCOPED_TRACE(open);
    EXPECT_TRUE(Template::parse("{{ " + repeated(open, 50) + "1" + repeated(close, 50) + " }}").ok());
    const auto deep = Template::parse("{{ " + repeated(open, 100000) + "1" + repeated(close, 100000) + " }}");
    ASSERT_FALSE(deep.ok());
    EXPECT_EQ(deep.error().status, Status::limit_exceeded) << deep.error().message;
  }
  for (const std::string postfix : {".a", "[0]", "|upper", "()", " is odd"}) {
    const auto deep = Template::parse("{{ x" + repeated(postfix, 100000) + " }}");
    EXPECT_FALSE(deep.ok());
  }
  const auto statements = Template::parse(repeated("{% if 1 %}", 100000));
  ASSERT_FALSE(statements.ok());
  EXPECT_EQ(statements.error().status, Status::limit_exceeded);
  const auto targets = Template::parse("{% set " + repeated("(", 100000) + "a" + repeated(")", 100000) + " = 1 %}");
  EXPECT_FALSE(targets.ok());
  EXPECT_FALSE(Template::parse(std::string(size_t{5} << 20, 'x')).ok());
}

TEST(JinjaLimits, LongTemplatesParseInLinearTime) {
  // Each would take minutes if any step looked back at what came before.
  for (const std::string& unit :
       {std::string("{{ a }}"), std::string("{ "), std::string("{% raw %}{% endraw %}"), std::string("{# #}"),
        std::string("{%- if a -%} \n {%- endif -%} \n"), std::string("x\n  "), std::string("{{ 'a' 'b' }}")}) {
    const std::string source = repeated(unit, (size_t{1} << 20) / unit.size());
    EXPECT_TRUE(Template::parse(source).ok()) << unit;
  }
  EXPECT_FALSE(Template::parse("{% raw %}" + repeated("{% ", 300000)).ok());
  EXPECT_FALSE(Template::parse("{{ " + std::string(1000000, ' ')).ok());
}

TEST(Jinja, ErrorsNameTheLineAndTheVariable) {
  EXPECT_EQ(text_of(render("a\nb\n{{ x.y }}", Json::object())), "error: template line 3: 'x' is undefined");
  EXPECT_EQ(text_of(render("\n{% for i in [1] %}\n\n{{ i.y.z }}{% endfor %}", Json::object())),
            "error: template line 4: 'int object' has no attribute 'y'");
  EXPECT_EQ(text_of(render("\n\n{% if %}", Json::object())),
            "error: template line 3: expected an expression, found %}");
  EXPECT_EQ(text_of(render("\n{{ a | nosuch }}", Json::object())), "error: template line 2: no filter named 'nosuch'");
  EXPECT_EQ(text_of(render("\n{{ raise_exception('as it is') }}", Json::object())), "error: as it is");
  const auto unsupported = render("{% block x %}{% endblock %}", Json::object());
  ASSERT_FALSE(unsupported.ok());
  EXPECT_EQ(unsupported.error().status, Status::unsupported);
}

// Calls that templates in the wild make, with arguments that interpreters have been seen to lack.
TEST(Jinja, FormsThatTemplatesUse) {
  const struct {
    const char *source, *text;
  } rows[] = {
      {"{{ {'k': 'é😀<'} | tojson(ensure_ascii=False) }}", R"({"k": "é😀<"})"},
      {"{{ {'b': 1, 'a': {'d': 2, 'c': []}} | tojson(sort_keys=True) }}", R"({"a": {"c": [], "d": 2}, "b": 1})"},
      {"{{ {'b': [1]} | tojson(indent='\t') }}", "{\n\t\"b\": [\n\t\t1\n\t]\n}"},
      {"{{ {'b': [1, 2]} | tojson(separators=(',', ':')) }}", R"({"b":[1,2]})"},
      {"{{ strftime_now('%H:%M %d %b') }}", "15:04 06 Jul"},
      {"{{ strftime_now('%A, %d %B %Y %I:%M:%S %p') }}", "Saturday, 06 July 2024 03:04:05 PM"},
      {"{% generation %}a{{ 1 }}{% endgeneration %}b", "a1b"},
  };
  for (const auto& row : rows) EXPECT_EQ(text_of(render(row.source, Json::object())), row.text) << row.source;
}

TEST(Jinja, TheClockIsTheCallers) {
  auto parsed = Template::parse("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->render({}, {}).ok()) << "no clock was given";
  RenderOptions options;
  options.now = test_clock;
  EXPECT_EQ(text_of(parsed->render({}, options)), "2024");
}

TEST(Jinja, BytesThatAreNotUtf8TravelUnharmed) {
  const Json context = {{"s", "a\xff\xc3(\xe2\x82z"}};
  EXPECT_EQ(text_of(render("{{ s }}|{{ s | upper }}|{{ s[1] }}|{{ s | length }}", context)),
            "a\xff\xc3(\xe2\x82z|A\xff\xc3(\xe2\x82Z|\xff|7");
}

}  // namespace
}  // namespace quern::token::jinja
