// Networks that read characters and patterns. Recursion follows a pattern's nesting, which its parser bounds.
#include "grammar/text_emit.h"

#include <string>

namespace quern::grammar {
namespace {

const CodeSet kJsonPlain = CodeSet{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kMaxCodePoint}};
const CodeSet kPlainInTags = kJsonPlain.without(CodeSet::one('<'));

std::string json_escape(uint32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\f':
      return "\\f";
    case '\r':
      return "\\r";
    default:
      break;
  }
  static constexpr char kHex[] = "0123456789abcdef";
  return std::string("\\u00") + kHex[code >> 4] + kHex[code & 15];
}

}  // namespace

const CodeSet& json_plain(Spelling spelling) {
  return spelling == Spelling::json_in_tags ? kPlainInTags : kJsonPlain;
}

int32_t add_json_char_rule(NetworkBuilder& b, Spelling spelling) {
  const int32_t rule = b.add_rule("JSON character");
  const int32_t from = b.start(rule), to = b.end(rule);
  b.code_points(from, to, json_plain(spelling));
  const auto bytes = [](std::string_view chars) {
    ByteSet set;
    for (const char c : chars) set.set(static_cast<uint8_t>(c));
    return set;
  };
  const ByteSet hex = bytes("0123456789abcdefABCDEF");
  // States of `\`, and of `\u` after so many digits; the second half of a pair comes after the first.
  const auto hex_tail = [&](int digits) {
    int32_t at = to;
    for (int i = 0; i < digits; ++i) {
      const int32_t before = b.add_state();
      b.bytes(before, at, hex);
      at = before;
    }
    return at;
  };
  const int32_t escape = b.add_state(), unicode = b.add_state(), after_d = b.add_state();
  b.literal(from, escape, "\\");
  b.bytes(escape, to, bytes("\"\\/bfnrt"));
  b.literal(escape, unicode, "u");
  b.bytes(unicode, hex_tail(3), bytes("0123456789abcefABCEF"));
  b.bytes(unicode, after_d, bytes("dD"));
  b.bytes(after_d, hex_tail(2), bytes("01234567"));
  const int32_t high2 = b.add_state(), high3 = b.add_state(), pair = b.add_state(), low = b.add_state(),
                low_d = b.add_state();
  b.bytes(after_d, high2, bytes("89abAB"));
  b.bytes(high2, high3, hex);
  b.bytes(high3, pair, hex);
  b.literal(pair, low, "\\u");
  b.bytes(low, low_d, bytes("dD"));
  b.bytes(low_d, hex_tail(2), bytes("cdefCDEF"));
  return rule;
}

void TextEmitter::inline_set(int32_t from, int32_t to, const CodeSet& set) {
  if (spelling_ == Spelling::plain) return builder_.code_points(from, to, set);
  const CodeSet& plain = json_plain(spelling_);
  builder_.code_points(from, to, set.common(plain));
  const CodeSet escaped = set.without(plain);
  for (const CodeRange& range : escaped.ranges()) {
    for (uint32_t code = range.first; code <= range.last; ++code) builder_.literal(from, to, json_escape(code));
  }
}

int32_t TextEmitter::set_rule(const CodeSet& set) {
  const auto found = set_rules_.find(set);
  if (found != set_rules_.end()) return found->second;
  const int32_t rule = builder_.add_rule("character");
  inline_set(builder_.start(rule), builder_.end(rule), set);
  set_rules_[set] = rule;
  return rule;
}

void TextEmitter::set(int32_t from, int32_t to, const CodeSet& set) {
  const bool small = set.empty() || set.ranges().back().last < 0x80;
  if (small) return inline_set(from, to, set);
  builder_.call(from, to, set_rule(set));
}

void TextEmitter::regex(int32_t from, int32_t to, const Regex& regex) {
  for (const RegexBranch& branch : regex.branches) {
    int32_t in = from, out = to;
    if (branch.open_left) {
      in = builder_.add_state();
      builder_.repeat(from, in, set_rule(CodeSet::all()), 0, kUnbounded);
    }
    if (branch.open_right) {
      out = builder_.add_state();
      builder_.repeat(out, to, set_rule(CodeSet::all()), 0, kUnbounded);
    }
    node(regex, branch.node, in, out);
  }
}

void TextEmitter::node(const Regex& regex, int32_t id, int32_t from, int32_t to) {
  const RegexNode& n = regex.nodes[static_cast<size_t>(id)];
  switch (n.kind) {
    case RegexNode::Kind::set:
      return set(from, to, n.set);
    case RegexNode::Kind::sequence:
      for (size_t i = 0; i + 1 < n.children.size(); ++i) {
        const int32_t next = builder_.add_state();
        node(regex, n.children[i], from, next);
        from = next;
      }
      return n.children.empty() ? builder_.empty(from, to) : node(regex, n.children.back(), from, to);
    case RegexNode::Kind::alternatives:
      for (const int32_t child : n.children) node(regex, child, from, to);
      return;
    case RegexNode::Kind::repeat: {
      const RegexNode& body = regex.nodes[static_cast<size_t>(n.children[0])];
      if (n.min == 0 && n.max == 1) {
        builder_.empty(from, to);
        return node(regex, n.children[0], from, to);
      }
      if (body.kind == RegexNode::Kind::set) return builder_.repeat(from, to, set_rule(body.set), n.min, n.max);
      const int32_t rule = builder_.add_rule("part of a pattern");
      node(regex, n.children[0], builder_.start(rule), builder_.end(rule));
      return builder_.repeat(from, to, rule, n.min, n.max);
    }
  }
}

void TextEmitter::dfa(int32_t from, int32_t to, const Dfa& dfa) {
  const size_t n = dfa.cuts.size();
  std::vector<int32_t> states(dfa.size());
  for (int32_t& state : states) state = builder_.add_state();
  if (!dfa.empty()) builder_.empty(from, states[0]);
  for (size_t s = 0; s < dfa.size(); ++s) {
    if (dfa.accept[s]) builder_.empty(states[s], to);
    std::map<int32_t, CodeSet> sets;
    for (size_t i = 0; i < n; ++i) {
      const int32_t target = dfa.next[s * n + i];
      if (target >= 0) sets[target].add(dfa.symbol(i));
    }
    for (const auto& [target, symbols] : sets) set(states[s], states[static_cast<size_t>(target)], symbols);
  }
}

}  // namespace quern::grammar
