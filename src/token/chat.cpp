// Messages as template variables, rendering, and the way to token ids. Probing and adapting are in chat_support.cpp.
#include "token/chat.h"

#include <new>

namespace quern::token {
namespace {

// Roles are vocabulary: a template may build markup out of them ('<|' + role + '|>'). Any other role is content.
constexpr std::pair<std::string_view, std::string_view> kVocabulary[] = {
    {"role", "system"},   {"role", "user"},      {"role", "assistant"}, {"role", "tool"},
    {"role", "function"}, {"role", "developer"}, {"role", "model"},     {"role", "ipython"},
};

Json message_json(const Message& message, bool fill_null) {
  Json json = Json::object();
  if (message.reasoning_content) json["thinking"] = *message.reasoning_content;
  json["role"] = message.role;
  if (!message.content.is_null()) json["content"] = message.content;
  if (message.content.is_null() && fill_null) json["content"] = "";
  if (!message.name.empty()) json["name"] = message.name;
  if (!message.tool_calls.is_null()) json["tool_calls"] = message.tool_calls;
  if (!message.tool_call_id.empty()) json["tool_call_id"] = message.tool_call_id;
  if (message.reasoning_content) json["reasoning_content"] = *message.reasoning_content;
  if (!message.extra.is_object()) return json;
  for (const auto& [key, value] : message.extra.items()) {
    if (!json.contains(key)) json[key] = value;
  }
  return json;
}

size_t text_bytes(const Json& json) {
  if (json.is_string()) return json.get_ref<const std::string&>().size();
  size_t bytes = 0;
  if (json.is_structured()) {
    for (const auto& item : json) bytes += 16 + text_bytes(item);
  }
  return bytes;
}

bool is_too_deep(const Json& json, int depth = 0) {
  if (depth > jinja::RenderOptions::kMaxInputDepth) return true;
  if (!json.is_structured()) return false;
  for (const auto& item : json) {
    if (is_too_deep(item, depth + 1)) return true;
  }
  return false;
}

Result<void> check_message(const Message& message) {
  if (message.role.empty()) return Error{Status::invalid_argument, "a message has no role"};
  if (!message.content.is_null() && !message.content.is_string() && !message.content.is_array()) {
    return Error{Status::invalid_argument, "a message's content must be a string, an array of parts or null"};
  }
  if (!message.tool_calls.is_null() && !message.tool_calls.is_array()) {
    return Error{Status::invalid_argument, "a message's tool_calls must be an array"};
  }
  for (const Json* json : {&message.content, &message.tool_calls, &message.extra}) {
    if (is_too_deep(*json)) return Error{Status::limit_exceeded, "a message is nested too deeply"};
  }
  return {};
}

bool is_reserved(std::string_view name) {
  return name == "messages" || name == "tools" || name == "add_generation_prompt";
}

}  // namespace

Result<ChatTemplate> ChatTemplate::compile(std::string_view source,
                                           const std::vector<std::pair<std::string, std::string>>& tokens) {
  try {
    ChatTemplate result;
    QUERN_TRY(result.template_, jinja::Template::parse(source));
    for (const auto& [name, text] : tokens) result.tokens_.emplace_back(name, Json(text));
    result.probe();
    result.support_.reply = reply_format_of(source);
    result.support_.calls = call_format_of(source);
    return result;
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to compile the chat template"};
  }
}

Result<Rendered> ChatTemplate::render(std::span<const Message> messages, const ChatOptions& options) const {
  try {
    bool has_null = false;
    for (const auto& message : messages) {
      QUERN_TRY_VOID(check_message(message));
      has_null = has_null || message.content.is_null();
    }
    if (is_too_deep(options.tools) || is_too_deep(options.variables)) {
      return Error{Status::limit_exceeded, "tools or template variables are nested too deeply"};
    }
    auto rendered = render_once(messages, options, false);
    if (rendered.ok() || !has_null || rendered.error().status != Status::invalid_argument) return rendered;
    auto filled = render_once(messages, options, true);
    return filled.ok() ? std::move(filled) : std::move(rendered);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to render the chat"};
  }
}

Result<Rendered> ChatTemplate::render_once(std::span<const Message> messages, const ChatOptions& options,
                                           bool fill_null) const {
  Json list = Json::array();
  for (const auto& message : messages) list.push_back(message_json(message, fill_null));
  const Json add_generation_prompt = options.add_generation_prompt;
  std::vector<jinja::Variable> variables;
  for (const auto& [name, text] : tokens_) variables.push_back({name, &text, false});
  if (options.variables.is_object()) {
    for (const auto& [name, value] : options.variables.items()) {
      if (is_reserved(name)) {
        return Error{Status::invalid_argument, "the template variable '" + name + "' is given by the request itself"};
      }
      variables.push_back({name, &value, true});
    }
  }
  variables.push_back({"messages", &list, true});
  variables.push_back({"tools", &options.tools, true});
  variables.push_back({"add_generation_prompt", &add_generation_prompt, false});
  jinja::RenderOptions render_options;
  // A long conversation may cost in proportion to its length; what a template does beyond that is bounded.
  const size_t bytes = text_bytes(list) + text_bytes(options.tools) + text_bytes(options.variables);
  render_options.fuel = options.fuel + 16 * uint64_t{bytes};
  render_options.max_output_bytes += 4 * bytes;
  render_options.now = options.now;
  render_options.vocabulary = kVocabulary;
  return template_.render(variables, render_options);
}

Result<std::string_view> builtin_chat_template(std::string_view name) {
  static constexpr std::string_view kChatml =
      "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  if (name == "chatml") return kChatml;
  return Error{Status::not_found, "no built-in chat template '" + std::string(name) + "'; known: chatml"};
}

std::vector<TextPiece> pieces_of(const Rendered& prompt) {
  const std::string_view text = prompt.text;
  std::vector<TextPiece> pieces;
  size_t done = 0;
  for (const auto& span : prompt.content) {
    if (span.begin > done) pieces.push_back({text.substr(done, span.begin - done), true});
    pieces.push_back({text.substr(span.begin, span.end - span.begin), false});
    done = span.end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done), true});
  return pieces;
}

Message message_of(const Reply& reply, size_t first_call) {
  Message message;
  message.role = "assistant";
  if (!reply.content.empty() || reply.calls.empty()) message.content = reply.content;
  if (!reply.reasoning.empty()) message.reasoning_content = reply.reasoning;
  for (const ReplyCall& call : reply.calls) {
    if (message.tool_calls.is_null()) message.tool_calls = Json::array();
    const std::string number = std::to_string((first_call + message.tool_calls.size()) % 100000);
    message.tool_calls.push_back(Json{{"id", "call" + std::string(5 - number.size(), '0') + number},
                                      {"type", "function"},
                                      {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

Result<std::vector<int32_t>> encode_rendered(const Tokenizer& tokenizer, const Rendered& prompt) {
  try {
    EncodeOptions options;
    options.add_special = true;
    QUERN_TRY(auto ids, tokenizer.encode(pieces_of(prompt), options));
    // The answer goes on where the prompt ends: the eos that some models want behind a text has no place there.
    if (tokenizer.adds_eos() && !ids.empty()) ids.pop_back();
    return ids;
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to tokenize the chat"};
  }
}

}  // namespace quern::token
