// Replies that are text, with a block of reasoning in tags at the beginning or without one.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "token/reply_calls.h"

namespace quern::token {

inline constexpr std::array<std::string_view, 2> kThinkTags = {"<think>", "</think>"};
inline constexpr std::array<std::string_view, 2> kBracketedThinkTags = {"[THINK]", "[/THINK]"};

// Reasoning is only what the reply begins with: a tag further back is text. The line breaks that templates put around
// the block (behind the opening tag, on both sides of the closing one) belong to the markup.
// Tool calls are looked for in the answer only.
class TagParser : public ReplyParser, private CallSink {
 public:
  // tags: opening and closing, static; or none.
  TagParser(std::span<const std::string_view> tags, CallFormat calls, bool in_text, TextArguments is_text);
  bool reasons() const override { return state_ == State::reasoning; }

 private:
  enum class State : uint8_t { undecided, reasoning, content };
  void on_text(std::string_view text) override;
  void on_markup(size_t name) override;
  void on_finish() override;
  void on_prompt(std::span<const TextPiece> pieces) override;
  void enter(State state);
  void answer(std::string_view text);
  // What calls are found in.
  void content(std::string_view text) override { emit(Kind::content, text); }
  void call(std::string_view name) override { begin_call(name, false); }
  void arguments(std::string_view text) override { emit(Kind::arguments, text); }

  size_t n_tags_;
  std::unique_ptr<CallReader> calls_;  // null: all of the answer is text

  State state_;
  bool at_tag_ = false;  // nothing but line breaks has followed the last tag
  std::string blank_;    // undecided: the white space so far; reasoning: line breaks that a closing tag would take
};

}  // namespace quern::token
