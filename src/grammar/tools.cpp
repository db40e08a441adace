// Tool calls: one of several functions in a family's form, at once or after free text.
#include <new>
#include <set>

#include "grammar/free_text.h"
#include "grammar/grammar.h"
#include "grammar/schema_compile.h"

namespace quern::grammar {
namespace {

constexpr size_t kMaxTriggerBytes = 4096;

Error wrong(const std::string& what) {
  return Error{Status::invalid_argument, what};
}

Result<void> check_pieces(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    for (const char c : piece.text) {
      if (static_cast<uint8_t>(c) >= kMarkerClose) return wrong("a piece of a call's form is not UTF-8");
    }
    if (piece.marker && piece.text.empty()) return wrong("a token of a call's form has no name");
  }
  return {};
}

// Blocks of free text.
void add_blocks(NetworkBuilder& b, const Lead& lead, int32_t from, int32_t to) {
  const int32_t block = b.add_rule("block"), rest = b.add_rule("rest of a block"), line = b.add_rule("line break");
  const int32_t nowhere = b.add_state(), found = b.add_state(), closed = b.add_state(), opened = b.add_state();
  add_free_text(b, b.start(rest), nowhere, found, triggers_of(lead.close[0]), false);
  add_pieces(b, found, closed, std::span(lead.close).subspan(1));
  b.literal(b.start(line), b.end(line), "\n");
  b.repeat(closed, b.end(rest), line, 0, lead.max_breaks);
  for (const auto& open : lead.open) add_pieces(b, b.start(block), opened, open);
  b.call(opened, b.end(block), rest);
  int32_t at = from;
  if (lead.inside) b.call(from, at = b.add_state(), rest);
  b.repeat(at, to, block, 0, lead.max_blocks);
}

class ToolCompiler {
 public:
  ToolCompiler(const CallForm& form, const ToolOptions& options) : form_(form), options_(options) {}

  Result<std::shared_ptr<const Network>> run(std::span<const Function> functions) {
    QUERN_TRY_VOID(check(functions));
    const int32_t root = b_.add_rule("tool calls"), call = b_.add_rule("call"),
                  rest = b_.add_rule("call after its trigger");
    const int32_t named = b_.add_state();
    const bool automatic = options_.mode == CallMode::automatic;
    add_pieces(b_, b_.start(rest), named, std::span(form_.before_name).subspan(automatic ? 1 : 0));
    for (const Function& function : functions) QUERN_TRY_VOID(add_function(named, b_.end(rest), function));
    const int32_t begun = b_.add_state();
    add_pieces(b_, b_.start(call), begun, std::span(form_.before_name).first(automatic ? 1 : 0));
    b_.call(begun, b_.end(call), rest);
    const int32_t next_call = b_.add_rule("next call"), separated = b_.add_state();
    add_pieces(b_, b_.start(next_call), separated, form_.between);
    b_.call(separated, b_.end(next_call), call);
    const uint32_t max = options_.max_calls == 0 || options_.max_calls >= kUnbounded
                             ? kUnbounded
                             : static_cast<uint32_t>(options_.max_calls);
    const uint32_t more = max == kUnbounded ? kUnbounded : max - 1;
    const int32_t from = b_.start(root), to = b_.end(root);
    const auto triggers = automatic ? triggers_of(form_.before_name[0]) : std::vector<std::string>();
    std::vector<std::string> not_first;
    for (const Piece& piece : options_.not_first) {
      for (std::string& text : triggers_of(piece)) not_first.push_back(std::move(text));
    }
    if (!automatic) {
      const int32_t first = b_.add_state();
      b_.call(from, first, call);
      b_.repeat(first, to, next_call, 0, more);
    } else if (!options_.text_between) {
      const int32_t found = b_.add_state(), first = b_.add_state();
      add_free_text(b_, from, to, found, triggers, true, not_first);
      b_.call(found, first, rest);
      b_.repeat(first, to, next_call, 0, more);
    } else {
      const int32_t round = b_.add_rule("text and a call"), found = b_.add_state(), nowhere = b_.add_state();
      add_free_text(b_, b_.start(round), nowhere, found, triggers, true);
      b_.call(found, b_.end(round), rest);
      const int32_t first = b_.add_state(), called = b_.add_state(), last = b_.add_state();
      add_free_text(b_, from, to, first, triggers, true, not_first);
      b_.call(first, called, rest);
      b_.repeat(called, last, round, 0, more);
      add_free_text(b_, last, to, nowhere, triggers, true);
    }
    return b_.finish(root, needed_);
  }

 private:
  Result<void> check(std::span<const Function> functions) const {
    if (functions.empty()) return wrong("there is no function to call");
    if (options_.mode == CallMode::automatic) {
      const bool has_trigger = !form_.before_name.empty() && !form_.before_name[0].text.empty();
      if (!has_trigger) return wrong("a call's form has nothing at its beginning that could show that a call comes");
      if (form_.before_name[0].text.size() > kMaxTriggerBytes)
        return wrong("the beginning of a call's form is too long");
    }
    for (const Piece& piece : options_.not_first) {
      if (piece.text.empty()) return wrong("what a text must not begin with is empty");
    }
    for (const auto* part :
         {&form_.before_name, &form_.before_arguments, &form_.after, &form_.between, &options_.not_first}) {
      QUERN_TRY_VOID(check_pieces(*part));
    }
    if (form_.tags) {
      const ArgumentTags& tags = *form_.tags;
      for (const auto* part : {&tags.before_key, &tags.before_value, &tags.behind_json, &tags.end}) {
        QUERN_TRY_VOID(check_pieces(*part));
      }
      if (tags.end.empty() || tags.end[0].text.empty()) return wrong("an argument's end is empty");
    }
    std::set<std::string> names;
    for (const Function& function : functions) {
      const std::string& name = function.name;
      for (size_t at = 0; at < name.size();) {
        const int32_t code = next_code_point(name, &at);
        if (code <= ' ' || code == '"' || code == '\\' || code == 127)
          return wrong("a function's name may not have spaces, quotes or control characters");
      }
      if (name.empty() || name.size() > 256) return wrong("a function's name must have 1 to 256 bytes");
      if (!names.insert(name).second) return wrong("two functions have the name '" + name + "'");
    }
    return {};
  }

  Result<void> add_function(int32_t from, int32_t to, const Function& function) {
    const auto named = [&](const Error& error) {
      return Error{error.status, "function '" + function.name + "': " + error.message};
    };
    auto document = SchemaDocument::parse(function.parameters.empty() ? R"({"type":"object"})" : function.parameters);
    if (!document.ok()) return named(document.error());
    SchemaOptions options = options_.schema;
    options.in_tags = form_.tags.has_value();
    SchemaCompiler compiler(b_, *document, options);
    auto arguments = form_.tags ? compiler.compile_tagged(*form_.tags) : compiler.compile(true);
    if (!arguments.ok()) return named(arguments.error());
    b_.set_name(*arguments, "arguments of function " + function.name);
    needed_.push_back(*arguments);
    const int32_t begin = b_.add_state(), end = b_.add_state(), before = b_.add_state();
    b_.literal(from, begin, function.name);
    add_pieces(b_, begin, before, form_.before_arguments);
    b_.call(before, end, *arguments);
    add_pieces(b_, end, to, form_.after);
    return {};
  }

  const CallForm& form_;
  const ToolOptions& options_;
  NetworkBuilder b_;
  std::vector<int32_t> needed_;
};

Error no_memory() {
  return Error{Status::out_of_memory, "no memory to compile a grammar"};
}

}  // namespace

Result<Grammar> Grammar::from_tools(std::span<const Function> functions, const CallForm& form,
                                    const ToolOptions& options) {
  try {
    QUERN_TRY(auto network, ToolCompiler(form, options).run(functions));
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<Grammar> Grammar::after_trigger(std::span<const Piece> triggers, const Grammar& grammar) {
  try {
    QUERN_TRY_VOID(check_pieces(triggers));
    std::vector<std::string> texts;
    size_t bytes = 0;
    for (const Piece& trigger : triggers) {
      if (trigger.text.empty()) return wrong("a trigger is empty");
      bytes += trigger.text.size();
      for (std::string& text : triggers_of(trigger)) texts.push_back(std::move(text));
    }
    if (texts.empty()) return wrong("a lazy grammar needs a trigger");
    if (bytes > kMaxTriggerBytes) return Error{Status::limit_exceeded, "triggers of more than 4096 bytes"};
    NetworkBuilder builder;
    const int32_t root = builder.add_rule("text, then a grammar"), found = builder.add_state();
    add_free_text(builder, builder.start(root), builder.end(root), found, texts, true);
    builder.call(found, builder.end(root), builder.embed(*grammar.network()));
    QUERN_TRY(auto network, builder.finish(root));
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<Grammar> Grammar::after_lead(const Lead& lead, const Grammar& grammar) {
  try {
    for (const auto* part : {&lead.close, &lead.then}) QUERN_TRY_VOID(check_pieces(*part));
    for (const auto& open : lead.open) QUERN_TRY_VOID(check_pieces(open));
    const bool blocks = !lead.open.empty() && !lead.close.empty();
    if (!blocks && (!lead.open.empty() || !lead.close.empty())) return wrong("a block needs both of its ends");
    if (blocks && lead.close[0].text.empty()) return wrong("a block's end is empty");
    if (!blocks && lead.then.empty()) return grammar;
    NetworkBuilder b;
    const int32_t root = b.add_rule("a lead, then a grammar"), before = b.add_state();
    if (blocks) {
      add_blocks(b, lead, b.start(root), before);
    } else {
      b.empty(b.start(root), before);
    }
    const int32_t begun = b.add_state();
    add_pieces(b, before, begun, lead.then);
    b.call(begun, b.end(root), b.embed(*grammar.network()));
    QUERN_TRY(auto network, b.finish(root));
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<Grammar> Grammar::any_of(std::span<const Grammar> grammars) {
  if (grammars.size() == 1) return grammars.front();
  try {
    NetworkBuilder b;
    const int32_t root = b.add_rule("one of several grammars");
    for (const Grammar& grammar : grammars) b.call(b.start(root), b.end(root), b.embed(*grammar.network()));
    QUERN_TRY(auto network, b.finish(root));
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

}  // namespace quern::grammar
