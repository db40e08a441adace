// base/options: types, ranges, precedence, and errors that name the option and what it allows.
#include "base/options.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

constexpr OptionRow kRows[] = {
    {"run bench", "threads", "t", OptionType::integer, "N", "0", 0, 64, "", "T_THREADS", false, "threads"},
    {"run", "prompt", "p", OptionType::text, "TEXT", "", 0, 0, "", "", false, "what to say"},
    {"run", "raw", "", OptionType::flag, "", "", 0, 0, "", "T_RAW", false, "no template"},
    {"run", "temp", "", OptionType::real, "T", "0.8", 0, 100, "", "", false, "heat"},
    {"run", "isa", "", OptionType::choice, "NAME", "auto", 0, 0, "auto|generic|avx2", "T_ISA", false, "tier"},
    {"run", "no-fuse", "", OptionType::text, "NAME", "", 0, 0, "", "T_NO_FUSE", true, "leave out"},
    {"bench", "n-prompt", "p", OptionType::integers, "N,..", "512", 0, 4096, "", "", false, "lengths"},
};

using Env = std::map<std::string, std::string>;

Result<Options> parse(const char* command, std::vector<std::string> args, const Env& env = {}) {
  return Options::parse(kRows, command, args, [&](const char* name) -> std::optional<std::string> {
    const auto it = env.find(name);
    return it == env.end() ? std::nullopt : std::optional(it->second);
  });
}

std::string message(const Result<Options>& result) {
  return result.ok() ? "" : result.error().message;
}

TEST(Options, DefaultsThenEnvironmentThenCommandLine) {
  EXPECT_EQ(parse("run", {})->integer("threads"), 0);
  EXPECT_EQ(parse("run", {}, {{"T_THREADS", "3"}})->integer("threads"), 3);
  EXPECT_EQ(parse("run", {"-t", "5"}, {{"T_THREADS", "3"}})->integer("threads"), 5);
  EXPECT_EQ(parse("run", {}, {{"T_THREADS", ""}})->integer("threads"), 0);  // set but empty counts as not set
  EXPECT_FALSE(parse("run", {})->given("threads"));
  EXPECT_TRUE(parse("run", {}, {{"T_THREADS", "3"}})->given("threads"));
}

TEST(Options, EveryTypeParses) {
  const auto o = parse("run", {"--temp=0.25", "--raw", "--isa", "avx2", "-p", "--raw", "--no-fuse", "a", "--no-fuse",
                               "b", "x", "-", "--", "-t"});
  ASSERT_TRUE(o.ok()) << message(o);
  EXPECT_DOUBLE_EQ(o->real("temp"), 0.25);
  EXPECT_TRUE(o->flag("raw"));
  EXPECT_EQ(o->text("isa"), "avx2");
  EXPECT_EQ(o->text("prompt"), "--raw");  // a value may look like an option
  EXPECT_EQ(o->texts("no-fuse"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o->positionals(), (std::vector<std::string>{"x", "-", "-t"}));
}

TEST(Options, OneLetterMeansWhatTheCommandSays) {
  EXPECT_EQ(parse("bench", {"-p", "16,32"})->integers("n-prompt"), (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(parse("bench", {})->integers("n-prompt"), (std::vector<int64_t>{512}));
}

TEST(Options, RepeatsReplaceTheEnvironment) {
  EXPECT_EQ(parse("run", {}, {{"T_NO_FUSE", "e"}})->texts("no-fuse"), (std::vector<std::string>{"e"}));
  EXPECT_EQ(parse("run", {"--no-fuse", "a"}, {{"T_NO_FUSE", "e"}})->texts("no-fuse"), (std::vector<std::string>{"a"}));
}

TEST(Options, AFileFillsWhatIsNotGiven) {
  const std::vector<OptionText> file = {{"threads", "7", "f.toml:1"},
                                        {"temp", "0.5", "f.toml:2"},
                                        {"no-fuse", "x", "f.toml:3"},
                                        {"no-fuse", "y", "f.toml:3"},
                                        {"raw", "1", "f.toml:4"}};
  auto o = parse("run", {"--temp", "0.25"}, {{"T_NO_FUSE", "e"}});
  ASSERT_TRUE(o->fill(file).ok());
  EXPECT_EQ(o->integer("threads"), 7);  // over the default
  EXPECT_TRUE(o->given("threads"));
  EXPECT_DOUBLE_EQ(o->real("temp"), 0.25);                          // under the command line
  EXPECT_EQ(o->texts("no-fuse"), (std::vector<std::string>{"e"}));  // under the environment
  EXPECT_TRUE(o->flag("raw"));
  auto plain = parse("run", {});
  ASSERT_TRUE(plain->fill(file).ok());
  EXPECT_EQ(plain->texts("no-fuse"), (std::vector<std::string>{"x", "y"}));
  // What was filled counts as given: the next file only fills what is left.
  ASSERT_TRUE(plain->fill(std::vector<OptionText>{{"threads", "9", "g.toml:1"}, {"isa", "avx2", "g.toml:2"}}).ok());
  EXPECT_EQ(plain->integer("threads"), 7);
  EXPECT_EQ(plain->text("isa"), "avx2");
}

TEST(Options, WhatAFileSaysIsCheckedEvenWhereItLoses) {
  const auto refused = [](std::vector<OptionText> texts) {
    auto o = parse("run", {"-t", "1", "--temp", "1"});
    const auto filled = o->fill(texts);
    EXPECT_EQ(o->integer("threads"), 1);
    return filled.ok() ? "" : filled.error().message;
  };
  EXPECT_EQ(refused({{"threads", "65", "f.toml:3"}}),
            "f.toml:3: threads: '65' is not allowed; give a whole number from 0 to 64");
  EXPECT_EQ(refused({{"temp", "1", "f.toml:3"}, {"temp", "2", "f.toml:4"}}), "f.toml:4: temp: takes one value");
  EXPECT_EQ(refused({{"n-prompt", "1", "f.toml:5"}}), "f.toml:5: n-prompt: there is no such option");
  EXPECT_EQ(refused({{"threads", "2", "f.toml:1"}}), "");
}

TEST(Options, ErrorsNameTheOptionAndWhatIsAllowed) {
  EXPECT_EQ(message(parse("run", {"-t", "65"})), "-t: '65' is not allowed; give a whole number from 0 to 64");
  EXPECT_EQ(message(parse("run", {"-t", "4x"})), "-t: '4x' is not allowed; give a whole number from 0 to 64");
  EXPECT_EQ(message(parse("run", {"-t", "99999999999999999999"})),
            "-t: '99999999999999999999' is not allowed; give a whole number from 0 to 64");
  EXPECT_EQ(message(parse("run", {"--temp", "nan"})), "--temp: 'nan' is not allowed; give a number from 0 to 100");
  EXPECT_EQ(message(parse("run", {"--isa", "sse"})), "--isa: 'sse' is not allowed; give one of auto, generic, avx2");
  EXPECT_EQ(message(parse("bench", {"-p", "1,,2"})),
            "-p: '1,,2' is not allowed; give whole numbers with commas, each from 0 to 4096");
  EXPECT_EQ(message(parse("run", {}, {{"T_ISA", "x"}})),
            "environment variable T_ISA: 'x' is not allowed; give one of auto, generic, avx2");
  EXPECT_EQ(message(parse("run", {}, {{"T_RAW", "maybe"}})),
            "environment variable T_RAW: 'maybe' is not allowed; give 1 or 0");
  EXPECT_EQ(message(parse("run", {"-p"})), "-p needs a value (TEXT: what to say)");
  EXPECT_EQ(message(parse("run", {"--raw=1"})), "--raw takes no value");
  EXPECT_EQ(message(parse("run", {"-t", "1", "--threads", "2"})), "--threads is given twice");
  EXPECT_EQ(message(parse("run", {"--thread", "2"})),
            "unknown option --thread; did you mean --threads? (quern help run lists them)");
  EXPECT_EQ(message(parse("run", {"--n-prompt", "2"})),
            "unknown option --n-prompt; did you mean --prompt? (quern help run lists them)");  // bench's
  EXPECT_EQ(message(parse("run", {"-x"})), "unknown option -x (quern help run lists them)");
}

TEST(Options, SetChecksLikeTheCommandLine) {
  auto o = parse("run", {});
  EXPECT_TRUE(o->set("temp", "0").ok());
  EXPECT_EQ(o->real("temp"), 0);
  EXPECT_FALSE(o->set("temp", "hot").ok());
  EXPECT_FALSE(o->set("nothing", "1").ok());
  EXPECT_EQ(o->real("temp"), 0);
}

TEST(OptionsText, HelpAndMarkdownComeFromTheRows) {
  const std::string help = options_help(kRows, "run");
  EXPECT_NE(help.find("-t, --threads N"), std::string::npos);
  EXPECT_NE(help.find("(default 0; 0 to 64; T_THREADS)"), std::string::npos);
  EXPECT_EQ(help.find("n-prompt"), std::string::npos);
  EXPECT_NE(options_markdown(kRows, "run").find("| `--isa NAME` | `auto` | auto, generic, avx2 | `T_ISA` | tier |"),
            std::string::npos);
  constexpr EnvRow kOthers[] = {{"HOME", "where you live"}};
  const std::string env = environment_markdown(kRows, kOthers);
  EXPECT_NE(env.find("| `HOME` | where you live |"), std::string::npos);
  EXPECT_NE(env.find("| `T_ISA` | the default of `--isa`: tier |"), std::string::npos);
}

TEST(OptionsText, NearestWord) {
  const std::vector<std::string> words = {"tokenize", "chat", "plan"};
  EXPECT_EQ(nearest_word("tokenise", words), "tokenize");
  EXPECT_EQ(nearest_word("plam", words), "plan");
  EXPECT_EQ(nearest_word("xyzzy", words), std::nullopt);
}

}  // namespace
}  // namespace quern
