// Who may ask: keys, the Host and Origin of a browser. Pure functions of a request's header.
#pragma once

#include <string>
#include <vector>

#include "api/api.h"
#include "api/http.h"

namespace quern::api {

struct AccessOptions {
  std::vector<std::string> keys = {};     // empty: no key is asked for
  std::vector<std::string> hosts = {};    // names of Host besides loopback's; "*": any
  std::vector<std::string> origins = {};  // pages of other origins that may ask ("https://a.example"); "*": any
  size_t max_body = size_t{8} << 20;
};

// Takes time that depends on the length of `given` only.
bool equal_in_constant_time(std::string_view given, std::string_view secret);
// Whether a host ("127.0.0.1", "::1", "localhost") can be reached from this machine only.
bool is_loopback(std::string_view host);
// "name:port", "[::1]:80" -> the name.
std::string host_name(std::string_view host);

// Nothing: go on. Host: of a page that points its own name at this machine (DNS rebinding), 403. Origin: of a page that
// is not ours, 403. Key: 401; never asked for where open is true (the page itself, /health). Length: 413.
std::optional<Problem> check_access(const HttpRequest& request, const AccessOptions& options, bool open);
// The header fields that let a page of a configured origin read the answer; none for others.
std::vector<std::pair<std::string, std::string>> cors_headers(const HttpRequest& request, const AccessOptions& options);

}  // namespace quern::api
