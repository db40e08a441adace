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

}  // namespace
}  // namespace quern::token::jinja
