// grammar: what a model may say. JSON Schemas, GBNF grammars and forms of tool calls become one automaton over bytes,
// and that becomes masks over a vocabulary.
//
// Owns: Grammar (compiled, of no vocabulary), Vocabulary (tokens as bytes, vocabulary.h), Constraint and Matcher
//       (matcher.h: masks, accepting, rolling back, forced text).
// Never: logits, models, what a request looks like.
// In -> out: schema or grammar text -> Grammar; Grammar and Vocabulary -> which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern::grammar {

struct Network;

// White space between the tokens of JSON (docs/GRAMMARS.md).
enum class JsonSpace : uint8_t {
  compact,   // none
  single,    // at most one space after ':' and ','
  indented,  // that; also a line break with at most kMaxIndent spaces after '{', '[', ',' and before '}', ']'
};
inline constexpr uint32_t kMaxIndent = 40;

struct SchemaOptions {
  JsonSpace space = JsonSpace::indented;
  bool in_tags = false;  // '<' stands in strings only as \u003c, so that no tag does
};

// Text and tokens in the order in which a model writes them.
struct Piece {
  std::string text;
  bool marker = false;  // text is the name of a token (control or user-defined), and only that token will do
  bool both = false;    // of a marker: the token also stands for its text (user-defined), so free text ends with either
};

// Arguments one by one: before_key KEY before_value VALUE end. A value is JSON, then behind_json; or, where its schema
// says so (token::is_text_argument), any text in which end's first piece is not.
struct ArgumentTags {
  std::vector<Piece> before_key, before_value, behind_json, end;
};

// How a model family writes a call: before_name NAME before_arguments ARGUMENTS after.
struct CallForm {
  std::vector<Piece> before_name, before_arguments, after;
  std::vector<Piece> between;             // between two calls
  std::optional<ArgumentTags> tags = {};  // none: arguments are a JSON object
};

struct Function {
  std::string name;        // as it is written, so without quotes, control characters and markup
  std::string parameters;  // JSON Schema of the arguments; "": any object
};

enum class CallMode : uint8_t {
  required,   // calls, nothing else
  automatic,  // text until before_name's first piece appears, then what that begins; or text alone
};

struct ToolOptions {
  CallMode mode = CallMode::required;
  size_t max_calls = 1;       // 0: any number
  bool text_between = false;  // automatic: after a call text may go on, and lead to more calls
  // automatic: what the first text does not begin with, white space aside. A token that is also text counts as both.
  std::vector<Piece> not_first = {};
  SchemaOptions schema;
};

// What comes before a grammar's text: blocks of free text, as reasoning is, and words that are always the same.
struct Lead {
  // Around a block, whose text has no close[0] in it: one of the ways to open it, and its end. Both empty: no blocks.
  std::vector<std::vector<Piece>> open = {};
  std::vector<Piece> close = {};
  bool inside = false;                                // the first block is open already
  uint32_t max_blocks = 1;                            // more of them; kAnyNumber
  uint32_t max_breaks = 0;                            // line breaks behind a block
  std::vector<Piece> then = {};                       // after all blocks
  static constexpr uint32_t kAnyNumber = UINT32_MAX;  // network.h's kUnbounded
};

// Immutable; may be shared by any number of requests and threads.
class Grammar {
 public:
  static constexpr size_t kMaxText = size_t{4} << 20, kMaxDepth = 256;  // of what is compiled

  // JSON Schema 2020-12, as docs/GRAMMARS.md says. Errors name the keyword and its JSON pointer: unsupported where it
  // cannot be enforced, invalid_argument where the schema is malformed or nothing can match it, limit_exceeded.
  static Result<Grammar> from_schema(std::string_view schema, const SchemaOptions& options = {});
  // llama.cpp's notation; the rule `root` is the whole text. Errors name line and column.
  static Result<Grammar> from_gbnf(std::string_view text);
  // An ECMA-262 regular expression that the whole text, or with `search` a part of it, must match.
  static Result<Grammar> from_pattern(std::string_view pattern, bool search = false);
  // Any of functions. Errors name the function.
  static Result<Grammar> from_tools(std::span<const Function> functions, const CallForm& form,
                                    const ToolOptions& options);
  // Text that has none of the triggers; then, once one of them has appeared, what the grammar wants, and the end. Or
  // text alone.
  static Result<Grammar> after_trigger(std::span<const Piece> triggers, const Grammar& grammar);
  // The lead, then a text of the grammar.
  static Result<Grammar> after_lead(const Lead& lead, const Grammar& grammar);
  // A text of any of them; at least one.
  static Result<Grammar> any_of(std::span<const Grammar> grammars);

  const std::shared_ptr<const Network>& network() const { return network_; }

 private:
  explicit Grammar(std::shared_ptr<const Network> network) : network_(std::move(network)) {}
  std::shared_ptr<const Network> network_;
};

struct TextMatch {
  size_t n_bytes = 0;     // how many bytes can begin a text of the grammar
  bool complete = false;  // all of them, and they are a whole one
};
// Text against a grammar, without a vocabulary.
Result<TextMatch> match_text(const Grammar& grammar, std::string_view text);

}  // namespace quern::grammar
