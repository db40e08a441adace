#include "apps/quern/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/options.h"

namespace quern::apps {

bool Output::write(std::string_view text) {
  if (error_ != 0) return false;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
  return error_ == 0;
}

bool Output::flush() {
  if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  return error_ == 0;
}

bool Output::is_terminal() const {
  return ::isatty(::fileno(file_)) == 1;
}

bool may_use_attributes() {
  const auto no_color = environment("NO_COLOR");
  return (!no_color || no_color->empty()) && environment("TERM").value_or("dumb") != "dumb";
}

Result<void> Output::finish() {
  flush();
  if (error_ == 0 || error_ == EPIPE) return {};
  return Error{Status::io_error, std::string("cannot write standard output: ") + std::strerror(error_)};
}

}  // namespace quern::apps
