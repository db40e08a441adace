// api: what clients speak. JSON of the OpenAI and Anthropic dialects in and out, and HTTP around it.
//
// Owns: requests as structs (request.h), their parsers, prompts made of them (prepare.h), replies taken apart for a
//       client (assembler.h), answers and event streams of each dialect (write_*.h), routes (service.h), HTTP (http.h).
// Never: when a request runs and beside which others (serve), how text becomes tokens (token), options and signals
//        (apps).
// In -> out: bytes of a request -> Problem, or a Request -> ids for serve -> tokens -> JSON or events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "token/chat.h"

namespace quern::api {

using Json = token::Json;

// Whose forms an answer takes.
enum class Dialect : uint8_t { openai, anthropic };

// Why a request is not answered.
struct Problem {
  int status = 400;  // of HTTP
  std::string message = {};
  std::string field = {};  // the field of the body that it is about: "messages[0].role"; may be empty
  std::string code = {};   // "context_length_exceeded" ...; may be empty
  int retry_after = 0;     // seconds; 0: say nothing
  Json details = {};       // further members of the error object, or null
};

// The error body of a dialect.
Json error_json(const Problem& problem, Dialect dialect);
// What an error of ours is for a client: mostly 400, 500 where it is not the client's doing.
Problem problem_of(const Error& error);
// 400, with the field's name before the reason.
Problem refusal(const std::string& field, const std::string& why, std::string code = "unsupported_parameter");

struct JsonLimits {
  size_t max_depth = 64;
};
// The body as JSON. Problems: not UTF-8, not JSON (with the place), nested too deep, not an object, a name given twice.
std::optional<Problem> parse_body(std::string_view body, Json* out, const JsonLimits& limits = {});

// JSON as one line; what is not UTF-8 in a string becomes U+FFFD.
std::string dump(const Json& json);

}  // namespace quern::api
