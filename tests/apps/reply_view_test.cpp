// Replies as they are shown: parts told apart, a plain answer untouched, no terminal left dimmed.
#include "apps/quern/reply_view.h"

#include <gtest/gtest.h>

namespace quern::apps {
namespace {

using Kind = token::ReplyDelta::Kind;
using Reasoning = ReplyView::Reasoning;
using Deltas = std::vector<token::ReplyDelta>;

std::string shown(const Deltas& deltas, Reasoning reasoning, bool finished = true) {
  std::FILE* file = std::tmpfile();
  Output out(file);
  {
    ReplyView view(out, reasoning);
    for (const auto& delta : deltas) EXPECT_TRUE(view.show({&delta, 1}));
    EXPECT_TRUE(!finished || view.finish());
  }
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(ReplyView, AnAnswerAloneIsAsItIs) {
  for (const Reasoning reasoning : {Reasoning::hidden, Reasoning::dimmed, Reasoning::marked}) {
    EXPECT_EQ(shown({}, reasoning), "\n");
    EXPECT_EQ(shown({{Kind::content, "\na"}, {Kind::content, "b"}}, reasoning), "\nab\n");
    EXPECT_EQ(shown({{Kind::content, "a\n"}}, reasoning), "a\n");
  }
}

TEST(ReplyView, ReasoningIsHiddenDimmedOrMarked) {
  const Deltas deltas = {{Kind::reasoning, "w"}, {Kind::reasoning, "hy"}, {Kind::content, "yes"}};
  EXPECT_EQ(shown(deltas, Reasoning::hidden), "yes\n");
  EXPECT_EQ(shown(deltas, Reasoning::dimmed), "\x1b[2mwhy\x1b[0m\n\nyes\n");
  EXPECT_EQ(shown(deltas, Reasoning::marked), "[reasoning]\nwhy\n\n[answer]\nyes\n");
}

TEST(ReplyView, CallsHaveLinesOfTheirOwn) {
  const Deltas deltas = {{Kind::content, "I look."}, {Kind::call, "f", 0},      {Kind::arguments, "{\"a\":", 0},
                         {Kind::arguments, "1}", 0}, {Kind::call, "g", 1},      {Kind::reasoning, "hm\n"},
                         {Kind::call, "h", 2},       {Kind::content, "waiting"}};
  EXPECT_EQ(shown(deltas, Reasoning::hidden), "I look.\n[call f] {\"a\":1}\n[call g] \n[call h] \nwaiting\n");
  EXPECT_EQ(shown(deltas, Reasoning::marked),
            "I look.\n[call f] {\"a\":1}\n[call g] \n[reasoning]\nhm\n\n[call h] \n[answer]\nwaiting\n");
}

TEST(ReplyView, WhateverHappensTheTerminalIsLeftPlain) {
  EXPECT_EQ(shown({{Kind::reasoning, "why"}}, Reasoning::dimmed, false), "\x1b[2mwhy\x1b[0m");
  EXPECT_EQ(shown({{Kind::reasoning, "why"}}, Reasoning::dimmed), "\x1b[2mwhy\x1b[0m\n");
}

}  // namespace
}  // namespace quern::apps
