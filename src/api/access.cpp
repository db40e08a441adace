#include "api/access.h"

#include <algorithm>
#include <charconv>

namespace quern::api {
namespace {

std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool listed(const std::vector<std::string>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& entry) { return entry == "*" || small_letters(entry) == name; });
}

std::string key_of(const HttpRequest& request) {
  if (const auto key = request.header("x-api-key")) return *key;
  const std::string value = request.header("authorization").value_or("");
  if (small_letters(value.substr(0, 7)) != "bearer ") return {};
  const size_t at = value.find_first_not_of(' ', 6);
  return at == std::string::npos ? std::string() : value.substr(at);
}

std::optional<Problem> check_host(const HttpRequest& request, const AccessOptions& options) {
  if (request.headers.count("host") != 1) return Problem{.message = "a request has one Host field"};
  const std::string name = small_letters(host_name(*request.header("host")));
  if (is_loopback(name) || listed(options.hosts, name)) return std::nullopt;
  return Problem{.status = 403, .message = "this server is not called \"" + name.substr(0, 200) + "\" (--allow-host)"};
}

bool same_origin(const HttpRequest& request, std::string_view origin) {
  const size_t at = origin.find("://");
  return at != std::string_view::npos &&
         small_letters(origin.substr(at + 3)) == small_letters(request.header("host").value_or(""));
}

std::optional<Problem> check_length(const HttpRequest& request, const AccessOptions& options) {
  const auto text = request.header("content-length");
  if (!text) return std::nullopt;
  uint64_t length = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), length);
  if (code != std::errc() || end != text->data() + text->size()) {
    if (code != std::errc::result_out_of_range) return Problem{.message = "the Content-Length is not a number"};
    length = UINT64_MAX;
  }
  if (length <= options.max_body) return std::nullopt;
  return Problem{.status = 413,
                 .message = "the body has more than " + std::to_string(options.max_body) + " bytes (--max-body)"};
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  // volatile: the loop has no early way out that a compiler could find.
  volatile uint32_t different = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    different = different | static_cast<uint8_t>(given[i] ^ other);
  }
  return different == 0 && !secret.empty();
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  if (host.ends_with(".localhost")) return true;  // reserved for this machine (RFC 6761)
  // 127.0.0.0/8, as four numbers and nothing else: "127.evil.example" is a name.
  if (!host.starts_with("127.")) return false;
  return host.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::count(host.begin(), host.end(), '.') == 3;
}

std::string host_name(std::string_view host) {
  if (host.starts_with("[")) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.find(':')));
}

std::optional<Problem> check_access(const HttpRequest& request, const AccessOptions& options, bool open) {
  if (auto problem = check_host(request, options)) return problem;
  const auto origin = request.header("origin");
  if (origin && !same_origin(request, *origin) && !listed(options.origins, small_letters(*origin)))
    return Problem{.status = 403,
                   .message = "pages of \"" + origin->substr(0, 200) + "\" may not ask this server (--cors-origin)"};
  if (auto problem = check_length(request, options)) return problem;
  const bool preflight = request.method == "OPTIONS";
  if (options.keys.empty() || open || preflight) return std::nullopt;
  const std::string given = key_of(request);
  bool known = false;
  for (const std::string& key : options.keys) known |= equal_in_constant_time(given, key);
  if (known) return std::nullopt;
  return Problem{.status = 401,
                 .message = given.empty() ? "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"
                                          : "the API key is not known",
                 .code = "invalid_api_key"};
}

std::vector<std::pair<std::string, std::string>> cors_headers(const HttpRequest& request,
                                                              const AccessOptions& options) {
  const auto origin = request.header("origin");
  if (!origin || options.origins.empty()) return {};
  std::vector<std::pair<std::string, std::string>> out{{"Vary", "Origin"}};
  if (!listed(options.origins, small_letters(*origin))) return out;
  out.emplace_back("Access-Control-Allow-Origin", *origin);
  if (request.method == "OPTIONS") {
    out.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    out.emplace_back("Access-Control-Allow-Headers",
                     "authorization, content-type, x-api-key, anthropic-version, anthropic-beta");
    out.emplace_back("Access-Control-Max-Age", "600");
  }
  return out;
}

}  // namespace quern::api
