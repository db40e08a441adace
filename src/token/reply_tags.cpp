// The states of a reply with tags: undecided until its first text, then reasoning up to the closing tag, then content.
#include "token/reply_tags.h"

#include <algorithm>

namespace quern::token {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

std::string_view after_line_breaks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

}  // namespace

void TagParser::enter(State state) {
  state_ = state;
  at_tag_ = true;
  blank_.clear();
}

void TagParser::on_text(std::string_view text) {
  if (at_tag_) {
    text = after_line_breaks(text);
    if (text.empty()) return;
    at_tag_ = false;
  }
  if (state_ == State::undecided) {
    blank_ += text;
    if (text.find_first_not_of(kWhiteSpace) == std::string_view::npos) return;
    emit(Kind::content, blank_);
    enter(State::content);
    at_tag_ = false;
  } else if (state_ == State::reasoning) {
    const size_t last = text.find_last_not_of('\n');
    if (last == std::string_view::npos) {
      blank_ += text;
      return;
    }
    emit(Kind::reasoning, blank_);
    emit(Kind::reasoning, text.substr(0, last + 1));
    blank_ = text.substr(last + 1);
  } else {
    emit(Kind::content, text);
  }
}

void TagParser::on_markup(size_t name) {
  const bool opens = name == 0;
  if (opens && state_ == State::undecided) return enter(State::reasoning);
  if (!opens && state_ != State::content) return enter(State::content);
  on_text(names()[name]);
}

void TagParser::on_finish() {
  if (state_ == State::undecided) emit(Kind::content, blank_);
  if (state_ == State::reasoning) emit(Kind::reasoning, blank_);
  blank_.clear();
}

void TagParser::on_prompt(std::span<const TextPiece> pieces) {
  if (names().empty() || pieces.empty() || !pieces.back().markup) return;
  const std::string_view text = pieces.back().text;
  const std::string_view end = text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
  if (end.ends_with(names()[0])) enter(State::reasoning);
  if (end.ends_with(names()[1])) enter(State::content);
}

}  // namespace quern::token
