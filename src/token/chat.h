// Chat prompts: messages -> the text that a model was trained on -> token ids, with what people typed kept apart from
// the template's own markup, so that a "<|im_end|>" in a message stays text.
//
// A prompt is one text with content spans. Whole-token matching sees control tokens only outside those spans; all other
// text is tokenized as one stretch, so seams between markup and content change nothing.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "token/jinja.h"
#include "token/reply.h"
#include "token/tokenizer.h"

namespace quern::token {

using Json = nlohmann::ordered_json;
using Rendered = jinja::Rendered;

struct Message {
  std::string role;
  Json content;              // a string, an array of parts {"type": "text", "text": ...}, or null
  std::string name;          // empty: absent
  std::string tool_call_id;  // of a tool's result; empty: absent
  Json tool_calls;           // array of {"id", "type": "function", "function": {"name", "arguments"}}, or null
  std::optional<std::string> reasoning_content;  // templates read it under this name or as `thinking`
  Json extra;                                    // further fields, an object or null
};

struct ChatOptions {
  Json tools;  // array of {"type": "function", "function": {...}}, or null
  bool add_generation_prompt = true;
  Json variables;                // further template variables (enable_thinking ...), an object or null
  std::function<std::tm()> now;  // local time, for templates that print the date
  uint64_t fuel = 10'000'000;    // raised with the size of the input, see render
};

// What a template does with each kind of input, found by rendering small probes when it is compiled.
struct ChatSupport {
  bool string_content = false;  // "content": "text"
  bool part_content = false;    // "content": [{"type": "text", ...}]
  bool system_role = false;
  bool tools = false;                      // announces ChatOptions::tools
  bool tool_calls = false;                 // renders earlier calls
  bool object_arguments = false;           // "arguments": {...}
  bool string_arguments = false;           // "arguments": "{...}", not encoded a second time
  bool several_calls = false;              // renders all calls of a message, not only the first
  bool text_beside_calls = false;          // takes content and reasoning_content in a message with calls
  bool reasoning = false;                  // shows the last answer's reasoning_content
  bool generation_prompt = false;          // add_generation_prompt adds text
  ReplyFormat reply = ReplyFormat::plain;  // in which the model answers, read off the template's source
  CallFormat calls = CallFormat::none;     // in which it calls tools, likewise
};

class ChatTemplate {
 public:
  // `tokens`: variables with the text of special tokens ("bos_token", "eos_token" ...); these are markup.
  static Result<ChatTemplate> compile(std::string_view source,
                                      const std::vector<std::pair<std::string, std::string>>& tokens);

  // Messages keep the form in which they are given (see adapt). Null content is absent, and "" where a template cannot
  // do without. A refusal by the template itself (raise_exception) is Status::invalid_argument with its message.
  Result<Rendered> render(std::span<const Message> messages, const ChatOptions& options) const;

  const ChatSupport& supports() const { return support_; }
  bool mentions(std::string_view variable) const { return template_.mentions(variable); }

  // Rewrites messages into the form that this template supports: parts into one string (or back), arguments between
  // JSON text and object, several calls into one message each with its result behind it, content beside calls joined to
  // the reasoning. An error names a part that is not text where only strings are supported.
  Result<void> adapt(std::vector<Message>& messages) const;

 private:
  Result<Rendered> render_once(std::span<const Message> messages, const ChatOptions& options, bool fill_null) const;
  void probe();

  jinja::Template template_;
  std::vector<std::pair<std::string, Json>> tokens_;
  ChatSupport support_;
};

// The template of this name ("chatml"), for files that carry none; only ever used when asked for by name.
Result<std::string_view> builtin_chat_template(std::string_view name);

// The prompt in order, cut into markup and content.
std::vector<TextPiece> pieces_of(const Rendered& prompt);

// A reply as the assistant's message in what follows: reasoning_content, content, tool_calls with arguments as text.
// first_call numbers the ids ("call00001"; nine letters and digits, as some templates insist) through a conversation.
Message message_of(const Reply& reply, size_t first_call = 0);

// The ids of a prompt. The tokenizer puts a bos in front where the model wants one and the template wrote none.
Result<std::vector<int32_t>> encode_rendered(const Tokenizer& tokenizer, const Rendered& prompt);

}  // namespace quern::token
