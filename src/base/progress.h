// A progress bar on a terminal; nothing at all anywhere else, so logs and pipes stay clean.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quern {

class Progress {
 public:
  // fd: where to draw (standard error). total 0: not known yet.
  Progress(std::string title, uint64_t total_bytes, int fd = 2);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Redraws at most ten times a second.
  void update(uint64_t done_bytes);
  void set_title(std::string title);
  // Removes the bar from the screen. Idempotent.
  void clear();
  bool visible() const { return visible_; }

 private:
  void draw();
  std::string title_;
  uint64_t total_, done_ = 0;
  int fd_;
  bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

// One line of the bar for a terminal of `columns`: "title  [####----]  45.2 / 92.9 MB  12.3 MB/s".
std::string progress_line(const std::string& title, uint64_t done, uint64_t total, double seconds, int columns);
// "93.8 MiB", "512 B".
std::string human_bytes(uint64_t bytes);

}  // namespace quern
