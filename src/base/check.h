// QUERN_CHECK: states an invariant of our own code. It is always on and ends the process with the place and the
// condition; nothing that comes from a file, a request or the machine may reach one (use Result for those).
#pragma once

namespace quern {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace quern

#define QUERN_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::quern::check_failed(#condition, __FILE__, __LINE__))
