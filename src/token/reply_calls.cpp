#include "token/reply_calls.h"

#include <array>
#include <optional>
#include <utility>

#include "token/xml_call.h"

namespace quern::token {
namespace {

constexpr std::array<std::string_view, 2> kTagged = {"<tool_call>", "</tool_call>"};
constexpr std::array<std::string_view, 6> kArguments = {"<tool_call>", "</tool_call>", "<arg_key>",
                                                        "</arg_key>",  "<arg_value>",  "</arg_value>"};
constexpr std::array<std::string_view, 1> kBare = {"<|python_tag|>"};
constexpr std::array<std::string_view, 3> kMistral = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
constexpr std::array<std::string_view, 3> kGemma = {"<|tool_call>", "<tool_call|>", "<|\"|>"};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

// Text before and between calls: white space alone belongs to the markup, unless text follows that is no call.
class TextAroundCalls {
 public:
  void begin() { held_.emplace(); }
  void pass(std::string_view text, CallSink& sink) {
    if (text.empty()) return;
    if (held_) {
      *held_ += text;
      if (is_blank(*held_)) return;
      sink.content(*held_);
      held_.reset();
    } else {
      sink.content(text);
    }
  }

 private:
  std::optional<std::string> held_ = std::string();
};

// Calls one after the other, as in a pair of tags or a list.
template <class Call>
class CallsInARow {
 public:
  // fresh: a call of which nothing has been read.
  explicit CallsInARow(Call fresh) : fresh_(std::move(fresh)) {}
  // Begins; `shown` is what stands before the calls, should they be none.
  void begin(std::string shown) {
    shown_ = std::move(shown);
    call_.reset();
    n_ = 0;
  }
  enum class State : uint8_t { open, over, failed };
  // Skips `between` around calls; `end` ends it ('\\0': nothing does). Returns how much was taken.
  size_t feed(std::string_view text, std::string_view between, char end, CallSink& sink, State* state) {
    size_t at = 0;
    *state = State::open;
    while (at < text.size()) {
      if (!call_) {
        const char c = text[at];
        if (c == end && end != '\0') {
          *state = State::over;
          return at + 1;
        }
        if (between.find(c) != between.npos) {
          if (n_ == 0) shown_ += c;
          ++at;
          continue;
        }
        call_ = fresh_;
      }
      at += call_->feed(text.substr(at), sink);
      if (call_->state() == JsonCall::State::failed) *state = State::failed;
      settle();
      if (*state == State::failed) return at;
    }
    return at;
  }
  // What is around the calls ends.
  void close(CallSink& sink) {
    if (!call_) return;
    call_->close(sink);
    settle();
  }
  // What has been read and is in no call.
  std::string give_up() {
    std::string text = std::exchange(shown_, {});
    if (call_) text += call_->held();
    call_.reset();
    return text;
  }
  bool in_text() const { return call_ && call_->in_text(); }  // what looks like markup there is none
  bool any() const { return n_ > 0 || (call_ && call_->begun()); }

 private:
  void settle() {
    if (call_->begun()) shown_.clear();
    if (call_->state() != JsonCall::State::done) return;
    ++n_;
    call_.reset();
  }

  Call fresh_;
  std::string shown_;
  std::optional<Call> call_;
  int n_ = 0;
};

using JsonCalls = CallsInARow<JsonCall>;

// <tool_call>...</tool_call>, with calls in between.
template <class Call>
class TaggedCalls final : public CallReader {
 public:
  TaggedCalls(CallSink& sink, Call fresh) : sink_(sink), calls_(std::move(fresh)) {}

  void text(std::string_view text) override {
    if (inside_) {
      typename CallsInARow<Call>::State state{};
      text.remove_prefix(calls_.feed(text, kWhiteSpace, '\0', sink_, &state));
      if (state == CallsInARow<Call>::State::failed) leave();
    }
    if (!text.empty()) around_.pass(text, sink_);
  }

  void markup(std::string_view name) override {
    const bool is_outer = name == kTagged[0] || name == kTagged[1];
    if (!is_outer || (inside_ && calls_.in_text())) return text(name);
    if (inside_ && name == kTagged[1]) calls_.close(sink_);
    leave();
    if (name == kTagged[0]) {
      calls_.begin(std::string(name));
      inside_ = true;
      called_ = false;
    } else if (called_) {
      around_.begin();
      called_ = false;
    } else {
      around_.pass(name, sink_);
    }
  }

  void finish() override { leave(); }

 private:
  void leave() {
    if (!inside_) return;
    inside_ = false;
    called_ = calls_.any();
    around_.pass(calls_.give_up(), sink_);
  }

  CallSink& sink_;
  bool inside_ = false;
  bool called_ = false;  // a call has come since the opening tag
  CallsInARow<Call> calls_;
  TextAroundCalls around_;
};

// {"name": "f", "parameters": {...}} as the whole answer; several with ; between them.
class BareCalls final : public CallReader {
 public:
  explicit BareCalls(CallSink& sink) : sink_(sink) { calls_.begin({}); }

  void text(std::string_view text) override {
    if (!is_text_) {
      JsonCalls::State state{};
      text.remove_prefix(calls_.feed(text, " \t\r\n;,", '\0', sink_, &state));
      if (state == JsonCalls::State::failed) finish();
    }
    around_.pass(text, sink_);
  }
  // The model says that a call comes; the mark itself is nothing to show.
  void markup(std::string_view name) override {
    if (!is_text_ && calls_.in_text()) return text(name);
    finish();
    is_text_ = false;
    calls_.begin({});
  }
  void finish() override {
    if (!is_text_) around_.pass(calls_.give_up(), sink_);
    is_text_ = true;
  }

 private:
  CallSink& sink_;
  bool is_text_ = false;
  JsonCalls calls_{JsonCall(true)};
  TextAroundCalls around_;
};

// [TOOL_CALLS][{"name": "f", "arguments": {...}}], or [TOOL_CALLS]f[ARGS]{...} with a [CALL_ID] perhaps.
class MistralCalls final : public CallReader {
 public:
  explicit MistralCalls(CallSink& sink) : sink_(sink) {}

  void text(std::string_view text) override {
    while (!text.empty()) text.remove_prefix(take(text));
  }

  void markup(std::string_view name) override {
    if ((place_ == Place::list && calls_.in_text()) || (place_ == Place::arguments && end_.in_text()))
      return text(name);
    if (name == kMistral[0]) {
      leave();
      place_ = Place::head;
      shown_ = name;
    } else if (place_ == Place::head || place_ == Place::id) {
      if (name == kMistral[1] && begin_arguments()) return;
      if (name == kMistral[2]) {
        place_ = Place::id;
        shown_ += name;
        return;
      }
      give_up(name);
    } else {
      leave();
      around_.pass(name, sink_);
    }
  }

  void finish() override { leave(); }

 private:
  static constexpr size_t kMaxHead = 1024;
  enum class Place : uint8_t { outside, head, id, list, arguments };

  // Takes some of text; returns how much.
  size_t take(std::string_view text) {
    switch (place_) {
      case Place::outside:
        around_.pass(text, sink_);
        return text.size();
      case Place::head:
        return take_head(text.front());
      case Place::id:
        shown_ += text;
        return text.size();
      case Place::list: {
        JsonCalls::State state{};
        const size_t n = calls_.feed(text, " \t\r\n,", ']', sink_, &state);
        if (state == JsonCalls::State::open) return n;
        place_ = Place::outside;
        const bool any = calls_.any();
        if (any) around_.begin();
        around_.pass(calls_.give_up() + (state == JsonCalls::State::over && !any ? "]" : ""), sink_);
        return n;
      }
      case Place::arguments:
        break;
    }
    size_t n = 0;
    JsonEnd::Seen seen = JsonEnd::Seen::part;
    while (n < text.size() && seen == JsonEnd::Seen::part) seen = end_.feed(text[n++]);
    sink_.arguments(text.substr(0, n));
    if (seen != JsonEnd::Seen::part) {
      place_ = Place::outside;
      around_.begin();
    }
    return n;
  }

  size_t take_head(char c) {
    if (is_blank(name_) && (c == '[' || c == '{')) {
      place_ = Place::list;
      calls_.begin(shown_ + (c == '[' ? "[" : ""));
      return c == '[' ? 1 : 0;
    }
    if (c == '{' && begin_arguments()) return 0;
    name_ += c;
    shown_ += c;
    if (shown_.size() > kMaxHead || c == '{') give_up({});
    return 1;
  }

  bool begin_arguments() {
    const std::string_view name = trimmed(name_);
    if (!is_name(name)) return false;
    sink_.call(name);
    end_ = JsonEnd();
    name_.clear();
    place_ = Place::arguments;
    return true;
  }

  void give_up(std::string_view more) {
    around_.pass(std::exchange(shown_, {}).append(more), sink_);
    name_.clear();
    place_ = Place::outside;
  }

  void leave() {
    if (place_ == Place::head || place_ == Place::id) give_up({});
    if (place_ == Place::list) around_.pass(calls_.give_up(), sink_);
    place_ = Place::outside;
    name_.clear();
  }

  CallSink& sink_;
  Place place_ = Place::outside;
  std::string shown_, name_;  // of a head: as it came; the function's name
  JsonCalls calls_{JsonCall(false)};
  JsonEnd end_;
  TextAroundCalls around_;
};

// <|tool_call>call:f{key:<|"|>text<|"|>,other:1}<tool_call|>. A call is read whole.
class GemmaCalls final : public CallReader {
 public:
  explicit GemmaCalls(CallSink& sink) : sink_(sink) {}

  void text(std::string_view text) override {
    if (!inside_) return around_.pass(text, sink_);
    body_ += text;
    shown_ += text;
    if (shown_.size() > kMaxBody) leave();
  }

  void markup(std::string_view name) override {
    if (name == kGemma[0]) {
      leave();
      inside_ = true;
      shown_ = name;
      return;
    }
    if (!inside_) return around_.pass(name, sink_);
    shown_ += name;
    if (name == kGemma[2]) {
      body_ += kGemmaQuote;
      return;
    }
    const std::string_view body = trimmed(body_);
    const size_t brace = body.find('{');
    const bool has_head = body.starts_with("call:") && brace != body.npos;
    const std::string_view function = has_head ? trimmed(body.substr(5, brace - 5)) : std::string_view();
    const std::string json = is_name(function) ? gemma_arguments(body.substr(brace)) : std::string();
    if (json.empty()) return leave();
    sink_.call(function);
    sink_.arguments(json);
    shown_.clear();
    leave();
    around_.begin();
  }

  void finish() override { leave(); }

 private:
  static constexpr size_t kMaxBody = size_t{1} << 20;

  void leave() {
    around_.pass(std::exchange(shown_, {}), sink_);
    body_.clear();
    inside_ = false;
  }

  CallSink& sink_;
  bool inside_ = false;
  std::string shown_, body_;
  TextAroundCalls around_;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) + 1 - first);
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= JsonCall::kMaxName && text.find_first_of("\"{}[]() \t\r\n") == text.npos;
}

std::span<const std::string_view> call_markup(CallFormat format) {
  switch (format) {
    case CallFormat::none:
      break;
    case CallFormat::tagged_json:
    case CallFormat::function_tags:
      return kTagged;
    case CallFormat::argument_tags:
      return kArguments;
    case CallFormat::bare_json:
      return kBare;
    case CallFormat::mistral:
      return kMistral;
    case CallFormat::gemma:
      return kGemma;
  }
  return {};
}

std::unique_ptr<CallReader> make_call_reader(CallFormat format, CallSink& sink, TextArguments is_text) {
  switch (format) {
    case CallFormat::none:
      break;
    case CallFormat::tagged_json:
      return std::make_unique<TaggedCalls<JsonCall>>(sink, JsonCall(false));
    case CallFormat::function_tags:
      return std::make_unique<TaggedCalls<XmlCall>>(sink, XmlCall(kFunctionTags, std::move(is_text)));
    case CallFormat::argument_tags:
      return std::make_unique<TaggedCalls<XmlCall>>(sink, XmlCall(kArgumentTags, std::move(is_text)));
    case CallFormat::bare_json:
      return std::make_unique<BareCalls>(sink);
    case CallFormat::mistral:
      return std::make_unique<MistralCalls>(sink);
    case CallFormat::gemma:
      return std::make_unique<GemmaCalls>(sink);
  }
  return nullptr;
}

}  // namespace quern::token
