// Stop strings: what goes out does not depend on how the text is cut, and is held back only while it may match.
#include "serve/stop_text.h"

#include <gtest/gtest.h>

#include <random>

namespace quern::serve {
namespace {

std::string joined(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

Piece text(std::string_view s) {
  return {Piece::Kind::text, std::string(s)};
}

TEST(StopText, CutsExactlyAcrossPieces) {
  StopText stops({"END"});
  std::vector<Piece> out;
  stops.feed(text("one E"), out);
  EXPECT_EQ(joined(out), "one ");
  stops.feed(text("N"), out);
  EXPECT_EQ(joined(out), "one ");
  ASSERT_EQ(stops.matched(), nullptr);
  stops.feed(text("D and more"), out);
  ASSERT_NE(stops.matched(), nullptr);
  EXPECT_EQ(*stops.matched(), "END");
  EXPECT_EQ(joined(out), "one ");
  stops.feed(text("more"), out);
  stops.flush(out);
  EXPECT_EQ(joined(out), "one ");
}

TEST(StopText, ReleasesWhatDidNotBecomeOne) {
  StopText stops({"END", "aab"});
  std::vector<Piece> out;
  stops.feed(text("EN"), out);
  EXPECT_EQ(joined(out), "");
  stops.feed(text("d"), out);
  EXPECT_EQ(joined(out), "ENd");
  stops.feed(text("aaa"), out);
  EXPECT_EQ(joined(out), "ENda");
  stops.flush(out);
  EXPECT_EQ(joined(out), "ENdaaa");
  EXPECT_EQ(stops.matched(), nullptr);
}

TEST(StopText, OfTwoThatEndTogetherTheLongestCounts) {
  StopText stops({"b", "aab"});
  std::vector<Piece> out;
  stops.feed(text("xaab"), out);
  ASSERT_NE(stops.matched(), nullptr);
  EXPECT_EQ(*stops.matched(), "aab");
  EXPECT_EQ(joined(out), "x");
}

TEST(StopText, UserDefinedTokensGoOutWholeAndControlTokensEndWhatMayMatch) {
  StopText stops({">x", "<|stop|>"});
  std::vector<Piece> out;
  stops.feed({Piece::Kind::defined, "</think>"}, out);
  EXPECT_TRUE(out.empty());
  stops.feed(text("y"), out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].kind, Piece::Kind::defined);
  EXPECT_EQ(out[0].text, "</think>");
  out.clear();
  stops.feed(text(">"), out);
  stops.feed({Piece::Kind::control, "<|other|>"}, out);
  stops.feed(text("x"), out);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[1].kind, Piece::Kind::control);
  EXPECT_EQ(stops.matched(), nullptr);
  out.clear();
  stops.feed({Piece::Kind::control, "<|stop|>"}, out);
  EXPECT_TRUE(out.empty());
  ASSERT_NE(stops.matched(), nullptr);
  EXPECT_EQ(*stops.matched(), "<|stop|>");
}

TEST(StopText, AStopInsideAUserDefinedTokenCutsIt) {
  StopText stops({"thi"});
  std::vector<Piece> out;
  stops.feed({Piece::Kind::defined, "</think>"}, out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].kind, Piece::Kind::text);
  EXPECT_EQ(out[0].text, "</");
  EXPECT_NE(stops.matched(), nullptr);
}

// Random texts over two letters, cut at random, against the plain definition: the stop that ends first, of those the
// longest; and nothing is held back that could not become a stop.
TEST(StopText, MatchesItsDefinitionHoweverTheTextIsCut) {
  std::mt19937 rng(5);
  const auto word = [&](size_t n) {
    std::string s;
    for (size_t i = 0; i < n; ++i) s += static_cast<char>('a' + rng() % 2);
    return s;
  };
  int n_matched = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + rng() % 3; ++i) stops.push_back(word(2 + rng() % 6));
    const std::string whole = word(rng() % 40);
    size_t end = std::string::npos, length = 0;
    for (const std::string& stop : stops) {
      const size_t at = whole.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && stop.size() > length)) {
        end = at + stop.size();
        length = stop.size();
      }
    }
    StopText held(stops);
    std::vector<Piece> out;
    for (size_t at = 0; at < whole.size() && held.matched() == nullptr;) {
      const size_t n = 1 + rng() % 4;
      held.feed(text(std::string_view(whole).substr(at, n)), out);
      at = std::min(whole.size(), at + n);
      if (held.matched() != nullptr) break;
      const std::string rest = whole.substr(joined(out).size(), at - joined(out).size());
      EXPECT_TRUE(rest.empty() ||
                  std::any_of(stops.begin(), stops.end(),
                              [&](const std::string& stop) { return stop.starts_with(rest) && stop != rest; }))
          << whole << " held " << rest;
    }
    held.flush(out);
    ASSERT_EQ(held.matched() != nullptr, end != std::string::npos) << whole;
    n_matched += held.matched() != nullptr;
    EXPECT_EQ(joined(out), end == std::string::npos ? whole : whole.substr(0, end - length));
  }
  EXPECT_GT(n_matched, 500);
}

TEST(StopText, IsLinearInHostileText) {
  StopText stops({std::string(4000, 'a') + "b"});
  std::vector<Piece> out;
  for (int i = 0; i < 200; ++i) stops.feed(text(std::string(5000, 'a')), out);
  stops.flush(out);
  EXPECT_EQ(joined(out).size(), 1000000U);
}

}  // namespace
}  // namespace quern::serve
