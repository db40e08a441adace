// Messages for people, on standard error. Data goes to standard output and never through here.
#pragma once

#include <string>

namespace quern {

enum class LogLevel { error, warning, info, debug };

// Messages above this level are dropped; the default is warning. Set once at start-up.
void set_log_level(LogLevel level);
void log(LogLevel level, const std::string& message);
inline void log_warning(const std::string& message) {
  log(LogLevel::warning, message);
}
inline void log_info(const std::string& message) {
  log(LogLevel::info, message);
}

}  // namespace quern
