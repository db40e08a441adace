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

Result<std::vector<int32_t>> chat_prompt(const Engine& engine, std::span<const Turn> turns) {
  const token::ChatTemplate* chat = engine.chat_template();
  if (chat == nullptr) return Error{Status::unsupported, engine.chat_template_error()};
  try {
    std::vector<token::Message> messages;
    for (const Turn& turn : turns) {
      token::Message& message = messages.emplace_back();
      message.role = turn.role;
      message.content = turn.content;
    }
    QUERN_TRY_VOID(chat->adapt(messages));
    token::ChatOptions options;
    options.now = &local_time;
    QUERN_TRY(const token::Rendered prompt, chat->render(messages, options));
    return token::encode_rendered(engine.tokenizer(), prompt);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "not enough memory for the prompt"};
  }
}

}  // namespace quern::engine
