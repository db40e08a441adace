// Where the user's cache folder is and what lies where in it: one answer for the program and the C interface. What is
// kept there belongs to others; nothing here creates a folder.
#pragma once

#include <string>

#include "base/result.h"

namespace quern {

// `chosen` where not empty (--cache, QUERN_CACHE), else $XDG_CACHE_HOME/quern, else $HOME/.cache/quern.
Result<std::string> cache_location(const std::string& chosen);

inline std::string image_folder(const std::string& cache) {
  return cache + "/images";
}
inline std::string tune_folder(const std::string& cache) {
  return cache + "/tune";
}

}  // namespace quern
