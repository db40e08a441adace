// The page at / of `quern serve`: a chat, its settings and a live view, in the program itself.
//
// Owns: the files in files/ (plain HTML, CSS and ES modules), and how they get into the binary (embed.cmake).
// Never: HTTP, what the server answers elsewhere.
// In -> out: files/* at build time -> a table that api serves.
#pragma once

#include <span>

#include "api/files.h"

namespace quern::apps::page {

// files/index.html is "/", files/NAME is "/page/NAME".
std::span<const api::StaticFile> files();

}  // namespace quern::apps::page
