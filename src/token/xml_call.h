// A tool call whose arguments stand in tags, read as it comes and handed on as JSON: a value is text as it stands, or
// JSON where the argument's schema says another type. What is no JSON then is text all the same.
#pragma once

#include "token/json_call.h"
#include "token/reply.h"

namespace quern::token {

// The tags of a form, in order. White space between tags means nothing.
struct XmlCallForm {
  std::string_view before_name, after_name;  // empty: the name ends with white space or a tag
  std::string_view before_key, after_key;
  std::string_view before_value, after_value;
  std::string_view after;  // empty: the call ends with what is around it
  bool lines = false;      // a value stands on lines of its own: a line break on either side is none of it
};

// <function=NAME><parameter=KEY>\nVALUE\n</parameter></function>: Qwen3-Coder
inline constexpr XmlCallForm kFunctionTags = {"<function=",   ">",           "<parameter=", ">", "",
                                              "</parameter>", "</function>", true};
// NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>: GLM 4.5
inline constexpr XmlCallForm kArgumentTags = {"", "",   "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
                                              "", false};

class XmlCall {
 public:
  static constexpr size_t kMaxHeld = JsonCall::kMaxHeld, kMaxName = JsonCall::kMaxName;

  // form: static. is_text: null is as good as one that is always true.
  XmlCall(const XmlCallForm& form, TextArguments is_text) : form_(&form), is_text_(std::move(is_text)) {}

  // As JsonCall has them.
  using State = JsonCall::State;
  size_t feed(std::string_view text, CallSink& sink);
  State state() const { return state_; }
  bool in_text() const { return place_ == Place::value; }
  bool begun() const { return begun_; }
  // All text so far, and of one that has begun and failed, all since its last value.
  std::string_view held() const { return begun_ && state_ != State::failed ? std::string_view() : tags_; }
  void close(CallSink& sink);  // what is around the call ends

 private:
  enum class Place : uint8_t { before_name, name, before_key, key, before_value, value };
  void step(char c);
  // Takes a byte of one of two tags, of which either may be empty; whether it is the last byte of the first, the
  // second.
  enum class Tag : uint8_t { part, first, second };
  Tag take_tag(char c, std::string_view first, std::string_view second);
  void end_name();
  void begin_value();
  void take_value(char c);
  void end_value();
  void end_call();
  void fail() { state_ = State::failed; }
  void pass_on(CallSink& sink);

  const XmlCallForm* form_;
  TextArguments is_text_;
  State state_ = State::open;
  Place place_ = Place::before_name;
  bool begun_ = false, any_value_ = false;
  bool text_value_ = true, first_of_value_ = true;
  std::string tags_;  // what has been read since the last value, or from the beginning
  std::string name_, key_;
  std::string word_;   // a tag as it is read
  std::string value_;  // that is no text, as it is read
  std::string json_;   // arguments that have not been passed on
};

}  // namespace quern::token
