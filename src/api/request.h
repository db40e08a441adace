// Requests as structs, whatever the dialect they came in, and their parsers: pure functions of a body.
//
// Each field of a body is honoured, or refused with its name, or stands in docs/SERVER.md as one that changes nothing;
// a field that is not known is refused.
#pragma once

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "api/api.h"
#include "engine/prompt.h"
#include "token/sampler.h"

namespace quern::api {

enum class ToolChoice : uint8_t { automatic, none, required, named };
enum class ResponseFormat : uint8_t { text, json_object, json_schema };

using TokenIds = std::vector<int32_t>;

// What all generating requests have in common.
struct Request {
  std::string model;  // as the client names it; empty: not given
  token::SamplerOptions sampler;
  bool has_seed = false;   // else the service draws one
  int64_t max_tokens = 0;  // 0: until the context is full
  bool no_tokens = false;  // max_tokens 0 was asked for: only the prompt is evaluated
  int n = 1;               // answers per prompt
  std::vector<std::string> stop;
  bool stream = false, include_usage = false;
  int top_logprobs = -1;  // how many alternatives beside each token; -1: no logprobs at all
  bool ignore_eos = false;
  bool store = true;  // the answer may be kept (the Responses API)

  // Conversations.
  std::vector<token::Message> messages;
  Json tools;  // as ChatOptions::tools, or null
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name;               // of ToolChoice::named
  std::set<std::string> strict_tools;  // whose calls follow their schema whether or not they must come
  bool parallel_tool_calls = true;
  engine::ReasoningOptions reasoning;
  int64_t thinking_budget = 0;  // tokens; 0: no limit
  Json template_variables;      // an object or null
  ResponseFormat format = ResponseFormat::text;
  Json schema;          // of ResponseFormat::json_schema
  std::string grammar;  // GBNF; empty: none

  // Texts to go on with.
  std::vector<std::variant<std::string, TokenIds>> prompts;
  bool echo = false;
  std::string suffix;

  Dialect dialect = Dialect::openai;
  size_t n_calls() const;  // tool calls in messages
  bool may_call() const { return tools.is_array() && tool_choice != ToolChoice::none; }
  bool must_call() const { return tool_choice == ToolChoice::required || tool_choice == ToolChoice::named; }
};

struct Defaults {
  // Where a request says nothing. Reasoning: as far as the model's chat template takes it.
  token::SamplerOptions sampler;
  engine::ReasoningOptions reasoning;
  int max_n = 16;  // answers of one request, over all its prompts
  size_t max_messages = 4096, max_tools = 512, max_stops = 16;
};

// POST /v1/chat/completions.
std::optional<Problem> parse_chat(const Json& body, const Defaults& defaults, Request* out);
// POST /v1/completions.
std::optional<Problem> parse_completion(const Json& body, const Defaults& defaults, Request* out);
// POST /v1/messages; count: /v1/messages/count_tokens, which needs no max_tokens.
std::optional<Problem> parse_messages(const Json& body, const Defaults& defaults, bool count, Request* out);
// POST /v1/responses. earlier: an array, the items that come before those of input (previous_response_id).
std::optional<Problem> parse_responses(const Json& body, const Json& earlier, const Defaults& defaults, Request* out);
// POST /apply-template: messages and what else changes the prompt, of the fields of /v1/chat/completions.
std::optional<Problem> parse_apply_template(const Json& body, const Defaults& defaults, Request* out);

struct TokenizeRequest {
  std::string model, content;
  bool add_special = false, parse_special = true, with_pieces = false;
};
std::optional<Problem> parse_tokenize(const Json& body, TokenizeRequest* out);

struct DetokenizeRequest {
  std::string model;
  TokenIds tokens;
};
std::optional<Problem> parse_detokenize(const Json& body, DetokenizeRequest* out);

struct EmbeddingRequest {
  std::string model;
  std::vector<std::variant<std::string, TokenIds>> inputs;
  bool base64 = false;
  int64_t dimensions = 0;  // 0: the model's
};
std::optional<Problem> parse_embeddings(const Json& body, EmbeddingRequest* out);

}  // namespace quern::api
