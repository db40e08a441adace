// Replies: what a model writes, taken apart while it comes: reasoning, answer, tool calls. One parser per format of
// replies, which a chat template tells (reply_format_of). The family so far: plain text with or without a block of
// reasoning in tags (reply_tags.cpp), in which tool calls stand in one of several ways (reply_calls.h), and harmony
// (harmony.h).
//
// No input is an error. Markup out of place is left out; text out of place counts as answer. Joined, the deltas do not
// depend on how the stream is cut into pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "token/detokenizer.h"
#include "token/jinja.h"
#include "token/tokenizer.h"

namespace quern::token {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";  // in replies, and in JSON
constexpr bool is_white_space(char c) {
  return kWhiteSpace.find(c) != std::string_view::npos;
}

enum class ReplyFormat : uint8_t {
  plain,            // all is answer
  think,            // <think>reasoning</think> first
  bracketed_think,  // [THINK]reasoning[/THINK] first
  harmony,          // messages in channels: gpt-oss
};

// What the source of a chat template says about the replies of its model.
ReplyFormat reply_format_of(std::string_view template_source);

// What ends reasoning and begins the answer, or, with to_call, what must be a call. Empty where there is no reasoning.
std::vector<TextPiece> end_of_reasoning(ReplyFormat format, bool to_call);

// How tool calls stand in the text of an answer.
enum class CallFormat : uint8_t {
  none,           // not at all, or in harmony's channels
  tagged_json,    // <tool_call>{"name": ..., "arguments": ...}</tool_call>: Qwen 2.5 and 3, Hermes
  function_tags,  // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>: Qwen3-Coder
  argument_tags,  // <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>: GLM 4.5
  bare_json,      // the answer is {"name": ..., "parameters": ...}: Llama 3
  mistral,        // [TOOL_CALLS][{"name": ..., "arguments": ...}], or [TOOL_CALLS]NAME[ARGS]{...}
  gemma,          // <|tool_call>call:NAME{key:<|"|>text<|"|>}<tool_call|>: Gemma 4
};
inline constexpr size_t kCallFormats = static_cast<size_t>(CallFormat::gemma) + 1;
CallFormat call_format_of(std::string_view template_source);

// A name of markup as the vocabulary has it: one token, or text.
TextPiece markup_piece(const Tokenizer& tokenizer, std::string_view name);

// What stands around the name and the arguments of a call, in the order in which a model writes them.
struct CallSyntax {
  std::vector<TextPiece> before_name, before_arguments, after;
  std::vector<TextPiece> between;  // two calls; empty, and `several` false, where a reply that is made to call has one
  bool several = true;
  // Around each argument, where they are no JSON object but a list of keys and values: text up to the end, or JSON.
  struct Tags {
    std::vector<TextPiece> before_key, before_value;
    std::vector<TextPiece> behind_json;  // before the end; a text may have it or not
    std::vector<TextPiece> end;
  };
  std::optional<Tags> tags = {};
};
// Nothing where calls are not known or what is between their arguments is not.
std::optional<CallSyntax> call_syntax(ReplyFormat reply, CallFormat calls, const Tokenizer& tokenizer);

struct ReplyCall {
  std::string name;       // of the function, as in the request's tools
  std::string arguments;  // as the model wrote them: mostly JSON, not checked
  bool builtin = false;   // a tool of the model's own training (browser.search, python), not one of the request
};

struct Reply {
  std::string reasoning, content;
  std::vector<ReplyCall> calls;
};

// What a piece added. call: a new one, text is its name; arguments: more of the last call's arguments.
struct ReplyDelta {
  enum class Kind : uint8_t { reasoning, content, call, arguments };
  Kind kind = Kind::content;
  std::string text;
  size_t call = 0;  // index in Reply::calls; kinds call and arguments
};

class ReplyParser {
 public:
  virtual ~ReplyParser() = default;

  // Call once before the first piece: the reply goes on where this prompt ends, inside a message perhaps.
  void follow(const jinja::Rendered& prompt);
  // Markup is found in pieces that are markup, also across their borders, and nowhere else; where the vocabulary has no
  // token for it, in all text (make_reply_parser). For a stream of ids: ReplyStream.
  std::vector<ReplyDelta> feed(TextPiece piece);
  std::vector<ReplyDelta> finish();  // the end: what was held back comes out

  const Reply& reply() const { return reply_; }  // all deltas so far
  // Text that comes now is reasoning, which markup could end.
  virtual bool reasons() const = 0;
  std::span<const std::string_view> names() const { return names_; }
  bool knows(std::string_view name) const;  // is this one of the format's markup names?

 protected:
  // names: of static text, none empty, none the beginning of another. in_text: markup is found in all text.
  ReplyParser(std::vector<std::string_view> names, bool in_text) : names_(std::move(names)), in_text_(in_text) {}

  virtual void on_text(std::string_view text) = 0;  // never empty
  virtual void on_markup(size_t name) = 0;          // index in names()
  virtual void on_finish() {}
  virtual void on_prompt(std::span<const TextPiece> pieces) = 0;

  using Kind = ReplyDelta::Kind;
  void emit(Kind kind, std::string_view text);
  void begin_call(std::string_view name, bool builtin);
  void take(TextPiece piece);  // feed without handing deltas over
  void forget();               // drops deltas and reply, which were the prompt's

 private:
  void scan(std::string_view text);
  std::vector<ReplyDelta> hand_over();

  std::vector<std::string_view> names_;
  bool in_text_;
  std::string held_;  // text that may be the beginning of a name, shorter than the longest
  std::vector<ReplyDelta> deltas_;
  Reply reply_;
};

// Whether an argument of a function is text, and not JSON; where a form writes both without quotes. Null: all are.
using TextArguments = std::function<bool(std::string_view function, std::string_view key)>;

// The parser of a format. With the tokenizer of the stream it knows whether its markup comes as tokens or as text.
// calls: none where no tools were offered, so that what looks like a call is text.
std::unique_ptr<ReplyParser> make_reply_parser(ReplyFormat format, const Tokenizer* tokenizer = nullptr,
                                               CallFormat calls = CallFormat::none, TextArguments is_text = {});

// Ids into a parser: text in whole characters, its markup by token; other control tokens are left out.
class ReplyStream {
 public:
  // Both must outlive this.
  ReplyStream(const Tokenizer& tokenizer, ReplyParser& parser)
      : tokenizer_(&tokenizer), parser_(&parser), decoder_(tokenizer) {}
  // Also the token that ended the generation, where there is one: it says how a message ended.
  std::vector<ReplyDelta> feed(int32_t id);
  std::vector<ReplyDelta> finish();

 private:
  const Tokenizer* tokenizer_;
  ReplyParser* parser_;
  StreamDecoder decoder_;
};

}  // namespace quern::token
