// The states of a reply with tags: undecided until its first text, then reasoning up to the closing tag, then content.
#include "token/reply_tags.h"

#include <algorithm>

namespace quern::token {
namespace {

std::string_view after_line_breaks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

std::vector<std::string_view> names_of(std::span<const std::string_view> tags, CallFormat calls) {
  std::vector<std::string_view> names(tags.begin(), tags.end());
  const auto more = call_markup(calls);
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

}  // namespace

TagParser::TagParser(std::span<const std::string_view> tags, CallFormat calls, bool in_text, TextArguments is_text)
    : ReplyParser(names_of(tags, calls), in_text),
      n_tags_(tags.size()),
      calls_(make_call_reader(calls, *this, std::move(is_text))),
      state_(tags.empty() && calls == CallFormat::none ? State::content : State::undecided) {}

void TagParser::answer(std::string_view text) {
  if (text.empty()) return;
  if (calls_ != nullptr) {
    calls_->text(text);
  } else {
    emit(Kind::content, text);
  }
}

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
    const std::string begun = blank_;
    enter(State::content);
    at_tag_ = false;
    answer(begun);
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
    answer(text);
  }
}

void TagParser::on_markup(size_t name) {
  if (name >= n_tags_) {
    if (state_ == State::reasoning) return on_text(names()[name]);
    if (state_ == State::undecided) {
      const std::string begun = blank_;
      enter(State::content);
      answer(begun);
    }
    at_tag_ = false;
    return calls_->markup(names()[name]);
  }
  const bool opens = name == 0;
  if (opens && state_ == State::undecided) return enter(State::reasoning);
  if (!opens && state_ != State::content) return enter(State::content);
  on_text(names()[name]);
}

void TagParser::on_finish() {
  if (state_ == State::undecided) emit(Kind::content, blank_);
  if (state_ == State::reasoning) emit(Kind::reasoning, blank_);
  if (state_ == State::content && calls_ != nullptr) calls_->finish();
  blank_.clear();
}

void TagParser::on_prompt(std::span<const TextPiece> pieces) {
  if (n_tags_ == 0 || pieces.empty() || !pieces.back().markup) return;
  const std::string_view text = pieces.back().text;
  const std::string_view end = text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
  if (end.ends_with(names()[0])) enter(State::reasoning);
  if (end.ends_with(names()[1])) enter(State::content);
}

}  // namespace quern::token
