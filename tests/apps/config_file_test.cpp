// apps/config_file: keys, types and places of a configuration file. What its values do is
// tests/api/serve_config_test.py.
#include "apps/quern/config_file.h"

#include <gtest/gtest.h>

namespace quern::apps {
namespace {

std::string text(const std::vector<OptionText>& options) {
  std::string all;
  for (const OptionText& one : options) all += one.where + " " + one.name + "=" + one.text + "\n";
  return all;
}

std::string refused(const std::string& toml) {
  const auto file = parse_config(toml, "q.toml");
  EXPECT_TRUE(file.ok() || file.error().message.find('\n') == std::string::npos);
  return file.ok() ? "" : file.error().message;
}

TEST(ConfigFile, EveryTypeAsItWouldStandOnTheCommandLine) {
  const auto file = parse_config(
      "# a comment\n"
      "port = 9000\n"
      "host = \"::1\"\n"
      "api-key = [\"a\", \"b # no comment\"]\n"
      "allow-host = \"one\"\n"
      "temp = 0.7\n"
      "ping = 5\n"
      "verbose = true\n"
      "tune = 'off'\n",
      "q.toml");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(text(file->options),
            "q.toml:2 port=9000\nq.toml:3 host=::1\nq.toml:4 api-key=a\nq.toml:4 api-key=b # no comment\n"
            "q.toml:5 allow-host=one\nq.toml:6 temp=0.7\nq.toml:7 ping=5\nq.toml:8 verbose=1\nq.toml:9 tune=off\n");
  EXPECT_TRUE(file->models.empty());
}

TEST(ConfigFile, ModelsAreTablesOrTexts) {
  const auto tables = parse_config(
      "ctx = 1024\n[[model]]\npath = \"a.gguf\"\nctx = 2048\n\n[[model]]\nname = \"smollm2-135m\"\npreload = false\n",
      "q.toml");
  ASSERT_TRUE(tables.ok()) << tables.error().message;
  EXPECT_EQ(text(tables->options), "q.toml:1 ctx=1024\n");
  ASSERT_EQ(tables->models.size(), 2U);
  EXPECT_EQ(tables->models[0].where, "q.toml:2");
  EXPECT_EQ(text(tables->models[0].options), "q.toml:3 path=a.gguf\nq.toml:4 ctx=2048\n");
  EXPECT_EQ(text(tables->models[1].options), "q.toml:7 name=smollm2-135m\nq.toml:8 preload=0\n");
  const auto texts = parse_config("model = [\"a.gguf\", \"b=c.gguf\"]\n", "q.toml");
  ASSERT_TRUE(texts.ok());
  EXPECT_EQ(text(texts->options), "q.toml:1 model=a.gguf\nq.toml:1 model=b=c.gguf\n");
}

TEST(ConfigFile, RefusalsNameThePlaceTheKeyAndWhatMayBeMeant) {
  EXPECT_EQ(refused("port = 1\nprot = 2\n"), "q.toml:2: unknown key prot; did you mean port? (docs/CONFIG.md)");
  EXPECT_EQ(refused("xyzzy = 2\n"), "q.toml:1: unknown key xyzzy (docs/CONFIG.md)");
  // An option of another command is none of serve's, and one of serve's may be none of a model's.
  EXPECT_EQ(refused("raw = true\n"), "q.toml:1: unknown key raw (docs/CONFIG.md)");
  EXPECT_EQ(refused("[[model]]\npath = \"a\"\nport = 1\n"), "q.toml:3: unknown key port in [[model]] (docs/CONFIG.md)");
  EXPECT_EQ(refused("[[model]]\npaht = \"a\"\n"),
            "q.toml:2: unknown key paht in [[model]]; did you mean path? (docs/CONFIG.md)");
  EXPECT_EQ(refused("preload = true\n"), "q.toml:1: unknown key preload (docs/CONFIG.md)");
  EXPECT_EQ(refused("[serve]\nport = 1\n"), "q.toml:1: unknown key serve (docs/CONFIG.md)");
  EXPECT_EQ(refused("[model]\npath = \"a\"\n"), "q.toml:1: write [[model]], one such table a model");
  EXPECT_EQ(refused("config = \"b.toml\"\n"), "q.toml:1: config is for the command line only");
  // Of two wrong keys the first in the file.
  EXPECT_EQ(refused("zzzz = 1\naaaa = 1\n").substr(0, 24), "q.toml:1: unknown key zz");
  EXPECT_EQ(refused("\"a\\nb\" = 1\n").substr(0, 26), "q.toml:1: unknown key a?b ");
}

TEST(ConfigFile, TypesAreTheOptions) {
  EXPECT_EQ(refused("port = \"9000\"\n"), "q.toml:1: port takes a whole number");
  EXPECT_EQ(refused("port = 90.5\n"), "q.toml:1: port takes a whole number");
  EXPECT_EQ(refused("port = [1]\n"), "q.toml:1: port takes a whole number");
  EXPECT_EQ(refused("host = true\n"), "q.toml:1: host takes a string");
  EXPECT_EQ(refused("verbose = 1\n"), "q.toml:1: verbose takes true or false");
  EXPECT_EQ(refused("temp = \"warm\"\n"), "q.toml:1: temp takes a number");
  EXPECT_EQ(refused("api-key = []\n"), "q.toml:1: api-key is an empty list; leave it out");
  EXPECT_EQ(refused("api-key = [\"a\", 1]\n"), "q.toml:1: api-key takes a string, or a list of such");
  EXPECT_EQ(refused("tune = 1979-05-27\n"), "q.toml:1: tune takes a string");
}

TEST(ConfigFile, WhatIsNoTomlIsNamedWithItsLine) {
  EXPECT_EQ(refused("port = 1\nhost = \n").substr(0, 18), "q.toml:2: no TOML:");
  EXPECT_EQ(refused("port = 1\nport = 2\n").substr(0, 18), "q.toml:2: no TOML:");  // a key twice
  EXPECT_EQ(refused("host = \"\xff\"\n").substr(0, 18), "q.toml:1: no TOML:");
  EXPECT_EQ(refused("port = " + std::string(5000, '[')).substr(0, 18), "q.toml:1: no TOML:");
  EXPECT_EQ(read_config("/nowhere/q.toml").error().message.substr(0, 15), "/nowhere/q.toml");
}

// Every option of serve can stand in a file (but those that are about the file), and every key of a model's table is
// read: the table of options is the only list.
TEST(ConfigFile, EveryOptionIsAKey) {
  const auto value = [](const OptionRow& row) -> std::string {
    switch (row.type) {
      case OptionType::flag:
        return "true";
      case OptionType::integer:
        return std::to_string(static_cast<int64_t>(row.max));
      case OptionType::real:
        return "1.0";
      default:
        return "\"x\"";
    }
  };
  size_t n_top = 0, n_model = 0;
  for (const OptionRow& row : option_rows()) {
    const std::string key = row.name, line = key + " = " + value(row) + "\n";
    if (option_belongs(row, "serve") && key != "config" && key != "check-config") {
      const auto file = parse_config(line, "q.toml");
      ASSERT_TRUE(file.ok()) << file.error().message;
      EXPECT_EQ(file->options.size(), 1U) << key;
      ++n_top;
    }
    if (option_belongs(row, kModelTable)) {
      const auto file = parse_config("[[model]]\n" + line, "q.toml");
      ASSERT_TRUE(file.ok()) << file.error().message;
      EXPECT_EQ(file->models.at(0).options.size(), 1U) << key;
      ++n_model;
    }
  }
  EXPECT_GT(n_top, 20U);
  EXPECT_GT(n_model, 15U);
}

}  // namespace
}  // namespace quern::apps
