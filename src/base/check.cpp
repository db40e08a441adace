#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/result.h"

namespace quern {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "quern: bug: %s does not hold at %s:%d; please report it\n", condition, file, line);
  std::abort();
}

const char* status_name(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::invalid_argument:
      return "invalid argument";
    case Status::invalid_file:
      return "invalid file";
    case Status::unsupported:
      return "unsupported";
    case Status::not_found:
      return "not found";
    case Status::io_error:
      return "i/o error";
    case Status::out_of_memory:
      return "out of memory";
    case Status::limit_exceeded:
      return "limit exceeded";
    case Status::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace quern
