// Tool calls: one of several functions in a family's form, at once or after free text. Free text is every text without
// a trigger: the automaton of Aho and Corasick over the triggers' bytes, so that a token may end inside one.
#include <array>
#include <map>
#include <new>
#include <set>

#include "grammar/grammar.h"
#include "grammar/schema_compile.h"
#include "token/reply.h"

namespace quern::grammar {
namespace {

constexpr size_t kMaxTriggerBytes = 4096;

Error wrong(const std::string& what) {
  return Error{Status::invalid_argument, what};
}

std::string spelled(const Piece& piece) {
  if (!piece.marker) return piece.text;
  return static_cast<char>(kMarkerOpen) + piece.text + static_cast<char>(kMarkerClose);
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

struct TextNode {
  std::array<int32_t, 256> next;
  size_t fail = 0;
  bool found = false;
};

std::vector<TextNode> tree_of(const std::vector<std::string>& texts) {
  TextNode blank;
  blank.next.fill(-1);
  std::vector<TextNode> nodes{blank};
  for (const std::string& text : texts) {
    size_t at = 0;
    for (const char c : text) {
      const int32_t next = nodes[at].next[static_cast<uint8_t>(c)];
      if (next < 0) {
        nodes[at].next[static_cast<uint8_t>(c)] = static_cast<int32_t>(nodes.size());
        at = nodes.size();
        nodes.push_back(blank);
      } else {
        at = static_cast<size_t>(next);
      }
    }
    nodes[at].found = true;
  }
  return nodes;
}

// From `from`: text without a trigger ends in `ends`, text up to and with one in `found`. not_first: what it does not
// begin with, white space aside. any_token: also control tokens.
void add_free_text(NetworkBuilder& b, int32_t from, int32_t ends, int32_t found,
                   const std::vector<std::string>& triggers, bool any_token,
                   const std::vector<std::string>& not_first = {}) {
  std::vector<TextNode> nodes = tree_of(triggers);
  std::vector<size_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t c = 0; c < 256; ++c) {
      const size_t at = order[i];
      const int32_t child = nodes[at].next[c];
      const int32_t other = at == 0 ? 0 : nodes[nodes[at].fail].next[c];
      if (child < 0) {
        nodes[at].next[c] = other;
        continue;
      }
      TextNode& node = nodes[static_cast<size_t>(child)];
      node.fail = static_cast<size_t>(other);
      node.found = node.found || nodes[node.fail].found;
      order.push_back(static_cast<size_t>(child));
    }
  }
  std::vector<int32_t> states(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) states[i] = nodes[i].found ? found : b.add_state();
  // target(byte, where its triggers lead): the state behind it, or -1.
  const auto add_bytes = [&](int32_t state, size_t node, const auto& target) {
    b.empty(state, ends);
    std::map<int32_t, ByteSet> sets;
    for (size_t c = 0; c < 256; ++c) {
      const auto next = static_cast<size_t>(nodes[node].next[c]);
      const int32_t to = any_token || c < kMarkerClose || next != 0 ? target(static_cast<uint8_t>(c), next) : -1;
      if (to >= 0) sets[to].set(c);
    }
    for (const auto& [to, set] : sets) b.bytes(state, to, set);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].found) add_bytes(states[i], i, [&](uint8_t, size_t next) { return states[next]; });
  }
  if (not_first.empty()) return b.empty(from, states[0]);
  // The beginning: places in the tree of not_first, beside those among the triggers.
  const std::vector<TextNode> heads = tree_of(not_first);
  std::map<std::pair<size_t, size_t>, int32_t> known{{{0, 0}, from}};
  std::vector<std::pair<size_t, size_t>> work{{0, 0}};
  while (!work.empty()) {
    const auto [head, node] = work.back();
    work.pop_back();
    add_bytes(known.at({head, node}), node, [&, head = head](uint8_t c, size_t next) {
      const int32_t child = heads[head].next[c];
      const bool blank = head == 0 && token::kWhiteSpace.find(static_cast<char>(c)) != std::string_view::npos;
      if (nodes[next].found || (child < 0 && !blank)) return states[next];
      const size_t deeper = child < 0 ? 0 : static_cast<size_t>(child);
      if (heads[deeper].found) return -1;
      const auto [it, is_new] = known.try_emplace({deeper, next}, 0);
      if (is_new) {
        it->second = b.add_state();
        work.emplace_back(deeper, next);
      }
      return it->second;
    });
  }
}

void add_pieces(NetworkBuilder& b, int32_t from, int32_t to, std::span<const Piece> list) {
  std::string text;
  for (const Piece& piece : list) text += spelled(piece);
  b.literal(from, to, text);
}

// What shows that free text ends: of a token that is also text either, so that its text does not lead past it.
std::vector<std::string> triggers_of(const Piece& piece) {
  if (!piece.marker || !piece.both) return {spelled(piece)};
  return {spelled(piece), piece.text};
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
    auto arguments = SchemaCompiler(b_, *document, options_.schema).compile(true);
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
