// The manual page, written from the tables of commands and options.
#pragma once

#include <string>

namespace quern::apps {

// quern(1) in roff (the man macros).
std::string man_page();

}  // namespace quern::apps
