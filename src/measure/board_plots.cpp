// Bars of speeds and ratios, history, shares of buckets. The roofline is in board_roofline.cpp.
#include "measure/board_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "measure/board_svg.h"
#include "measure/paired.h"

namespace quern::measure::board {
namespace {

constexpr double kWidth = 340;
constexpr double kFont = 12;
constexpr double kBold = 1.1;  // how much wider bold text is

Interval own_interval(const std::vector<double>& samples) {
  const auto found = paired_ratio(samples, std::vector<double>(samples.size(), 1.0));
  if (!found.ok() || !found->known) return {};
  return {found->middle, found->low, found->high};
}

// The largest value to make room for. An interval of few samples can reach far beyond them: it gets twice the largest
// value at most, and is drawn to the edge.
double largest(double value, const std::vector<double>& samples, const Interval& interval) {
  double most = value;
  for (const double s : samples) most = std::max(most, s);
  return interval.known() ? std::max(most, std::min(interval.high, 2 * most)) : most;
}

struct Bar {
  double value;
  const std::vector<double>& samples;
  Interval interval;
  std::string_view color;  // CSS class
  std::string tip;
};

// A horizontal bar from the scale's start, centred on y, with its whisker and samples.
void draw_bar(Svg& svg, const Scale& scale, double y, double height, const Bar& bar) {
  svg.rect({scale.from(), y - height / 2, scale.at(bar.value) - scale.from(), height},
           fmt::format("class=\"bar {}\"{}", bar.color, data("x", bar.value)), bar.tip);
  if (bar.interval.known()) {
    const double low = scale.at(bar.interval.low), high = scale.at(bar.interval.high);
    svg.line(low, y, high, y,
             fmt::format("class=\"whisker\"{}{}", data("x1", bar.interval.low), data("x2", bar.interval.high)));
    const double cap = height / 2 - 1.5;
    svg.line(low, y - cap, low, y + cap, "class=\"whisker cap\"");
    if (bar.interval.high <= scale.high()) svg.line(high, y - cap, high, y + cap, "class=\"whisker cap\"");
  }
  for (size_t i = 0; i < bar.samples.size(); ++i) {
    const double shift = (static_cast<double>(i % 3) - 1) * 3;  // so that near samples stay apart
    svg.circle(std::clamp(scale.at(bar.samples[i]), scale.from() + 2, scale.to() - 2), y + shift, 2,
               fmt::format("class=\"dot {}\"{}", bar.color, data("x", bar.samples[i])), number(bar.samples[i]));
  }
}

std::string interval_text(const Interval& interval) {
  return ratio_text(interval.low) + "–" + ratio_text(interval.high);
}

std::string words(const std::vector<const Run*>& runs) {
  std::string text;
  for (const Run* run : runs) {
    text += fmt::format("{} Quern {} {}", run->test, number(run->quern.median), run->unit);
    if (run->peer) text += fmt::format(", {} {}", peer_label(*run->peer), number(run->peer->median));
    if (run->ratio) text += fmt::format(", {} times as fast", ratio_text(run->ratio->middle));
    if (run->ratio && run->ratio->known()) text += fmt::format(" (95 % interval {})", interval_text(*run->ratio));
    text += ". ";
  }
  return text;
}

bool less_is_better(const Run& run) {
  return run.unit == "ms";
}

std::vector<double> pair_ratios(const Run& run) {
  std::vector<double> pairs;
  const auto& ours = run.quern.samples;
  const auto& theirs = run.peer->samples;
  for (size_t i = 0; ours.size() == theirs.size() && i < ours.size(); ++i)
    pairs.push_back(less_is_better(run) ? theirs[i] / ours[i] : ours[i] / theirs[i]);
  return pairs;
}

}  // namespace

std::string peer_setting(const std::string& command) {
  // Options of llama-bench and its kin that say what is measured, with their value, and one that says nothing.
  constexpr std::array<std::string_view, 16> kOfTheTest = {
      "-m", "--model",   "-p", "--n-prompt",    "-n", "--n-gen",  "-d",  "--n-depth",
      "-t", "--threads", "-r", "--repetitions", "-o", "--output", "-pg", "-v"};
  std::istringstream in(command);
  std::string word, setting;
  in >> word;  // the program
  while (in >> word) {
    if (word == "--no-warmup") continue;
    if (std::find(kOfTheTest.begin(), kOfTheTest.end(), word) != kOfTheTest.end()) {
      in >> word;
      continue;
    }
    setting += (setting.empty() ? "" : " ") + word;
  }
  return setting;
}

std::string peer_label(const Program& peer) {
  const std::string setting = peer_setting(peer.command);
  return setting.empty() ? peer.name : peer.name + " " + setting;
}

const char* peer_class(const std::string& name) {
  return name == "llama.cpp" ? "peer1" : name == "ik_llama.cpp" ? "peer2" : "peer3";
}

std::string ratio_plot(const std::vector<const Run*>& runs, const std::string& title) {
  constexpr double kRow = 38, kBar = 14;
  std::vector<const Run*> shown;
  double high = 1.25;
  for (const Run* run : runs) {
    if (!run->peer || !run->ratio) continue;
    shown.push_back(run);
    high = std::max(high, largest(run->ratio->middle, pair_ratios(*run), *run->ratio));
  }
  if (shown.empty()) return "";
  const double bottom = 4 + kRow * static_cast<double>(shown.size());
  const Rect all{10, 0, kWidth - 26, bottom};
  const Scale scale = Scale::linear(high, 6, all.x, all.right());
  Svg svg(kWidth, bottom + 22, "ratio", title, words(shown));
  for (size_t i = 0; i < shown.size(); ++i) {
    const Run& run = *shown[i];
    const double y = 4 + kRow * static_cast<double>(i);
    const Rect area{all.x, y + 18, all.w, 18};
    svg.area(area);
    svg.x_axis(scale, area, i + 1 == shown.size());
    std::string figure = ratio_text(run.ratio->middle) + "×";
    if (run.ratio->known()) figure += " (" + interval_text(*run.ratio) + ")";
    const double room = kWidth - 8 - text_width(figure, kFont) * kBold;
    const std::string name = run.test + " · " + peer_label(*run.peer);
    svg.text(0, y + 13, Anchor::start, "", fit(name, room, kFont));
    svg.text(kWidth, y + 13, Anchor::end, run.ratio->shows_difference() ? "class=\"strong\"" : "class=\"muted\"",
             figure);
    const auto pairs = pair_ratios(run);
    draw_bar(svg, scale, area.y + area.h / 2, kBar,
             {run.ratio->middle, pairs, *run.ratio, peer_class(run.peer->name), name + ": " + figure});
    svg.line(scale.at(1), area.y, scale.at(1), area.bottom(), "class=\"one\"");
  }
  return std::move(svg).finish();
}

std::string speed_plot(const std::vector<const Run*>& runs, const std::string& title) {
  constexpr double kLeft = 92, kRight = 64, kRow = 19, kBar = 14, kHead = 20, kGap = 10;
  double high = 0;
  double bottom = 0;
  for (const Run* run : runs) {
    high = std::max(high, largest(run->quern.median, run->quern.samples, own_interval(run->quern.samples)));
    if (run->peer)
      high = std::max(high, largest(run->peer->median, run->peer->samples, own_interval(run->peer->samples)));
    const bool setting = run->peer && !peer_setting(run->peer->command).empty();
    bottom += kHead + (setting ? 15 : 0) + kRow * (run->peer ? 2 : 1) + kGap;
  }
  Svg svg(kWidth, bottom + 14, "speed", title, words(runs));
  const Scale scale = Scale::linear(high, 3, kLeft, kWidth - kRight);
  double y = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = *runs[i];
    const bool ratio = run.peer && run.ratio;
    const bool doubtful = ratio && run.ratio->known() && !run.ratio->shows_difference();
    const std::string head = !run.peer  ? "no peer"
                             : !ratio   ? "no ratio"
                             : doubtful ? ratio_text(run.ratio->middle) + "×, no difference shown"
                                        : ratio_text(run.ratio->middle) + "× as fast";
    svg.text(0, y + 13, Anchor::start, ratio && !doubtful ? "class=\"strong\"" : "class=\"muted\"", head);
    if (ratio)
      svg.text(kWidth, y + 13, Anchor::end, "class=\"muted\"",
               run.ratio->known() ? "95 %: " + interval_text(*run.ratio) : "one pair, no interval");
    y += kHead;
    const std::string setting = run.peer ? peer_setting(run.peer->command) : "";
    if (!setting.empty()) {
      svg.text(0, y + 9, Anchor::start, "class=\"muted small\"", fit("peer with " + setting, kWidth, 11));
      y += 15;
    }
    const Rect area{kLeft, y, kWidth - kRight - kLeft, kRow * (run.peer ? 2 : 1)};
    svg.area(area);
    svg.x_axis(scale, area, i + 1 == runs.size());
    const auto side = [&](const Program& p, std::string_view color) {
      const double middle = y + kRow / 2;
      svg.text(kLeft - 6, middle + 4, Anchor::end, "", fit(p.name, kLeft - 8, kFont));
      svg.text(kWidth, middle + 4, Anchor::end, "class=\"figure\"", number(p.median));
      draw_bar(svg, scale, middle, kBar,
               {p.median, p.samples, own_interval(p.samples), color,
                fmt::format("{}: {} {}", p.name, number(p.median), run.unit)});
      y += kRow;
    };
    side(run.quern, "quern");
    if (run.peer) side(*run.peer, peer_class(run.peer->name));
    y += kGap;
  }
  return std::move(svg).finish();
}

std::string history_plot(const std::vector<const Run*>& runs, const std::string& title) {
  // Runs of one day and commit are one point; each series has at most one value there (the median of its runs).
  using Moment = std::pair<std::string, std::string>;
  std::vector<Moment> moments;
  std::map<std::string, std::map<size_t, std::vector<double>>> series;  // by colour class, so that Quern is drawn last
  double high = 0;
  for (const Run* run : runs) {
    const Moment moment{day(run->date), run->quern.commit};
    if (moments.empty() || moments.back() != moment) moments.push_back(moment);
    series["quern"][moments.size() - 1].push_back(run->quern.median);
    high = std::max(high, run->quern.median);
    if (!run->peer) continue;
    series[peer_class(run->peer->name)][moments.size() - 1].push_back(run->peer->median);
    high = std::max(high, run->peer->median);
  }
  if (moments.size() < 2) return "";
  const Rect area{54, 8, kWidth - 62, 130};
  Svg svg(kWidth, 176, "history", title, fmt::format("{} points in time. ", moments.size()) + words({runs.back()}));
  const Scale scale = Scale::linear(high, 4, area.bottom(), area.y);
  svg.area(area);
  svg.y_axis(scale, area);
  const double step = area.w / static_cast<double>(moments.size());
  const auto x_of = [&](size_t i) { return area.x + step * (static_cast<double>(i) + 0.5); };
  const size_t every = std::max<size_t>(1, static_cast<size_t>(66 / step) + (step < 66 ? 1 : 0));
  for (size_t i = 0; i < moments.size(); ++i) {
    if ((moments.size() - 1 - i) % every != 0) continue;
    svg.text(x_of(i), area.bottom() + 14, Anchor::middle, "class=\"tick mono\"", shorten(moments[i].second, 8));
    svg.text(x_of(i), area.bottom() + 28, Anchor::middle, "class=\"tick\"", shorten(moments[i].first, 10));
  }
  for (const auto& [color, values] : series) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [i, list] : values) points.emplace_back(x_of(i), scale.at(median(list)));
    svg.polyline(points, fmt::format("class=\"path {}\"", color));
    for (const auto& [i, list] : values)
      svg.circle(x_of(i), std::clamp(scale.at(median(list)), area.y + 3.5, area.bottom() - 3.5), 3.5,
                 fmt::format("class=\"dot {}\"{}", color, data("y", median(list))),
                 fmt::format("{} {}: {}", moments[i].first, shorten(moments[i].second, 12), number(median(list))));
  }
  return std::move(svg).finish();
}

std::string bucket_plot(const std::vector<PhaseBar>& phases, const std::string& title) {
  constexpr double kRow = 46;
  const Rect all{10, 0, kWidth - 26, 0};
  const double bottom = kRow * static_cast<double>(phases.size());
  std::string spoken;
  for (const PhaseBar& bar : phases) {
    double total = 0;
    for (const Bucket& b : bar.profile->buckets) total += b.seconds;
    spoken += bar.profile->phase + ":";
    for (const Bucket& b : bar.profile->buckets)
      spoken += fmt::format(" {} {},", b.name, percent(total > 0 ? b.seconds / total : 0));
    spoken.back() = '.';
    spoken += ' ';
  }
  Svg svg(kWidth, bottom + 22, "buckets", title, spoken);
  const Scale scale = Scale::linear(100, 4, all.x, all.right());
  for (size_t i = 0; i < phases.size(); ++i) {
    const PhaseProfile& p = *phases[i].profile;
    const double y = kRow * static_cast<double>(i);
    double total = 0;
    for (const Bucket& b : p.buckets) total += b.seconds;
    svg.text(0, y + 13, Anchor::start, "class=\"strong\"", fit(p.phase, 110, kFont * kBold));
    if (p.tokens > 0)
      svg.text(kWidth, y + 13, Anchor::end, "class=\"muted\"",
               fmt::format("{} tokens, {} µs each", count(p.tokens), number(total / p.tokens * 1e6)));
    const Rect area{all.x, y + 18, all.w, 22};
    svg.area(area);
    svg.x_axis(scale, area, i + 1 == phases.size());
    double before = 0;
    for (int color = 0; total > 0 && color < kBucketColors; ++color) {
      for (size_t b = 0; b < p.buckets.size(); ++b) {
        if (phases[i].colors[b] != color) continue;
        const double after = before + p.buckets[b].seconds / total * 100;
        svg.rect({scale.at(before), area.y + 2, scale.at(after) - scale.at(before), area.h - 4},
                 fmt::format("class=\"bar segment b{}\"{}{}", color, data("from", before), data("x", after)),
                 fmt::format("{}: {}", p.buckets[b].name, percent(p.buckets[b].seconds / total)));
        before = after;
      }
    }
  }
  return std::move(svg).finish();
}

}  // namespace quern::measure::board
