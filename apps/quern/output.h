// Standard output as data: buffered, and honest about a reader that left (EPIPE) and a disk that is full.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/result.h"

namespace quern::apps {

class Output {
 public:
  explicit Output(std::FILE* file) : file_(file) {}
  // False once nothing more can be written; the caller may stop producing.
  bool write(std::string_view text);
  bool flush();
  bool is_terminal() const;
  // After the last write: an error where data was lost, unless the reader closed its end, which is its right.
  Result<void> finish();

 private:
  std::FILE* file_;
  int error_ = 0;
};

// Neither NO_COLOR nor a dumb terminal.
bool may_use_attributes();

}  // namespace quern::apps
