// Lines from the user: edited, with history, on a terminal; plain otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/quern/interrupt.h"

namespace quern::apps {

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Without the end of line. Nothing at the end of input (Ctrl-D); an empty line after Ctrl-C.
  virtual std::optional<std::string> read(const std::string& prompt) = 0;
};

// history_path: read now, written as lines are entered; "" for none. `bold`: the prompt may use terminal attributes.
// interrupt: a Ctrl-C since its last reset() counts as one at the prompt; it must outlive the reader.
std::unique_ptr<LineReader> make_editing_reader(const std::string& history_path, bool bold, Interrupt& interrupt);
std::unique_ptr<LineReader> make_plain_reader();

}  // namespace quern::apps
