// Conversations as prompts: the file's chat template, and turns -> token ids through it. What programs and the C
// interface share; rendering itself is token/chat.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "token/chat.h"

namespace quern::engine {

// The chat template that the file carries. Errors: not_found where it has none, or why it does not compile.
Result<token::ChatTemplate> chat_template_of(const file::GgufFile& file, const token::Tokenizer& tokenizer);

struct Turn {
  std::string role;  // "system", "user", "assistant"
  std::string content;
  bool operator==(const Turn&) const = default;
};

// Ready for the assistant's answer. Control tokens in the content stay text. Errors: unsupported where the model has no
// usable template; whatever the template refuses, in its own words.
Result<std::vector<int32_t>> chat_prompt(const Engine& engine, std::span<const Turn> turns);

}  // namespace quern::engine
