#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/options.h"

namespace quern {
namespace {

int columns_of(int fd) {
  struct winsize size {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A bar is decoration: a terminal that refuses it is not an error.
void put(int fd, const std::string& text) {
  if (::write(fd, text.data(), text.size()) < 0) return;
}

bool draws_on(int fd) {
  return ::isatty(fd) == 1 && environment("TERM").value_or("dumb") != "dumb";
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double x = static_cast<double>(bytes);
  size_t unit = 0;
  while (x >= 1024 && unit + 1 < std::size(kUnits)) x /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", x, kUnits[unit]);
  return text;
}

std::string progress_line(const std::string& title, uint64_t done, uint64_t total, double seconds, int columns) {
  std::string right = "  " + human_bytes(done);
  if (total > 0) right += " / " + human_bytes(total);
  if (seconds > 0.5) right += "  " + human_bytes(static_cast<uint64_t>(static_cast<double>(done) / seconds)) + "/s";
  std::string line = title;
  const int room = columns - 1 - static_cast<int>(title.size() + right.size()) - 4;
  if (total > 0 && room >= 8) {
    const int width = std::min(room, 40);
    const int filled = static_cast<int>(static_cast<double>(width) *
                                        std::min(1.0, static_cast<double>(done) / static_cast<double>(total)));
    line += "  [" + std::string(static_cast<size_t>(filled), '#') +
            std::string(static_cast<size_t>(width - filled), '-') + "]";
  }
  line += right;
  return line.substr(0, static_cast<size_t>(std::max(columns - 1, 1)));
}

Progress::Progress(std::string title, uint64_t total_bytes, int fd)
    : title_(std::move(title)),
      total_(total_bytes),
      fd_(fd),
      visible_(draws_on(fd)),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  clear();
}

void Progress::set_title(std::string title) {
  title_ = std::move(title);
  if (visible_) draw();
}

void Progress::update(uint64_t done_bytes) {
  done_ = done_bytes;
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  draw();
}

void Progress::draw() {
  last_ = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(last_ - start_).count();
  put(fd_, "\r\x1b[K" + progress_line(title_, done_, total_, seconds, columns_of(fd_)));
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) put(fd_, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace quern
