#include "base/log.h"

#include <atomic>
#include <cstdio>

namespace quern {
namespace {
std::atomic<int> g_level{static_cast<int>(LogLevel::warning)};
}  // namespace

void set_log_level(LogLevel level) {
  g_level.store(static_cast<int>(level));
}

void log(LogLevel level, const std::string& message) {
  if (static_cast<int>(level) > g_level.load()) return;
  static const char* const kPrefix[] = {"error: ", "warning: ", "", "debug: "};
  std::fprintf(stderr, "%s%s\n", kPrefix[static_cast<int>(level)], message.c_str());
}

}  // namespace quern
