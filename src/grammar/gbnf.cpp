// llama.cpp's grammar notation. Groups and repeated parts become rules of their own; nesting is bounded by
// Grammar::kMaxDepth, since the parser recurses once a group.
#include <map>
#include <new>

#include "grammar/grammar.h"
#include "grammar/network.h"
#include "grammar/text_emit.h"
#include "token/unicode.h"

namespace quern::grammar {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text), emitter_(builder_, Spelling::plain) {}

  Result<std::shared_ptr<const Network>> run() {
    space(true);
    while (at_ < text_.size()) {
      QUERN_TRY_VOID(rule());
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return Error{Status::invalid_argument, "the grammar has no rule 'root'"};
    for (const auto& [name, use] : rules_) {
      if (use.defined) continue;
      at_ = use.at;
      return wrong("rule '" + name + "' is not defined");
    }
    return builder_.finish(root->second.rule);
  }

 private:
  struct RuleUse {
    int32_t rule;
    size_t at;  // where it was first met
    bool defined;
  };
  // A part that may be repeated.
  struct Part {
    enum class Kind : uint8_t { text, set, rule, marker } kind = Kind::text;
    std::string text;
    CodeSet set;
    int32_t rule = 0;
  };

  std::string place() const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    return " (grammar line " + std::to_string(line) + ", column " + std::to_string(column) + ")";
  }
  Error wrong(const std::string& what) const { return Error{Status::invalid_argument, what + place()}; }

  void space(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        if (at_ >= text_.size()) return;
      }
      const bool line_end = text_[at_] == '\n' || text_[at_] == '\r';
      if (!(text_[at_] == ' ' || text_[at_] == '\t' || (lines && line_end))) return;
    }
  }
  bool eat(std::string_view s) {
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Result<std::string> name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) return wrong("expected a rule's name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  RuleUse& use(const std::string& rule_name, size_t at) {
    const auto found = rules_.find(rule_name);
    if (found != rules_.end()) return found->second;
    return rules_.emplace(rule_name, RuleUse{builder_.add_rule(rule_name), at, false}).first->second;
  }

  Result<void> rule() {
    const size_t begin = at_;
    QUERN_TRY(const std::string rule_name, name());
    RuleUse& target = use(rule_name, begin);
    if (target.defined) return wrong("rule '" + rule_name + "' is defined twice");
    target.defined = true;
    const int32_t id = target.rule;
    space(false);
    if (!eat("::=")) return wrong("expected '::=' after '" + rule_name + "'");
    space(true);
    QUERN_TRY_VOID(alternatives(id, 0));
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      return wrong("unexpected text in rule '" + rule_name + "'");
    space(true);
    return {};
  }

  Result<void> alternatives(int32_t rule, size_t depth) {
    if (depth > Grammar::kMaxDepth) {
      return Error{Status::limit_exceeded,
                   "the grammar nests more than " + std::to_string(Grammar::kMaxDepth) + " groups" + place()};
    }
    QUERN_TRY_VOID(sequence(rule, depth));
    while (eat("|")) {
      space(true);
      QUERN_TRY_VOID(sequence(rule, depth));
    }
    return {};
  }

  Result<void> sequence(int32_t rule, size_t depth) {
    int32_t from = builder_.start(rule);
    for (;;) {
      const char c = peek();
      if (c == '\0' || c == '|' || c == ')' || c == '\n' || c == '\r') break;
      QUERN_TRY(const Part parsed, part(depth));
      const int32_t to = builder_.add_state();
      QUERN_TRY_VOID(repeated(parsed, from, to, depth > 0));
      from = to;
    }
    builder_.empty(from, builder_.end(rule));
    return {};
  }

  Result<Part> part(size_t depth) {
    Part result;
    const size_t begin = at_;
    if (eat("\"")) {
      while (!eat("\"")) {
        QUERN_TRY(const uint32_t code, character());
        token::append_utf8(result.text, code);
      }
    } else if (eat("[")) {
      result.kind = Part::Kind::set;
      QUERN_TRY(result.set, char_class());
    } else if (eat(".")) {
      result.kind = Part::Kind::set;
      result.set = CodeSet::all();
    } else if (eat("(")) {
      result.kind = Part::Kind::rule;
      result.rule = builder_.add_rule("group at byte " + std::to_string(begin));
      space(true);
      QUERN_TRY_VOID(alternatives(result.rule, depth + 1));
      if (!eat(")")) return wrong("expected ')'");
    } else if (eat("!<") || eat("<[")) {
      return Error{Status::unsupported, "tokens by number or by exclusion" + place()};
    } else if (eat("<")) {
      result.kind = Part::Kind::marker;
      while (at_ < text_.size() && text_[at_] != '>' && text_[at_] != '\n') ++at_;
      if (!eat(">")) return wrong("expected '>' after a token's name");
      result.text = text_.substr(begin, at_ - begin);
    } else if (is_name(peek())) {
      QUERN_TRY(const std::string called, name());
      result.kind = Part::Kind::rule;
      result.rule = use(called, begin).rule;
    } else {
      return wrong("unexpected character");
    }
    return result;
  }

  // With what follows a part: nothing, or how often it is repeated.
  Result<void> repeated(const Part& part, int32_t from, int32_t to, bool lines) {
    space(lines);
    uint32_t min = 1, max = 1;
    bool repeats = false;
    for (;; space(lines)) {
      uint32_t low = 0, high = kUnbounded;
      if (eat("*")) {
      } else if (eat("+")) {
        low = 1;
      } else if (eat("?")) {
        high = 1;
      } else if (eat("{")) {
        QUERN_TRY_VOID(bounds(low, high));
      } else {
        break;
      }
      if (repeats) return wrong("two repetitions in a row; put the first into parentheses");
      repeats = true;
      min = low;
      max = high;
    }
    if (!repeats) return emit(part, from, to), Result<void>();
    int32_t body = part.rule;
    if (part.kind == Part::Kind::set) {
      body = emitter_.set_rule(part.set);
    } else if (part.kind != Part::Kind::rule) {
      body = builder_.add_rule("repeated text");
      emit(part, builder_.start(body), builder_.end(body));
    }
    builder_.repeat(from, to, body, min, max);
    return {};
  }

  void emit(const Part& part, int32_t from, int32_t to) {
    switch (part.kind) {
      case Part::Kind::text:
        return builder_.literal(from, to, part.text);
      case Part::Kind::set:
        return emitter_.set(from, to, part.set);
      case Part::Kind::rule:
        return builder_.call(from, to, part.rule);
      case Part::Kind::marker:
        return builder_.marker(from, to, part.text);
    }
  }

  Result<void> bounds(uint32_t& min, uint32_t& max) {
    const auto number = [&](uint32_t& value) -> Result<void> {
      const size_t begin = at_;
      uint64_t n = 0;
      for (; peek() >= '0' && peek() <= '9'; ++at_)
        n = std::min<uint64_t>(n * 10 + static_cast<uint64_t>(peek() - '0'), kUnbounded);
      if (at_ == begin) return wrong("expected a number");
      if (n >= kUnbounded) return Error{Status::limit_exceeded, "a repetition is too large" + place()};
      value = static_cast<uint32_t>(n);
      return {};
    };
    space(false);
    if (peek() != ',') QUERN_TRY_VOID(number(min));
    max = min;
    space(false);
    if (eat(",")) {
      space(false);
      max = kUnbounded;
      if (peek() != '}') QUERN_TRY_VOID(number(max));
      space(false);
    }
    if (!eat("}")) return wrong("expected '}'");
    if (max < min) return wrong("a repetition with its bounds the wrong way round");
    return {};
  }

  Result<uint32_t> character() {
    if (at_ >= text_.size()) return wrong("the grammar ends inside a literal or class");
    if (text_[at_] == '\n') return wrong("a line ends inside a literal or class");
    if (!eat("\\")) {
      const int32_t code = next_code_point(text_, &at_);
      if (code < 0) return wrong("invalid UTF-8");
      return static_cast<uint32_t>(code);
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '^':
      case '-':
        return static_cast<uint32_t>(c);
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      default:
        --at_;
        return wrong("unknown escape");
    }
  }

  Result<uint32_t> hex(int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'f';
      if (!digit && !letter) return wrong("unfinished hexadecimal escape");
      value = value * 16 + static_cast<uint64_t>(digit ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value < 0xE000)) return wrong("an escape of no character");
    return static_cast<uint32_t>(value);
  }

  Result<CodeSet> char_class() {
    const bool negated = eat("^");
    CodeSet set;
    while (!eat("]")) {
      QUERN_TRY(const uint32_t first, character());
      uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        QUERN_TRY(last, character());
      }
      if (last < first) return wrong("a range of characters the wrong way round");
      set.add(first, last);
    }
    return negated ? set.inverted() : set;
  }

  std::string_view text_;
  size_t at_ = 0;
  NetworkBuilder builder_;
  TextEmitter emitter_;
  std::map<std::string, RuleUse> rules_;
};

Error no_memory() {
  return Error{Status::out_of_memory, "no memory to compile a grammar"};
}

}  // namespace

Result<Grammar> Grammar::from_gbnf(std::string_view text) {
  if (text.size() > kMaxText) return Error{Status::limit_exceeded, "the grammar is longer than 4 MiB"};
  if (text.find('\0') != std::string_view::npos) return Error{Status::invalid_argument, "the grammar has a NUL byte"};
  try {
    QUERN_TRY(auto network, GbnfParser(text).run());
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<Grammar> Grammar::from_pattern(std::string_view pattern, bool search) {
  try {
    QUERN_TRY(Regex regex, parse_regex(pattern));
    for (RegexBranch& branch : regex.branches) {
      branch.open_left = branch.open_left && search;
      branch.open_right = branch.open_right && search;
    }
    NetworkBuilder builder;
    const int32_t root = builder.add_rule("pattern");
    TextEmitter(builder, Spelling::plain).regex(builder.start(root), builder.end(root), regex);
    QUERN_TRY(auto network, builder.finish(root));
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

}  // namespace quern::grammar
