#include "measure/board_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace quern::measure::board {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The code point at text[i] and its length; length 0 for bytes that are no UTF-8.
struct CodePoint {
  uint32_t value;
  size_t length;
};
CodePoint code_point(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
  const uint8_t first = byte(i);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 && first < 0xF5 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first >= 0xF5 || i + length > text.size()) return {0, 0};
  uint32_t value = first & (0xFFU >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return {0, 0};
    value = value << 6 | (byte(i + k) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {0, 0};
  return {value, length};
}

bool forbidden(uint32_t c) {
  if (c < 0x20) return c != '\n' && c != '\t';
  if (c >= 0x7F && c < 0xA0) return true;
  if ((c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF)) return true;
  return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F;
}

std::string with_commas(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string with_unit(double value, double step, const std::array<const char*, 5>& units) {
  size_t i = 0;
  while (value >= step && i + 1 < units.size()) {
    value /= step;
    ++i;
  }
  return fmt::format("{} {}", value < 10 && i > 0 ? fmt::format("{:.1f}", value) : with_commas(std::round(value)),
                     units[i]);
}

std::string tick_text(double tick) {
  if (tick == 0) return "0";
  if (tick >= 1e6 || tick < 1e-3) return fmt::format("{:.3g}", tick);
  return tick >= 1000 ? with_commas(tick) : fmt::format("{:g}", tick);
}

void element(std::string& out, std::string_view shape, std::string_view tip, std::string_view name) {
  if (tip.empty()) {
    out += fmt::format("<{} {}/>", name, shape);
  } else {
    out += fmt::format("<{} {}><title>{}</title></{}>", name, shape, escape(tip), name);
  }
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size();) {
    const auto [value, length] = code_point(text, i);
    if (length == 0 || forbidden(value)) {
      out += kReplacement;
      i += std::max<size_t>(length, 1);
      continue;
    }
    switch (value) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += text.substr(i, length);
    }
    i += length;
  }
  return out;
}

std::string shorten(std::string_view text, size_t n) {
  size_t end = 0, count = 0, cut = 0;
  while (end < text.size()) {
    if (count + 1 == n) cut = end;  // where the ellipsis would stand
    if (count == n) return std::string(text.substr(0, cut)) + "…";
    end += std::max<size_t>(code_point(text, end).length, 1);
    ++count;
  }
  return std::string(text);
}

std::string slug(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.size() == 40) break;
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9')) {
      out += lower;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "x" : out;
}

std::string count(double value) {
  return value < 1e15 && value == std::floor(value) ? with_commas(value) : number(value);
}

std::string number(double value) {
  const double size = std::fabs(value);
  if (size >= 1e9) return fmt::format("{:.3g}", value);
  if (size >= 99.95) return with_commas(value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size >= 0.9995) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3g}", value);
}

std::string ratio_text(double value) {
  if (value >= 1e6 || value < 0.01) return fmt::format("{:.2g}", value);
  if (value >= 99.95) return with_commas(value);
  return fmt::format("{:.{}f}", value, value >= 9.995 ? 1 : 2);
}

std::string bytes_text(double bytes) {
  return with_unit(bytes, 1000, {"B", "kB", "MB", "GB", "TB"});
}
std::string binary_text(double bytes) {
  return with_unit(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string percent(double share) {
  const double value = share * 100;
  if (value >= 1e6) return fmt::format("{:.2g} %", value);
  return fmt::format("{:.{}f} %", value, value >= 9.95 || value == 0 ? 0 : 1);
}

std::string day(std::string_view iso) {
  return std::string(iso.substr(0, iso.find('T')));
}

Scale Scale::linear(double high, int max_ticks, double from, double to) {
  const double rough = high / max_ticks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  Scale scale;
  const double count = std::max(1.0, std::ceil(high / step * (1 - 1e-9)));
  for (int i = 0; i <= static_cast<int>(count); ++i) scale.ticks_.push_back(i * step);
  scale.high_ = scale.ticks_.back();
  scale.from_ = from;
  scale.to_ = to;
  return scale;
}

Scale Scale::decades(double low, double high, int max_ticks, double from, double to) {
  int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  int last = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
  if (first == last) ++last;
  const int step = (last - first + max_ticks - 2) / (max_ticks - 1);
  Scale scale;
  for (int e = first; e <= last; e += std::max(step, 1)) scale.ticks_.push_back(std::pow(10.0, e));
  scale.logarithmic_ = true;
  scale.low_ = std::pow(10.0, first);
  scale.high_ = std::pow(10.0, last);
  scale.from_ = from;
  scale.to_ = to;
  return scale;
}

double Scale::at(double value) const {
  const double v = std::clamp(value, low_, high_);
  const double part = logarithmic_ ? std::log(v / low_) / std::log(high_ / low_) : (v - low_) / (high_ - low_);
  return from_ + (to_ - from_) * part;
}

double text_width(std::string_view text, double size) {
  constexpr std::string_view kNarrow = "ijl.,:;|!' ", kHalf = "tfr-()[]/\\_I", kWide = "mwMW@%+=<>~#&";
  double width = 0;
  for (size_t i = 0; i < text.size();) {
    const auto [value, length] = code_point(text, i);
    const char c = value < 0x80 ? static_cast<char>(value) : '\0';
    if (value >= 0x1100) {
      width += value >= 0x2000 && value < 0x2070 ? 0.6 : 1.0;  // wide scripts take the whole square, dashes do not
    } else if (c != '\0' && kNarrow.find(c) != std::string_view::npos) {
      width += 0.34;
    } else if (c != '\0' && kHalf.find(c) != std::string_view::npos) {
      width += 0.45;
    } else if (value == 0xD7 || (c != '\0' && kWide.find(c) != std::string_view::npos)) {
      width += 0.95;
    } else {
      width += c >= 'A' && c <= 'Z' ? 0.75 : 0.64;
    }
    i += std::max<size_t>(length, 1);
  }
  return width * size;
}

std::string fit(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  size_t n = 1;
  while (text_width(shorten(text, n + 1), size) <= width) ++n;
  return shorten(text, n);
}

std::string place(double coordinate) {
  std::string text = fmt::format("{:.2f}", coordinate);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string data(std::string_view name, double value) {
  return fmt::format(" data-{}=\"{}\"", name, value);
}

Svg::Svg(double width, double height, std::string_view class_name, std::string_view title,
         std::string_view description) {
  out_ = fmt::format("<svg class=\"plot {}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}. {}\">", class_name,
                     place(width), place(height), escape(title), escape(description));
}

void Svg::rect(const Rect& r, std::string_view attributes, std::string_view tip) {
  element(out_,
          fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}", place(r.x), place(r.y), place(r.w), place(r.h),
                      attributes),
          tip, "rect");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>", place(x1), place(y1), place(x2), place(y2),
                      attributes);
}

void Svg::circle(double x, double y, double r, std::string_view attributes, std::string_view tip) {
  element(out_, fmt::format("cx=\"{}\" cy=\"{}\" r=\"{}\" {}", place(x), place(y), place(r), attributes), tip,
          "circle");
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view attributes) {
  out_ += "<polyline points=\"";
  for (size_t i = 0; i < points.size(); ++i)
    out_ += fmt::format("{}{},{}", i > 0 ? " " : "", place(points[i].first), place(points[i].second));
  out_ += fmt::format("\" {}/>", attributes);
}

void Svg::text(double x, double y, Anchor anchor, std::string_view attributes, std::string_view content) {
  constexpr std::string_view kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  out_ +=
      fmt::format("<text x=\"{}\" y=\"{}\"{}{}{}>{}</text>", place(x), place(y), kAnchors[static_cast<size_t>(anchor)],
                  attributes.empty() ? "" : " ", attributes, escape(content));
}

void Svg::area(const Rect& r) {
  rect(r, "class=\"area\"");
}

void Svg::x_axis(const Scale& scale, const Rect& area, bool labels) {
  for (const double tick : scale.ticks()) {
    const double at = scale.at(tick);
    line(at, area.y, at, area.bottom(), "class=\"grid\" data-axis=\"x\"" + data("value", tick));
    if (!labels) continue;
    const std::string label = tick_text(tick);
    const double inside = area.right() + 16 - text_width(label, 11) / 2;  // plots leave 16 at their right
    text(std::min(at, inside), area.bottom() + 16, Anchor::middle, "class=\"tick\"", label);
  }
}

void Svg::y_axis(const Scale& scale, const Rect& area) {
  for (const double tick : scale.ticks()) {
    const double at = scale.at(tick);
    line(area.x, at, area.right(), at, "class=\"grid\" data-axis=\"y\"" + data("value", tick));
    text(area.x - 6, at + 4, Anchor::end, "class=\"tick\"", tick_text(tick));
  }
}

std::string Svg::finish() && {
  out_ += "</svg>\n";
  return std::move(out_);
}

bool Labels::free(const Rect& r) const {
  return area_.contains(r) && std::none_of(taken_.begin(), taken_.end(), [&](const Rect& t) { return t.overlaps(r); });
}

std::optional<Labels::Spot> Labels::put(double x, double y, double width, double height) {
  constexpr double kWays[][2] = {{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {0.8, -0.8}, {-0.8, -0.8}, {0.8, 0.8}, {-0.8, 0.8}};
  for (int ring = 0; ring < 8; ++ring) {
    const double reach = 7 + ring * 9;
    for (const auto& way : kWays) {
      const Spot spot{x + way[0] * (reach + width / 2), y + way[1] * (reach + height / 2), ring > 0};
      const Rect r{spot.x - width / 2, spot.y - height / 2, width, height};
      if (!free(r)) continue;
      taken_.push_back(r);
      return spot;
    }
  }
  return std::nullopt;
}

}  // namespace quern::measure::board
