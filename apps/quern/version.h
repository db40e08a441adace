// What was built. The commit is read by CMake whenever the repository's HEAD moves (version.cmake).
#pragma once

namespace quern::apps {

const char* build_version();   // "0.1.0"
const char* build_commit();    // "1a2b3c4d5", or "unknown" outside a repository
int build_number();            // commits up to it, 0 where unknown
const char* build_compiler();  // "GCC 12.2.0"

}  // namespace quern::apps
