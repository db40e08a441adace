#include "api/api.h"

#include <new>
#include <set>

namespace quern::api {
namespace {

const char* openai_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// Depth of nesting without a parser, so that no parser meets more than it should.
bool too_deep(std::string_view text, size_t limit) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    }
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return false;
}

// The parser's words without its number: "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
std::string words_of(const std::string& what) {
  const size_t at = what.find("] ");
  return at == std::string::npos ? what : what.substr(at + 2, 300);
}

}  // namespace

Json error_json(const Problem& problem, Dialect dialect) {
  if (dialect == Dialect::anthropic) {
    Json error = {{"type", anthropic_type(problem.status)}, {"message", problem.message}};
    if (problem.details.is_object()) error.update(problem.details);
    return {{"type", "error"}, {"error", std::move(error)}};
  }
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json error = {{"message", problem.message},
                {"type", openai_type(problem.status)},
                {"param", text_or_null(problem.field)},
                {"code", text_or_null(problem.code)}};
  if (problem.details.is_object()) error.update(problem.details);
  return {{"error", std::move(error)}};
}

Problem refusal(const std::string& field, const std::string& why, std::string code) {
  return Problem{.message = field + ": " + why, .field = field, .code = std::move(code)};
}

Problem problem_of(const Error& error) {
  Problem problem{.message = error.message};
  switch (error.status) {
    case Status::out_of_memory:
      problem.status = 503;
      break;
    case Status::io_error:
    case Status::invalid_file:
    case Status::ok:
      problem.status = 500;
      break;
    case Status::not_found:
      problem.status = 404;
      break;
    default:
      break;
  }
  return problem;
}

std::optional<Problem> parse_body(std::string_view body, Json* out, const JsonLimits& limits) {
  if (too_deep(body, limits.max_depth)) {
    return Problem{.message = "the body is nested deeper than " + std::to_string(limits.max_depth) + " levels"};
  }
  try {
    // Names of the objects that are open, to find one given twice: parsers differ in which of them counts.
    std::vector<std::set<std::string>> names;
    std::string twice;
    const auto watch = [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second && twice.empty()) {
        twice = value.get<std::string>().substr(0, 100);
      }
      return true;
    };
    *out = Json::parse(body, watch);
    if (!twice.empty()) return Problem{.message = "the name \"" + twice + "\" is given twice", .field = twice};
  } catch (const nlohmann::json::exception& error) {
    return Problem{.message = "the body is not JSON: " + words_of(error.what())};
  } catch (const std::bad_alloc&) {
    return Problem{.status = 503, .message = "not enough memory for the request"};
  }
  if (!out->is_object()) return Problem{.message = "the body must be a JSON object"};
  return std::nullopt;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quern::api
