# Writes OUT (a C++ source) with the version and the commit of SOURCE.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=9 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed ERROR_QUIET)
execute_process(COMMAND git -C ${SOURCE} rev-list --count HEAD OUTPUT_VARIABLE number OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed_count ERROR_QUIET)
if(failed OR failed_count)
  set(commit unknown)
  set(number 0)
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "apps/quern/version.h"

namespace quern::apps {
const char* build_version() { return "@VERSION@"; }
const char* build_commit() { return "@commit@"; }
int build_number() { return @number@; }
const char* build_compiler() { return "@COMPILER@"; }
}  // namespace quern::apps
]])
