// A reply as text on standard output: reasoning, answer and tool calls told apart. What is reasoning and what not comes
// from token/reply.h.
#pragma once

#include <span>

#include "apps/quern/command.h"
#include "token/reply.h"

namespace quern::apps {

// A reply of nothing but answer appears as it is. Otherwise each part begins a line; a call is "[call NAME] ARGUMENTS".
class ReplyView {
 public:
  // dimmed: by terminal attributes. marked: "[reasoning]" and "[answer]" stand before the parts.
  enum class Reasoning { hidden, dimmed, marked };
  ReplyView(Output& out, Reasoning reasoning) : out_(&out), reasoning_(reasoning) {}
  ~ReplyView() { plain(); }  // no terminal is left dimmed
  ReplyView(const ReplyView&) = delete;
  ReplyView& operator=(const ReplyView&) = delete;

  // False once nothing more can be written.
  bool show(std::span<const token::ReplyDelta> deltas);
  // The end of the line.
  bool finish();

 private:
  using Kind = token::ReplyDelta::Kind;
  void begin(Kind part);
  void write(std::string_view text);
  void plain();

  Output* out_;
  Reasoning reasoning_;
  bool any_ = false;  // something has been written
  bool dim_ = false;
  Kind part_ = Kind::content;
  char last_ = 0;  // byte written
  bool good_ = true;
};

// --reasoning, as it is meant for this standard output.
ReplyView::Reasoning reasoning_view(const Context& context);

}  // namespace quern::apps
