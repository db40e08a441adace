// Harmony, the format of gpt-oss: messages with role, recipient, channel and content type, read from a stream and
// written back.
//
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x":1}<|call|>
//
// The recipient decides what is a tool call, whatever the channel. Without one, analysis is reasoning, and commentary
// (words before a call), final and unknown channels are answer. Messages in other roles, which a model may make up,
// count as reasoning. What does not keep to the format: docs/REPLIES.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "token/reply.h"

namespace quern::token {

enum class HarmonyEnd : uint8_t { open, end, done, call };  // no end yet, <|end|>, <|return|>, <|call|>

struct HarmonyMessage {
  std::string role = "assistant";
  std::string recipient;         // "functions.NAME", "browser.search"; empty: none
  std::string channel;           // "analysis", "commentary", "final"; empty: none
  std::string content_type;      // "json"; empty: none
  bool constrained = false;      // <|constrain|> stands before the content type
  bool recipient_first = false;  // the recipient stands before the channel
  // All between <|start|> and <|message|> as it was read, if it can be written so again; empty: the fields say it.
  std::string header;
  std::string content;
  HarmonyEnd end = HarmonyEnd::open;

  bool is_call() const;
};

class HarmonyParser : public ReplyParser {
 public:
  // Begins in the header of an assistant's message, where a generation prompt ends.
  explicit HarmonyParser(bool in_text);

  // The messages so far, the last one perhaps open. Of a message that the prompt began, only what came since.
  const std::vector<HarmonyMessage>& messages() const { return messages_; }

  bool reasons() const override { return state_ == State::body && part_ == Kind::reasoning; }

  static constexpr size_t kMaxHeader = 1024;  // bytes; a longer header is text

  // A part of a header: the text behind <|channel|>, <|constrain|>, or the role's.
  struct Section {
    enum class Kind : uint8_t { role, channel, constrain } kind;
    std::string text;
  };

 private:
  enum class State : uint8_t { between, header, body };
  void on_text(std::string_view text) override;
  void on_markup(size_t name) override;
  void on_finish() override;
  void on_prompt(std::span<const TextPiece> pieces) override;

  void begin_header(bool role_known);
  void header_text(std::string_view text);
  void header_markup(size_t name);
  void begin_body(HarmonyMessage message);
  void body_text(std::string_view text);
  void close(HarmonyEnd end);
  void header_is_text();
  void end_header(HarmonyEnd end);

  State state_ = State::header;
  bool role_known_ = true;  // an assistant's header whose role was in the prompt
  std::vector<Section> sections_;
  size_t header_bytes_ = 0;
  std::string gap_;  // white space between messages
  Kind part_ = Kind::content;
  bool is_new_ = false;  // the message has no text yet
  std::vector<HarmonyMessage> messages_;
};

// The text of messages, with what is not markup marked as content: tokenized as such it keeps text that looks like
// markup apart. Reading it gives the messages back.
jinja::Rendered render_harmony(std::span<const HarmonyMessage> messages);

// The messages in which a model would have written this: reasoning, words before calls, calls or the final answer.
std::vector<HarmonyMessage> harmony_messages(const Reply& reply);

}  // namespace quern::token
