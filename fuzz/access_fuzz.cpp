// Header fields of any bytes: who gets in called the server by a name of its own, came from a page of its own, had the
// key, and sends no more than may be sent. The input: lines "name:value", names as in HTTP, in small letters.
#include <algorithm>
#include <cstdlib>

#include "api/access.h"

using namespace quern::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  HttpRequest request;
  request.method = "POST";
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) request.headers.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
  AccessOptions options;
  options.max_body = 1000;
  options.keys = {"secret"};
  const auto problem = check_access(request, options, false);
  cors_headers(request, options);
  if (problem) {
    if (problem->status < 400 || problem->message.empty()) std::abort();
    return 0;
  }
  if (request.headers.count("host") != 1) std::abort();
  const auto key = request.header("x-api-key"), bearer = request.header("authorization");
  const bool has_key = key ? *key == "secret" : bearer && bearer->ends_with(" secret");
  if (!has_key) std::abort();
  const auto origin = request.header("origin");
  const std::string host = *request.header("host");
  if (origin && (origin->size() < host.size() + 3 || origin->find("://") == std::string::npos)) std::abort();
  if (const auto length = request.header("content-length"); length && length->size() > 0) {
    uint64_t bytes = 0;
    for (const char c : *length) bytes = std::min<uint64_t>(1001, bytes * 10 + static_cast<uint64_t>(c - '0'));
    if (bytes > 1000) std::abort();
  }
  return 0;
}
