#include "engine/prompt.h"

#include <ctime>
#include <new>

#include "file/gguf.h"

namespace quern::engine {
namespace {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  ::localtime_r(&now, &out);
  return out;
}

}  // namespace

Result<token::ChatTemplate> chat_template_of(const file::GgufFile& file, const token::Tokenizer& tokenizer) {
  QUERN_TRY(const auto source, file.get<std::string_view>("tokenizer.chat_template"));
  if (!source) return Error{Status::not_found, file.path() + ": has no chat template"};
  const token::Vocab& vocab = tokenizer.vocab();
  const struct {
    const char* name;
    int32_t id;
  } specials[] = {{"bos_token", vocab.bos},
                  {"eos_token", vocab.eos},
                  {"unk_token", vocab.unk},
                  {"sep_token", vocab.sep},
                  {"pad_token", vocab.pad}};
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const auto& special : specials) {
    if (tokenizer.contains(special.id)) tokens.emplace_back(special.name, vocab.text(special.id));
  }
  auto compiled = token::ChatTemplate::compile(*source, tokens);
  if (!compiled.ok())
    return Error{compiled.error().status, file.path() + ": chat template: " + compiled.error().message};
  return compiled;
}

Turn turn_of(const token::Reply& reply, size_t first_call) {
  const token::Message message = token::message_of(reply, first_call);
  Turn turn{message.role, reply.content, reply.reasoning};
  for (size_t i = 0; i < reply.calls.size(); ++i) {
    turn.calls.push_back(
        {message.tool_calls[i]["id"].get<std::string>(), reply.calls[i].name, reply.calls[i].arguments});
  }
  return turn;
}

token::Message message_of(const Turn& turn) {
  token::Message message;
  message.role = turn.role;
  if (!turn.content.empty() || turn.calls.empty()) message.content = turn.content;
  if (!turn.reasoning.empty()) message.reasoning_content = turn.reasoning;
  message.tool_call_id = turn.call_id;
  message.name = turn.tool;
  for (const TurnCall& call : turn.calls) {
    if (message.tool_calls.is_null()) message.tool_calls = token::Json::array();
    message.tool_calls.push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

namespace {

// Whether a question looks different by it: many templates have a variable of that name for themselves.
bool heeds(const token::ChatTemplate& chat, const char* variable) {
  if (!chat.mentions(variable)) return false;
  std::vector<token::Message> question(1);
  question[0].role = "user";
  question[0].content = "?";
  if (!chat.adapt(question).ok()) return false;
  token::ChatOptions options;
  options.now = [] { return std::tm{}; };
  std::string texts[2];
  for (const bool value : {false, true}) {
    options.variables = {{variable, value}};
    const auto rendered = chat.render(question, options);
    if (!rendered.ok()) return false;
    texts[value ? 1 : 0] = rendered->text;
  }
  return texts[0] != texts[1];
}

}  // namespace

Result<token::Json> reasoning_variables(const Engine& engine, const ReasoningOptions& options) {
  token::Json variables = token::Json::object();
  if (options.effort.empty() && !options.thinking) return variables;
  const token::ChatTemplate* chat = engine.chat_template();
  if (chat == nullptr) return Error{Status::unsupported, engine.chat_template_error()};
  const auto missing = [&](const std::string& name) {
    return Error{Status::unsupported, engine.file().path() + ": the chat template has no variable " + name};
  };
  if (!options.effort.empty()) {
    if (!chat->mentions("reasoning_effort")) return missing("reasoning_effort");
    variables["reasoning_effort"] = options.effort;
  }
  if (options.thinking) {
    const bool known = chat->mentions("enable_thinking");
    if (!known && !heeds(*chat, "thinking")) return missing("enable_thinking");
    variables[known ? "enable_thinking" : "thinking"] = *options.thinking;
  }
  return variables;
}

Result<ChatPrompt> chat_prompt(const Engine& engine, std::vector<token::Message> messages, token::ChatOptions options) {
  const token::ChatTemplate* chat = engine.chat_template();
  if (chat == nullptr) return Error{Status::unsupported, engine.chat_template_error()};
  QUERN_TRY_VOID(chat->adapt(messages));
  if (!options.now) options.now = &local_time;
  ChatPrompt prompt;
  QUERN_TRY(prompt.rendered, chat->render(messages, options));
  QUERN_TRY(prompt.ids, token::encode_rendered(engine.tokenizer(), prompt.rendered));
  return prompt;
}

Result<ChatPrompt> chat_prompt(const Engine& engine, std::span<const Turn> turns, token::ChatOptions options) {
  try {
    std::vector<token::Message> messages;
    for (const Turn& turn : turns) messages.push_back(message_of(turn));
    return chat_prompt(engine, std::move(messages), std::move(options));
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "not enough memory for the prompt"};
  }
}

}  // namespace quern::engine
