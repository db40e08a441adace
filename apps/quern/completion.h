// Completion scripts for shells, written from the tables of commands and options.
#pragma once

#include <string>
#include <string_view>

namespace quern::apps {

// shell: bash, zsh or fish. The script needs no other file, and asks the program nothing.
std::string completion_script(std::string_view shell);

}  // namespace quern::apps
