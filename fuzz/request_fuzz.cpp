// Bodies of requests through every parser. The first byte picks it; whatever passes is within its bounds, and whatever
// does not has a message that can be written.
#include <cstdlib>
#include <string_view>

#include "api/request.h"

namespace api = quern::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  api::Json body;
  auto problem = api::parse_body(text, &body);
  const api::Defaults defaults;
  const api::Json earlier =
      api::Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}});
  api::Request request;
  api::TokenizeRequest tokenize;
  api::DetokenizeRequest detokenize;
  api::EmbeddingRequest embedding;
  if (!problem) {
    switch (data[0] % 9) {
      case 0:
        problem = api::parse_chat(body, defaults, &request);
        break;
      case 1:
        problem = api::parse_completion(body, defaults, &request);
        break;
      case 2:
        problem = api::parse_messages(body, defaults, false, &request);
        break;
      case 3:
        problem = api::parse_messages(body, defaults, true, &request);
        break;
      case 4:
        problem = api::parse_responses(body, earlier, defaults, &request);
        break;
      case 5:
        problem = api::parse_apply_template(body, defaults, &request);
        break;
      case 6:
        problem = api::parse_tokenize(body, &tokenize);
        break;
      case 7:
        problem = api::parse_detokenize(body, &detokenize);
        break;
      default:
        problem = api::parse_embeddings(body, &embedding);
        break;
    }
  }
  if (problem && (problem->message.empty() || problem->status < 400)) std::abort();
  if (problem && api::dump(api::error_json(*problem, api::Dialect::anthropic)).empty()) std::abort();
  if (request.n < 1 || request.n > defaults.max_n || request.top_logprobs > 20) std::abort();
  for (const auto& message : request.messages) {
    if (message.role.empty()) std::abort();
  }
  return 0;
}
