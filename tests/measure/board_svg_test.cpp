// Geometry, text and numbers that the board is drawn with.
#include "measure/board_svg.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace quern::measure::board;

namespace {

TEST(BoardText, EscapesWhatMeansSomethingInHtml) {
  EXPECT_EQ(escape("a < b && c > \"d\" 'e'"), "a &lt; b &amp;&amp; c &gt; &quot;d&quot; &#39;e&#39;");
  EXPECT_EQ(escape("&lt;"), "&amp;lt;");
  EXPECT_EQ(escape("µ × – 日本 🙂\n\t"), "µ × – 日本 🙂\n\t");
}

TEST(BoardText, ReplacesWhatMayNotStandInHtml) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(escape(std::string("a\0b", 3)), "a" + mark + "b");
  EXPECT_EQ(escape("\x01\x1B\x7F"), mark + mark + mark);
  EXPECT_EQ(escape("\xE2\x80\xAE"), mark) << "U+202E turns the direction of writing";
  EXPECT_EQ(escape("\xE2\x81\xA6"), mark) << "U+2066 too";
  EXPECT_EQ(escape("\xFFok\xC3"), mark + "ok" + mark) << "no UTF-8, and cut UTF-8";
  EXPECT_EQ(escape("\xC0\xBC"), mark + mark) << "an overlong '<'";
  EXPECT_EQ(escape("\xED\xA0\x80"), mark + mark + mark) << "half of a surrogate pair";
  EXPECT_EQ(escape("\xF4\x90\x80\x80"), mark + mark + mark + mark) << "beyond Unicode";
}

TEST(BoardText, NoByteStringLeavesAnActiveCharacter) {
  // Every pair of bytes, between two letters.
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::string in{'x', static_cast<char>(a), static_cast<char>(b), 'y'};
      const std::string out = escape(in);
      ASSERT_EQ(out.find_first_of("<>\"'"), std::string::npos) << a << ' ' << b;
      ASSERT_EQ(out.front(), 'x');
      ASSERT_EQ(out.back(), 'y') << a << ' ' << b;
    }
}

TEST(BoardText, ShortensByCharacter) {
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shorten("abcd", 3), "ab…");
  EXPECT_EQ(shorten("日本語です", 3), "日本…");
  EXPECT_EQ(shorten("", 3), "");
  EXPECT_EQ(shorten("ab", 1), "…");
  EXPECT_EQ(shorten("\xFF\xFF\xFF\xFF", 2), "\xFF…");
}

TEST(BoardText, AnchorsHoldOnlySafeCharacters) {
  EXPECT_EQ(slug("SmolLM2-135M Q4_1"), "smollm2-135m-q4-1");
  EXPECT_EQ(slug("\"><script>"), "script");
  EXPECT_EQ(slug("日本"), "x");
  EXPECT_EQ(slug(std::string(300, 'a')).size(), 40u);
}

TEST(BoardText, Numbers) {
  EXPECT_EQ(number(2624.4), "2,624");
  EXPECT_EQ(number(1234567), "1,234,567");
  EXPECT_EQ(number(999.96), "1,000");
  EXPECT_EQ(number(99.96), "100");
  EXPECT_EQ(number(46.04), "46.0");
  EXPECT_EQ(number(9.999), "10.0");
  EXPECT_EQ(number(1.524), "1.52");
  EXPECT_EQ(number(0.003123), "0.00312");
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(1e18), "1e+18");
  EXPECT_EQ(ratio_text(5.714), "5.71");
  EXPECT_EQ(ratio_text(12.34), "12.3");
  EXPECT_EQ(ratio_text(0.5), "0.50");
  EXPECT_EQ(percent(0.512), "51 %");
  EXPECT_EQ(percent(0.0123), "1.2 %");
  EXPECT_EQ(percent(0), "0 %");
  EXPECT_EQ(bytes_text(1.2e9), "1.2 GB");
  EXPECT_EQ(bytes_text(96e6), "96 MB");
  EXPECT_EQ(binary_text(33554432), "32 MiB");
  EXPECT_EQ(day("2026-11-30T12:00:00Z"), "2026-11-30");
  EXPECT_EQ(place(3.10), "3.1");
  EXPECT_EQ(place(-0.001), "0");
}

TEST(BoardScale, LinearHoldsItsValuesAndEndsOnATick) {
  for (double high = 1e-9; high < 1e15; high *= 1.7) {
    for (const int most : {1, 3, 6}) {
      const Scale s = Scale::linear(high, most, 10, 210);
      ASSERT_GE(s.high() * (1 + 1e-9), high);
      ASSERT_LE(s.ticks().size(), static_cast<size_t>(most) + 1) << high;
      ASSERT_GE(s.ticks().size(), 2u);
      ASSERT_EQ(s.ticks().front(), 0);
      ASSERT_EQ(s.ticks().back(), s.high());
      const double digits = s.ticks()[1] / std::pow(10, std::floor(std::log10(s.ticks()[1]) + 1e-9));
      ASSERT_TRUE(std::fabs(digits - 1) < 1e-6 || std::fabs(digits - 2) < 1e-6 || std::fabs(digits - 5) < 1e-6)
          << digits;
      ASSERT_NEAR(s.at(0), 10, 1e-9);
      ASSERT_NEAR(s.at(s.high() / 2), 110, 1e-6);
    }
  }
}

TEST(BoardScale, LinearKeepsOutsidersAtTheEdge) {
  const Scale s = Scale::linear(100, 4, 200, 0);
  EXPECT_EQ(s.at(-5), 200);
  EXPECT_EQ(s.at(1e9), 0);
  EXPECT_NEAR(s.at(25), 150, 1e-9);
}

TEST(BoardScale, DecadesAreWholeAndEvenlySpaced) {
  const Scale s = Scale::decades(0.02, 3000, 10, 0, 600);
  EXPECT_NEAR(s.low(), 0.01, 1e-12);
  EXPECT_NEAR(s.high(), 10000, 1e-6);
  ASSERT_EQ(s.ticks().size(), 7u);
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(s.at(s.ticks()[i]), 100.0 * static_cast<double>(i), 1e-9);
  EXPECT_NEAR(s.at(std::sqrt(10.0)), 250, 1e-9);
}

TEST(BoardScale, DecadesOfExactPowersAndOfOneValue) {
  const Scale exact = Scale::decades(1, 1000, 10, 0, 1);
  EXPECT_NEAR(exact.low(), 1, 1e-12);
  EXPECT_NEAR(exact.high(), 1000, 1e-9);
  const Scale one = Scale::decades(10, 10, 10, 0, 1);
  EXPECT_LT(one.low(), one.high());
  EXPECT_TRUE(std::isfinite(one.at(10)));
}

TEST(BoardScale, DecadesThinTheirTicks) {
  const Scale s = Scale::decades(1e-12, 1e18, 7, 0, 1);
  EXPECT_LE(s.ticks().size(), 7u);
  EXPECT_GE(s.ticks().size(), 3u);
}

TEST(BoardLabels, NeverOverlapNorLeaveTheArea) {
  const Rect area{0, 0, 300, 200};
  Labels labels(area);
  std::vector<Rect> placed;
  // Points in a heap, and one in a corner.
  for (int i = 0; i < 12; ++i) {
    const double x = i == 11 ? 299 : 150 + i, y = i == 11 ? 1 : 100 + i % 3;
    const auto spot = labels.put(x, y, 50, 12);
    ASSERT_TRUE(spot.has_value()) << i;
    placed.push_back({spot->x - 25, spot->y - 6, 50, 12});
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    EXPECT_TRUE(area.contains(placed[i])) << i;
    for (size_t k = 0; k < i; ++k) EXPECT_FALSE(placed[i].overlaps(placed[k])) << i << ' ' << k;
  }
}

TEST(BoardLabels, KeepOffBlockedPlacesAndSayWhenFar) {
  Labels labels({0, 0, 200, 200});
  const auto near = labels.put(100, 100, 20, 10);
  ASSERT_TRUE(near.has_value());
  EXPECT_FALSE(near->far);
  labels.block({60, 60, 80, 80});
  const auto far = labels.put(100, 100, 20, 10);
  ASSERT_TRUE(far.has_value());
  EXPECT_TRUE(far->far);
  EXPECT_FALSE((Rect{60, 60, 80, 80}.overlaps({far->x - 10, far->y - 5, 20, 10})));
  labels.block({0, 0, 200, 200});
  EXPECT_FALSE(labels.put(100, 100, 20, 10).has_value());
}

TEST(BoardSvg, WritesEscapedTextAndPlainAttributes) {
  Svg svg(10, 20.5, "kind", "a<b", "c\"d");
  svg.text(1, 2, Anchor::end, "class=\"t\"", "<&>");
  svg.rect({1, 2, 3, 4}, "class=\"bar\"", "tip's");
  const std::string out = std::move(svg).finish();
  EXPECT_EQ(out,
            "<svg class=\"plot kind\" viewBox=\"0 0 10 20.5\" role=\"img\" aria-label=\"a&lt;b. c&quot;d\">"
            "<text x=\"1\" y=\"2\" text-anchor=\"end\" class=\"t\">&lt;&amp;&gt;</text>"
            "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" class=\"bar\"><title>tip&#39;s</title></rect></svg>\n");
}

TEST(BoardSvg, AxesMarkEveryTick) {
  Svg svg(100, 100, "", "", "");
  const Rect area{10, 10, 80, 60};
  const Scale scale = Scale::linear(2000, 2, 10, 90);
  svg.x_axis(scale, area);
  const std::string out = std::move(svg).finish();
  EXPECT_NE(out.find("x1=\"50\" y1=\"10\" x2=\"50\" y2=\"70\" class=\"grid\" data-axis=\"x\" data-value=\"1000\""),
            std::string::npos);
  EXPECT_NE(out.find(">1,000</text>"), std::string::npos);
  EXPECT_NE(out.find(">2,000</text>"), std::string::npos);
}

}  // namespace
