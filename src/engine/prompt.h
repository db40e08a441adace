// Conversations as prompts: the file's chat template, and turns -> token ids through it. What programs and the C
// interface share; rendering itself is token/chat.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "token/chat.h"

namespace quern::engine {

// The chat template that the file carries. Errors: not_found where it has none, or why it does not compile.
Result<token::ChatTemplate> chat_template_of(const file::GgufFile& file, const token::Tokenizer& tokenizer);

struct TurnCall {
  std::string id, name;
  std::string arguments;  // mostly JSON, as the model wrote them
  bool operator==(const TurnCall&) const = default;
};

struct Turn {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content = {};
  std::string reasoning = {};           // an assistant's
  std::vector<TurnCall> calls = {};     // an assistant's
  std::string call_id = {}, tool = {};  // a tool's result: id and name of the call
  bool operator==(const Turn&) const = default;
};

// What the model replied, as a turn of the conversation. first_call: as token::message_of numbers calls.
Turn turn_of(const token::Reply& reply, size_t first_call = 0);
token::Message message_of(const Turn& turn);

// What a template may be told about reasoning.
struct ReasoningOptions {
  std::string effort;            // "low", "medium", "high"; empty: as the template has it
  std::optional<bool> thinking;  // whether to reason at all
};
// ChatOptions::variables for these. Errors: unsupported, where the model's template has no variable for what is asked.
Result<token::Json> reasoning_variables(const Engine& engine, const ReasoningOptions& options);

struct ChatPrompt {
  token::Rendered rendered;  // for ReplyParser::follow
  std::vector<int32_t> ids;
};

// Ready for the assistant's answer. Messages are adapted to the template; control tokens in their content stay text.
// options.now: local time where it is empty. Errors: unsupported where the model has no usable template; whatever the
// template refuses, in its own words.
Result<ChatPrompt> chat_prompt(const Engine& engine, std::vector<token::Message> messages,
                               token::ChatOptions options = {});
Result<ChatPrompt> chat_prompt(const Engine& engine, std::span<const Turn> turns, token::ChatOptions options = {});

}  // namespace quern::engine
