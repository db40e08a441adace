#include "token/json_call.h"

#include <utility>

#include "token/chat.h"

namespace quern::token {
namespace {

// The text that a JSON string stands for; "" where it is none.
std::string text_of(std::string_view json) {
  const Json value = Json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

JsonEnd::Seen JsonEnd::feed(char c) {
  if (kind_ == Kind::none && is_white_space(c)) return Seen::part;
  if (kind_ == Kind::none) {
    kind_ = c == '"' ? Kind::text : c == '{' || c == '[' ? Kind::nested : Kind::word;
    in_text_ = c == '"';
    depth_ = kind_ == Kind::nested ? 1 : 0;
    return Seen::part;
  }
  if (kind_ == Kind::word) return is_white_space(c) || c == ',' || c == '}' || c == ']' ? Seen::after : Seen::part;
  if (in_text_) {
    const bool ends = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    if (!ends) return Seen::part;
    in_text_ = false;
    return kind_ == Kind::text ? Seen::last : Seen::part;
  }
  if (c == '"') in_text_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  return depth_ == 0 ? Seen::last : Seen::part;
}

size_t JsonCall::feed(std::string_view text, CallSink& sink) {
  size_t n = 0;
  while (n < text.size() && state_ == State::open) {
    const char c = text[n++];
    const bool hold = !begun_;
    if (hold) {
      held_ += c;
      if (held_.size() > kMaxHeld) fail();
    }
    if (state_ == State::open) step(c);
    if (state_ == State::failed && !hold) --n;  // not held, so not ours
    if (state_ != State::failed && hold) begin(sink);
  }
  pass_on(sink);
  return n;
}

void JsonCall::step(char c) {
  switch (place_) {
    case Place::before:
      if (is_white_space(c)) return;
      if (c != '{') return fail();
      place_ = Place::before_key;
      return;
    case Place::before_key:
      if (is_white_space(c)) return;
      if (c != '"') return fail();
      word_ = c;
      place_ = Place::key;
      return;
    case Place::key:
      word_ += c;
      if (c == '"' && !escaped_) place_ = Place::colon;
      escaped_ = c == '\\' && !escaped_;
      return;
    case Place::colon: {
      if (is_white_space(c)) return;
      if (c != ':') return fail();
      const std::string key = text_of(word_);
      const bool arguments = key == "arguments" || key == "parameters";
      role_ = key == "name" && name_.empty() ? Role::name
              : arguments && !has_arguments_ ? Role::arguments
                                             : Role::skipped;
      word_.clear();
      end_ = JsonEnd();
      place_ = Place::before_value;
      return;
    }
    case Place::before_value:
      if (is_white_space(c)) return;
      place_ = Place::value;
      return take_value(c);
    case Place::value:
      return take_value(c);
    case Place::after_value:
      if (is_white_space(c)) return;
      if (c == '}') return end_object();
      if (c != ',') return fail();
      place_ = Place::before_key;
      return;
  }
}

void JsonCall::take_value(char c) {
  const JsonEnd::Seen seen = end_.feed(c);
  if (seen != JsonEnd::Seen::after && role_ != Role::skipped) {
    const bool object = role_ == Role::arguments && end_.is_nested();
    if (object && !has_arguments_ && c != '{') return fail();
    (object ? pending_ : word_) += c;
    has_arguments_ = has_arguments_ || role_ == Role::arguments;
    if (word_.size() > kMaxHeld) return fail();
  }
  if (seen == JsonEnd::Seen::part) return;
  end_value();
  if (seen == JsonEnd::Seen::after && state_ == State::open) step(c);
}

void JsonCall::end_value() {
  place_ = Place::after_value;
  const Role role = std::exchange(role_, Role::skipped);
  if (role == Role::name) {
    name_ = text_of(word_);
    if (name_.empty() || name_.size() > kMaxName) fail();
  }
  if (role == Role::arguments && !end_.is_nested()) {
    // Arguments as a string hold JSON themselves.
    pending_ = word_ == "null" ? "{}" : text_of(word_);
    if (!pending_.starts_with('{')) fail();
  }
}

// At the byte with which it is known to be one, however the text is cut.
void JsonCall::begin(CallSink& sink) {
  if (begun_ || name_.empty() || pending_.empty()) return;
  sink.call(name_);
  begun_ = true;
  held_.clear();
}

void JsonCall::pass_on(CallSink& sink) {
  if (begun_ && !pending_.empty()) sink.arguments(std::exchange(pending_, {}));
}

void JsonCall::end_object() {
  if (name_.empty() || (need_arguments_ && !has_arguments_)) return fail();
  if (!begun_ && pending_.empty()) pending_ = "{}";
  state_ = State::done;
}

}  // namespace quern::token
