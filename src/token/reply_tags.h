// Replies that are text, with a block of reasoning in tags at the beginning or without one.
#pragma once

#include <array>

#include "token/reply.h"

namespace quern::token {

inline constexpr std::array<std::string_view, 2> kThinkTags = {"<think>", "</think>"};
inline constexpr std::array<std::string_view, 2> kBracketedThinkTags = {"[THINK]", "[/THINK]"};

// Reasoning is only what the reply begins with: a tag further back is text. The line breaks that templates put around
// the block (behind the opening tag, on both sides of the closing one) belong to the markup.
class TagParser : public ReplyParser {
 public:
  // tags: opening and closing, static; or none.
  TagParser(std::span<const std::string_view> tags, bool in_text)
      : ReplyParser(tags, in_text), state_(tags.empty() ? State::content : State::undecided) {}

 private:
  enum class State : uint8_t { undecided, reasoning, content };
  void on_text(std::string_view text) override;
  void on_markup(size_t name) override;
  void on_finish() override;
  void on_prompt(std::span<const TextPiece> pieces) override;
  void enter(State state);

  State state_;
  bool at_tag_ = false;  // nothing but line breaks has followed the last tag
  std::string blank_;    // undecided: the white space so far; reasoning: line breaks that a closing tag would take
};

}  // namespace quern::token
