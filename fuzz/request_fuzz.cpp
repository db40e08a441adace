// Bodies of requests through every parser. The first byte picks it; whatever passes is within its bounds and can go
// through chat templates, and whatever does not has a message that can be written.
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "api/request.h"
#include "token/chat.h"

namespace api = quern::api;
namespace token = quern::token;

namespace {

// Of strings, of strings with calls and tools, of parts.
const std::vector<token::ChatTemplate>& templates() {
  static const auto kTemplates = [] {
    std::vector<token::ChatTemplate> all;
    for (const std::string_view source :
         {*token::builtin_chat_template("chatml"),
          std::string_view(
              "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.reasoning_content "
              "}}{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}"
              "{% endfor %}{% endfor %}"),
          std::string_view("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}")}) {
      auto compiled = token::ChatTemplate::compile(source, {});
      if (!compiled.ok()) std::abort();
      all.push_back(std::move(*compiled));
    }
    return all;
  }();
  return kTemplates;
}

void render(const api::Request& request) {
  for (const token::ChatTemplate& chat : templates()) {
    auto messages = request.messages;
    if (!chat.adapt(messages).ok()) continue;
    token::ChatOptions options;
    options.tools = request.tools;
    options.now = [] { return std::tm{}; };
    const auto rendered = chat.render(messages, options);
    if (!rendered.ok() && rendered.error().message.empty()) std::abort();
  }
}

}  // namespace

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
  if (!problem && !request.messages.empty()) render(request);
  return 0;
}
