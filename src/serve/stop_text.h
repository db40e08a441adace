// Text on its way out, held back while it may become a stop string. Linear in the text whatever the strings are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/serve.h"

namespace quern::serve {

// How much of a pattern the text ends with (Knuth, Morris and Pratt).
class PatternScan {
 public:
  explicit PatternScan(std::string pattern);  // not empty
  // After one more byte; size() once, where the pattern has just appeared.
  size_t feed(char byte);
  size_t state() const { return state_; }
  void reset() { state_ = 0; }
  const std::string& pattern() const { return pattern_; }

 private:
  std::string pattern_;
  std::vector<uint32_t> fallback_;  // [pattern length] the longest border of the pattern's first i + 1 bytes
  size_t state_ = 0;
};

class StopText {
 public:
  explicit StopText(const std::vector<std::string>& stops);

  // What may go out is appended to out. The first stop string to be whole is the one that counts, of several that end
  // in one byte the longest; then what comes before it goes out and nothing more does.
  void feed(Piece piece, std::vector<Piece>& out);
  void flush(std::vector<Piece>& out);                     // the end: nothing may follow
  const std::string* matched() const { return matched_; }  // null: none yet

 private:
  struct Segment {
    Piece::Kind kind;
    size_t end;  // in held_
  };
  void release(size_t n, bool cut, std::vector<Piece>& out);

  std::vector<PatternScan> scans_;
  const std::string* matched_ = nullptr;
  std::string held_;
  std::vector<Segment> segments_;  // of held_; a user-defined token goes out whole
};

}  // namespace quern::serve
