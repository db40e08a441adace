// A Jinja interpreter for chat templates. It renders what Python's jinja2 renders in the environment that Hugging Face
// transformers sets up: immutable sandbox, trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes,
// raise_exception, strftime_now, {% generation %}.
//
// Owns: template text -> tree -> rendered text, with the bytes that came from input marked; its limits.
// Never: what a chat message is (chat.h); files, clocks, the environment.
// In -> out: template text + JSON variables -> text + content spans, or an Error that names the template line.
//
// Known differences from Python: integers are 64-bit and arithmetic beyond that is an error; what Python prints with an
// address prints without; {% block %}, {% include %}, {% import %}, {% extends %}, {% autoescape %} and the filters
// random, pprint, urlize, wordwrap, xmlattr are unsupported; map, select and their like run at once, not lazily; a loop
// or block that reads a variable of the request sees it even where the template sets that name further down.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "token/jinja_ast.h"
#include "token/jinja_parser.h"
#include "token/text_span.h"

namespace quern::token::jinja {

// What a template wrote, and the sorted, disjoint ranges of it that were copied from content variables.
struct Rendered {
  std::string text;
  std::vector<TextSpan> content;
};

// A variable of the template. Strings in it (keys too, at any depth) count as content unless `is_content` is false;
// then they are as good as the template's own text.
struct Variable {
  std::string_view name;
  const nlohmann::ordered_json* value = nullptr;
  bool is_content = true;
};

struct RenderOptions {
  // One unit per evaluated node, loop step, list item and 16 bytes of text made; a long chat takes about 100,000.
  uint64_t fuel = 10'000'000;
  size_t max_output_bytes = size_t{64} << 20;
  size_t max_memory_bytes = size_t{512} << 20;  // of values made while rendering
  uint32_t max_depth = 1000;                    // of nested evaluation: expressions, statements, macro calls
  static constexpr int kMaxInputDepth = 200;    // nesting of JSON variables
  std::function<std::tm()> now;                 // local time for strftime_now; without it that call is an error
  // {key, value} pairs of content that are vocabulary and not text: {"role", "user"} makes that string markup.
  std::span<const std::pair<std::string_view, std::string_view>> vocabulary;
};

// A parsed template: immutable, and safe to render from several threads at once.
class Template {
 public:
  static Result<Template> parse(std::string_view source, const ParseLimits& limits = {});
  // A failure of the template's own raise_exception(message) has exactly that message and Status::invalid_argument.
  Result<Rendered> render(std::span<const Variable> variables, const RenderOptions& options = {}) const;
  // Does the template mention this variable?
  bool mentions(std::string_view name) const;

 private:
  Tree tree_;
};

}  // namespace quern::token::jinja
