// Running another program: its output goes to a file and the caller looks in from time to time, or is handed over.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quern::apps {

// Runs argv (found on PATH) to its end with standard output and error in output_path and standard input empty; calls
// tick ten times a second meanwhile. Gives back the exit status, 128 + the signal where one ended it.
Result<int> run_program(const std::vector<std::string>& argv, const std::string& output_path,
                        const std::function<void()>& tick);

struct Captured {
  int status = 0;        // as run_program's
  std::string out, err;  // at most kMaxCaptured each; what is beyond is dropped
};
inline constexpr size_t kMaxCaptured = size_t{16} << 20;
// Runs argv (found on PATH) to its end with standard input empty. Errors: io_error, naming the program, where it cannot
// be started.
Result<Captured> capture_program(const std::vector<std::string>& argv);

}  // namespace quern::apps
