// Drawing for the board: text made safe for HTML, numbers for people, axes, and an SVG being written.
// What is drawn where is board_plots.h's.
//
// Marks and ticks carry the value they show (data-x, data-y, data-value), so that a test in a browser can hold the
// drawn place against the number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::measure::board {

// For element text and double-quoted attributes. Characters that HTML forbids and those that turn the direction of
// writing become U+FFFD; so do bytes that are no UTF-8.
std::string escape(std::string_view text);
// At most n characters of valid UTF-8, the last an ellipsis where something was cut.
std::string shorten(std::string_view text, size_t n);
// The part of a name that may stand in an anchor: a-z, 0-9 and dashes, at most 40; "x" for nothing.
std::string slug(std::string_view text);

std::string count(double value);        // 2 | 1,024: of what is whole
std::string number(double value);       // 2,624 | 46.0 | 1.52 | 0.00312
std::string ratio_text(double value);   // 5.71, at least two decimals below 10, one below 100
std::string bytes_text(double bytes);   // 1.2 GB; decimal units
std::string binary_text(double bytes);  // 32 MiB
std::string percent(double share);      // 0.512 -> 51 %, 0.0123 -> 1.2 %
std::string day(std::string_view iso);  // the date of a time stamp

struct Rect {
  double x = 0, y = 0, w = 0, h = 0;
  double right() const { return x + w; }
  double bottom() const { return y + h; }
  bool overlaps(const Rect& o) const { return x < o.right() && o.x < right() && y < o.bottom() && o.y < bottom(); }
  bool contains(const Rect& o) const { return o.x >= x && o.y >= y && o.right() <= right() && o.bottom() <= bottom(); }
};

// Values [low, high] onto places [from, to]; values outside go to the nearer end.
class Scale {
 public:
  // [0, high'] with high' >= high on a tick; at most max_ticks steps of 1, 2 or 5 times a power of ten. high > 0.
  static Scale linear(double high, int max_ticks, double from, double to);
  // Whole decades around [low, high], 0 < low <= high; ticks at decades, thinned to max_ticks.
  static Scale decades(double low, double high, int max_ticks, double from, double to);

  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  double from() const { return from_; }
  double to() const { return to_; }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  bool logarithmic_ = false;
  double low_ = 0, high_ = 1, from_ = 0, to_ = 1;
  std::vector<double> ticks_;
};

// About the width of a text in the widest of the usual fonts, for a font size in user units.
double text_width(std::string_view text, double size);
// The text, shortened where it is wider than that.
std::string fit(std::string_view text, double width, double size);

enum class Anchor { start, middle, end };

class Svg {
 public:
  // title and description are what a screen reader says; class_name goes to <svg>.
  Svg(double width, double height, std::string_view class_name, std::string_view title, std::string_view description);

  // attributes: already escaped, e.g. `class="bar" data-x="3"`. tip: a tooltip, "" for none.
  void rect(const Rect& r, std::string_view attributes, std::string_view tip = "");
  void line(double x1, double y1, double x2, double y2, std::string_view attributes);
  void circle(double x, double y, double r, std::string_view attributes, std::string_view tip = "");
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view attributes);
  void text(double x, double y, Anchor anchor, std::string_view attributes, std::string_view content);

  // The frame that every mark of a plot lies in.
  void area(const Rect& r);
  // Grid lines in the area and, if wanted, tick labels: along the bottom, or up the left side.
  void x_axis(const Scale& scale, const Rect& area, bool labels = true);
  void y_axis(const Scale& scale, const Rect& area);
  std::string finish() &&;

 private:
  std::string out_;
};

std::string place(double coordinate);  // two decimals at most
// ` data-NAME="value"` in full precision.
std::string data(std::string_view name, double value);

// Finds a free place for a label near a point.
class Labels {
 public:
  explicit Labels(const Rect& area) : area_(area) {}
  void block(const Rect& r) { taken_.push_back(r); }
  bool free(const Rect& r) const;  // in the area, and on nothing
  struct Spot {
    double x, y;  // the middle of the text
    bool far;     // away from its point: draw a leader
  };
  // Nothing where the neighbourhood is full.
  std::optional<Spot> put(double x, double y, double width, double height);

 private:
  Rect area_;
  std::vector<Rect> taken_;
};

}  // namespace quern::measure::board
