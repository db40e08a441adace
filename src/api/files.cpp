#include "api/files.h"

#include <algorithm>

namespace quern::api {
namespace {

// Trusted types: a browser that knows them refuses every way from a string to markup or script.
constexpr const char* kPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

// Whether a list as in If-None-Match names this one; W/ makes no difference there (RFC 9110, 13.1.2).
bool names_etag(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    entry.remove_prefix(std::min(entry.find_first_not_of(" \t"), entry.size()));
    entry = entry.substr(0, entry.find_last_not_of(" \t") + 1);
    if (entry.starts_with("W/")) entry.remove_prefix(2);
    if (entry == "*" || entry == etag) return true;
  }
  return false;
}

}  // namespace

const StaticFile* find_file(std::span<const StaticFile> files, std::string_view path) {
  const auto at = std::find_if(files.begin(), files.end(), [&](const StaticFile& file) { return file.path == path; });
  return at == files.end() ? nullptr : &*at;
}

HttpResponse file_response(const StaticFile& file, const HttpRequest& request) {
  HttpResponse response;
  response.headers = {{"ETag", std::string(file.etag)},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (names_etag(request.header("if-none-match").value_or(""), file.etag)) {
    response.status = 304;
    response.content_type.clear();
    return response;
  }
  response.content_type = file.content_type;
  response.body = file.body;
  return response;
}

}  // namespace quern::api
