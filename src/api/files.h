// Files that are served as they are: a page and what belongs to it. Knows none of them; programs hand them over.
#pragma once

#include <span>
#include <string_view>

#include "api/http.h"

namespace quern::api {

// What it views must outlive the service.
struct StaticFile {
  std::string_view path;          // "/", "/page/app.js"
  std::string_view content_type;  // with its charset
  std::string_view etag;          // in quotes; other bytes have another one
  std::string_view body;
};

// Null where there is none at this path.
const StaticFile* find_file(std::span<const StaticFile> files, std::string_view path);

// The file, or 304 where the client has it already (If-None-Match). Browsers are told to ask again each time, to load
// nothing from elsewhere, to run no inline script or style, to make no markup of strings, and to show it in no frame.
HttpResponse file_response(const StaticFile& file, const HttpRequest& request);

}  // namespace quern::api
