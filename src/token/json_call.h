// A tool call as a JSON object, read as it comes: {"name": "f", "arguments": {...}}, keys in any order, "parameters" as
// another word for arguments, other keys skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::token {

// Where the end of a JSON value is, byte by byte. Brackets are counted, not matched.
class JsonEnd {
 public:
  enum class Seen : uint8_t {
    part,   // the byte belongs to the value, which goes on
    last,   // the byte is the value's last
    after,  // the byte comes after the value, which was a number or a word
  };
  Seen feed(char c);
  bool is_nested() const { return kind_ == Kind::nested; }
  bool in_text() const { return in_text_; }  // inside a string

 private:
  enum class Kind : uint8_t { none, text, nested, word };
  Kind kind_ = Kind::none;
  int depth_ = 0;
  bool in_text_ = false, escaped_ = false;
};

// Where what a reader finds goes.
class CallSink {
 public:
  virtual void content(std::string_view text) = 0;
  virtual void call(std::string_view name) = 0;
  virtual void arguments(std::string_view text) = 0;  // of the last call

 protected:
  ~CallSink() = default;
};

class JsonCall {
 public:
  static constexpr size_t kMaxHeld = 65536, kMaxName = 256;

  // need_arguments: an object without them is no call, but some other JSON.
  explicit JsonCall(bool need_arguments) : need_arguments_(need_arguments) {}

  enum class State : uint8_t { open, done, failed };
  // Takes text up to the object's end, or to where it cannot be a call; returns how much. White space may come first.
  size_t feed(std::string_view text, CallSink& sink);
  State state() const { return state_; }
  bool in_text() const { return place_ == Place::key || (place_ == Place::value && end_.in_text()); }
  bool begun() const { return begun_; }              // the sink knows of the call
  const std::string& held() const { return held_; }  // all text so far, unless begun
  void close(CallSink&) {}                           // what is around the call ends: a brace that is missing stays so

 private:
  enum class Place : uint8_t { before, before_key, key, colon, before_value, value, after_value };
  enum class Role : uint8_t { skipped, name, arguments };
  void step(char c);
  void take_value(char c);
  void end_value();
  void end_object();
  void begin(CallSink& sink);
  void pass_on(CallSink& sink);
  void fail() { state_ = State::failed; }

  bool need_arguments_, begun_ = false, escaped_ = false, has_arguments_ = false;
  State state_ = State::open;
  Place place_ = Place::before;
  Role role_ = Role::skipped;
  JsonEnd end_;
  std::string held_, name_;
  std::string word_;     // a key, or a value that is no object, as it is read
  std::string pending_;  // arguments that have not been passed on
};

}  // namespace quern::token
