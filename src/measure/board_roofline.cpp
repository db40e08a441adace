// The roofline plot: what the machine can do as lines, what each bucket does as a dot, both on logarithmic axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "measure/board_plots.h"
#include "measure/board_svg.h"

namespace quern::measure::board {
namespace {

constexpr double kWidth = 360, kHeight = 320;
constexpr Rect kArea{52, 24, kWidth - 74, kHeight - 24 - 46};
constexpr double kFont = 11;

struct Dot {
  double intensity, rate;  // MACs per byte, GMAC/s
  size_t bucket;
};

std::vector<Dot> dots_of(const PhaseProfile& profile) {
  std::vector<Dot> dots;
  for (size_t i = 0; i < profile.buckets.size(); ++i) {
    const Bucket& b = profile.buckets[i];
    if (b.seconds > 0 && b.bytes > 0 && b.macs > 0) dots.push_back({b.macs / b.bytes, b.macs / b.seconds / 1e9, i});
  }
  return dots;
}

struct Slope {
  const char* name;
  double rate;  // GB/s
};

// Known rates of memory, ascending.
std::vector<Slope> slopes_of(const Roofs& roofs) {
  std::vector<Slope> slopes;
  for (const Slope& s : {Slope{"DRAM", roofs.dram}, {"L3", roofs.l3}, {"L2", roofs.l2}})
    if (s.rate > 0) slopes.push_back(s);
  std::stable_sort(slopes.begin(), slopes.end(), [](const Slope& a, const Slope& b) { return a.rate < b.rate; });
  return slopes;
}

struct Plane {
  Scale x, y;
};

// Room for the dots, the ridges (where a slope meets the peak) and a stretch of each slope.
Plane plane_of(const std::vector<Dot>& dots, const std::vector<Slope>& slopes, double peak) {
  double low_x = 1, high_x = 10, low_y = peak > 0 ? peak : 1, high_y = low_y;
  for (const Dot& dot : dots) {
    low_x = std::min(low_x, dot.intensity);
    high_x = std::max(high_x, dot.intensity);
    low_y = std::min(low_y, dot.rate);
    high_y = std::max(high_y, dot.rate);
  }
  for (const Slope& s : slopes) {
    if (peak > 0) high_x = std::max(high_x, peak / s.rate);
    low_y = std::min(low_y, s.rate * low_x);
  }
  return {Scale::decades(low_x / 1.1, high_x * 1.5, 7, kArea.x, kArea.right()),
          Scale::decades(low_y / 1.1, high_y * 1.2, 7, kArea.bottom(), kArea.y)};
}

// Draws the slopes with their names along them, and blocks the place of the names.
void draw_slopes(Svg& svg, Labels& labels, const Plane& plane, const std::vector<Slope>& slopes, double peak) {
  double name_end = 0;  // how far along its line the last name reached
  double last_rate = 0;
  for (const Slope& s : slopes) {
    const double first = std::max(plane.x.low(), plane.y.low() / s.rate);
    const double last = std::min(plane.x.high(), (peak > 0 ? peak : plane.y.high()) / s.rate);
    if (!(first < last)) continue;
    const double x1 = plane.x.at(first), y1 = plane.y.at(first * s.rate);
    const double x2 = plane.x.at(last), y2 = plane.y.at(last * s.rate);
    svg.line(x1, y1, x2, y2,
             fmt::format("class=\"roof slope\"{}{}{}", data("rate", s.rate), data("x1", first), data("x2", last)));
    const double length = std::hypot(x2 - x1, y2 - y1), dx = (x2 - x1) / length, dy = (y2 - y1) / length;
    const std::string name = fmt::format("{} {} GB/s", s.name, number(s.rate));
    const double width = text_width(name, kFont);
    // Names of near lines stand one after the other.
    const double apart =
        last_rate > 0 ? std::fabs(plane.y.at(first * s.rate) - plane.y.at(first * last_rate)) * dx : 99;
    double begin = apart < 15 ? name_end + 10 : 8;
    const auto blocks = [&](auto&& each) {
      for (double at = begin; at < begin + width; at += 6) each(Rect{x1 + dx * at - 3, y1 + dy * at - 15, 12, 15});
    };
    const auto crowded = [&] {
      bool any = false;
      blocks([&](const Rect& r) { any = any || !labels.free(r); });
      return any;
    };
    while (begin + width <= length && crowded()) begin += 6;
    if (begin + width > length) continue;  // the machine's facts have the number
    const double x = x1 + dx * begin + dy * 4, y = y1 + dy * begin - dx * 4;
    svg.text(x, y, Anchor::start,
             fmt::format("class=\"roof-name\" transform=\"rotate({} {} {})\"",
                         place(std::atan2(dy, dx) * 180 / std::numbers::pi), place(x), place(y)),
             name);
    for (double at = begin; at < begin + width; at += 6) labels.block({x1 + dx * at - 3, y1 + dy * at - 14, 10, 14});
    name_end = begin + width;
    last_rate = s.rate;
  }
}

void draw_peaks(Svg& svg, Labels& labels, const Plane& plane, const Roofs& roofs, double fastest) {
  struct Peak {
    const char* name;
    double rate;
  };
  for (const Peak& p : {Peak{"int8", roofs.int8}, {"f32", roofs.f32}}) {
    if (p.rate <= 0 || p.rate < plane.y.low()) continue;
    const double first = std::max(plane.x.low(), fastest > 0 ? p.rate / fastest : 0);
    const double y = plane.y.at(p.rate);
    svg.line(plane.x.at(first), y, kArea.right(), y, fmt::format("class=\"roof peak\"{}", data("y", p.rate)));
    const std::string name = fmt::format("{} {} GMAC/s", p.name, number(p.rate));
    // At the right end if it can be, else further left; above the line or below it.
    const double width = text_width(name, kFont);
    const Rect above{kArea.right() - 6 - width, y - 16, width, 14}, below{above.x, y + 2, width, 14};
    Rect place_of = above;
    for (double shift = 0; !labels.free(place_of) && above.x - shift > kArea.x; shift += 6)
      for (const Rect& start : {above, below})
        if (const Rect r{start.x - shift, start.y, width, 14}; labels.free(r) && !labels.free(place_of)) place_of = r;
    if (!labels.free(place_of)) continue;  // the machine's facts have the number
    svg.text(place_of.right(), place_of.y + 11, Anchor::end, "class=\"roof-name\"", name);
    labels.block(place_of);
  }
}

}  // namespace

double attainable_gmac_s(const Bucket& bucket, const Roofs& roofs) {
  if (bucket.macs <= 0 || bucket.bytes <= 0 || roofs.dram <= 0 || roofs.int8 <= 0) return 0;
  return std::min(roofs.int8, bucket.macs / bucket.bytes * roofs.dram);
}

std::string roofline_plot(const Roofs& roofs, const PhaseProfile& profile, const std::vector<int>& colors,
                          const std::string& title) {
  const auto dots = dots_of(profile);
  const auto slopes = slopes_of(roofs);
  const double peak = std::max(roofs.int8, roofs.f32);
  const Plane plane = plane_of(dots, slopes, peak);
  std::string spoken;
  for (const Dot& dot : dots)
    spoken += fmt::format("{}: {} MACs per byte, {} GMAC/s. ", profile.buckets[dot.bucket].name, number(dot.intensity),
                          number(dot.rate));
  Svg svg(kWidth, kHeight, "roofline", title, spoken);
  Labels labels({kArea.x + 2, kArea.y + 2, kArea.w - 4, kArea.h - 4});
  svg.area(kArea);
  svg.x_axis(plane.x, kArea);
  svg.y_axis(plane.y, kArea);
  svg.text(0, 12, Anchor::start, "class=\"muted\"", "GMAC/s");
  svg.text(kArea.right(), kHeight - 8, Anchor::end, "class=\"muted\"", "multiply-adds per byte");
  const auto spot = [&](const Dot& dot) {
    return std::pair{std::clamp(plane.x.at(dot.intensity), kArea.x + 5, kArea.right() - 5),
                     std::clamp(plane.y.at(dot.rate), kArea.y + 5, kArea.bottom() - 5)};
  };
  for (const Dot& dot : dots) {
    const auto [x, y] = spot(dot);
    labels.block({x - 6, y - 6, 12, 12});
  }
  draw_slopes(svg, labels, plane, slopes, peak);
  draw_peaks(svg, labels, plane, roofs, slopes.empty() ? 0 : slopes.back().rate);
  for (const Dot& dot : dots) {
    const auto [x, y] = spot(dot);
    const std::string name = fit(profile.buckets[dot.bucket].name, 96, kFont);
    const auto at = labels.put(x, y, text_width(name, kFont) + 2, 14);
    if (!at) continue;  // the plot is too full there; the table has the name
    if (at->far) svg.line(x, y, at->x, at->y, "class=\"leader\"");
    svg.text(at->x, at->y + 4, Anchor::middle, "class=\"mark-name\"", name);
  }
  for (const Dot& dot : dots) {
    const auto [x, y] = spot(dot);
    svg.circle(x, y, 5,
               fmt::format("class=\"dot b{}\"{}{}", colors[dot.bucket], data("x", dot.intensity), data("y", dot.rate)),
               fmt::format("{}: {} MACs per byte, {} GMAC/s", profile.buckets[dot.bucket].name, number(dot.intensity),
                           number(dot.rate)));
  }
  return std::move(svg).finish();
}

}  // namespace quern::measure::board
