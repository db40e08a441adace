#include "token/xml_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "token/chat.h"
#include "token/reply_calls.h"

namespace quern::token {
namespace {

// One character inside a JSON string; bytes of longer ones stand for themselves.
void add_escaped(char c, std::string& out) {
  const auto byte = static_cast<uint8_t>(c);
  if (byte >= 0x20 && c != '"' && c != '\\') {
    out += c;
    return;
  }
  const std::string quoted = Json(std::string(1, c)).dump();
  out.append(quoted, 1, quoted.size() - 2);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) add_escaped(c, out);
  return out + '"';
}

// JSON as it stands, words as templates print them, or else a string.
std::string json_of(std::string_view text) {
  static constexpr auto kWords = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"True", "true"}, {"False", "false"}, {"None", "null"}});
  const std::string_view value = trimmed(text);
  for (const auto& [word, json] : kWords) {
    if (value == word) return std::string(json);
  }
  return Json::accept(value) ? std::string(value) : json_string(text);
}

}  // namespace

size_t XmlCall::feed(std::string_view text, CallSink& sink) {
  size_t n = 0;
  while (n < text.size() && state_ == State::open) {
    const char c = text[n++];
    if (!begun_ || place_ != Place::value) tags_ += c;
    if (tags_.size() > kMaxHeld) fail();
    if (state_ == State::open) step(c);
    pass_on(sink);
  }
  return n;
}

void XmlCall::close(CallSink& sink) {
  if (place_ == Place::name && form_->after_name.empty()) end_name();
  if (state_ == State::open && place_ == Place::before_key && word_.empty()) end_call();
  pass_on(sink);
}

void XmlCall::pass_on(CallSink& sink) {
  if (json_.empty()) return;
  if (!begun_) sink.call(name_);
  begun_ = true;
  sink.arguments(std::exchange(json_, {}));
}

XmlCall::Tag XmlCall::take_tag(char c, std::string_view first, std::string_view second) {
  if (word_.empty() && is_white_space(c)) return Tag::part;
  word_ += c;
  const Tag tag = word_ == first ? Tag::first : word_ == second ? Tag::second : Tag::part;
  if (tag != Tag::part) {
    word_.clear();
  } else if (!first.starts_with(word_) && !second.starts_with(word_)) {
    fail();
  }
  return tag;
}

void XmlCall::step(char c) {
  switch (place_) {
    case Place::before_name:
      if (form_->before_name.empty()) {
        if (is_white_space(c)) return;
        place_ = Place::name;
        return step(c);
      }
      if (take_tag(c, form_->before_name, {}) == Tag::first) place_ = Place::name;
      return;
    case Place::name: {
      const bool open_end = form_->after_name.empty();
      if (open_end ? c != '<' && !is_white_space(c) : c != form_->after_name[0]) {
        name_ += c;
        return;
      }
      end_name();
      if (open_end && c == '<' && state_ == State::open) step(c);
      return;
    }
    case Place::before_key: {
      const Tag tag = take_tag(c, form_->before_key, form_->after);
      if (tag == Tag::second) return end_call();
      if (tag == Tag::first) place_ = Place::key;
      return;
    }
    case Place::key:
      key_ += c;
      if (key_.size() > kMaxName + form_->after_key.size()) return fail();
      if (!key_.ends_with(form_->after_key)) return;
      key_.resize(key_.size() - form_->after_key.size());
      if (key_.empty()) return fail();
      place_ = Place::before_value;
      if (form_->before_value.empty()) begin_value();
      return;
    case Place::before_value:
      if (take_tag(c, form_->before_value, {}) == Tag::first) begin_value();
      return;
    case Place::value:
      return take_value(c);
  }
}

void XmlCall::end_name() {
  place_ = Place::before_key;
  if (!is_name(name_) || name_.find_first_of("<>") != name_.npos) fail();
}

void XmlCall::begin_value() {
  place_ = Place::value;
  first_of_value_ = true;
  tags_.clear();
  text_value_ = !is_text_ || is_text_(name_, key_);
  json_ += any_value_ ? ", " : "{";
  json_ += json_string(std::exchange(key_, {})) + ": ";
  if (text_value_) json_ += '"';
  any_value_ = true;
}

// What may be the beginning of the closing tag, and of a line break before it, waits in word_.
void XmlCall::take_value(char c) {
  const bool first = std::exchange(first_of_value_, false);
  if (first && form_->lines && c == '\n') return;
  word_ += c;
  const auto ends_so = [&](std::string_view text) { return form_->after_value.starts_with(text); };
  while (!word_.empty()) {
    const std::string_view word = word_;
    const bool line = form_->lines && word.front() == '\n';
    const std::string_view tag = line ? word.substr(1) : word;
    if (tag == form_->after_value) return end_value();
    if (ends_so(tag)) return;
    if (text_value_) {
      add_escaped(word.front(), json_);
    } else {
      value_ += word.front();
    }
    word_.erase(0, 1);
  }
}

void XmlCall::end_value() {
  json_ += text_value_ ? "\"" : json_of(value_);
  value_.clear();
  word_.clear();
  place_ = Place::before_key;
}

void XmlCall::end_call() {
  json_ += any_value_ ? "}" : "{}";
  state_ = State::done;
}

}  // namespace quern::token
