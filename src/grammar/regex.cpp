// The parser of regular expressions. Its recursion is bounded by Regex::kMaxDepth.
#include "grammar/regex.h"

#include <algorithm>

#include "grammar/network.h"

namespace quern::grammar {
namespace {

const CodeSet kDigits = {{'0', '9'}};
const CodeSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodeSet kSpaces = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                         {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodeSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : text_(text) {}

  Result<Regex> run() {
    if (text_.size() > Regex::kMaxText) return Error{Status::limit_exceeded, "the pattern is longer than 65536 bytes"};
    for (size_t at = 0; at < text_.size();) {
      if (next_code_point(text_, &at) < 0) return wrong("is not valid UTF-8");
    }
    QUERN_TRY(const int32_t root, alternatives(0));
    if (at_ < text_.size()) return wrong("has a ')' without '('");
    QUERN_TRY_VOID(strip_anchors(root));
    return std::move(regex_);
  }

 private:
  // Marks that stand for ^ and $ in a sequence's children.
  static constexpr int32_t kBegin = -1, kEnd = -2;

  Error wrong(std::string_view what) const {
    return Error{Status::invalid_argument, "the pattern " + std::string(what) + " at byte " + std::to_string(at_)};
  }
  Error refused(std::string_view what) const {
    return Error{Status::unsupported, std::string(what) + " at byte " + std::to_string(at_) + " of the pattern"};
  }
  bool eat(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool eat(std::string_view s) {
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }
  int32_t add(RegexNode node) {
    regex_.nodes.push_back(std::move(node));
    return static_cast<int32_t>(regex_.nodes.size() - 1);
  }
  int32_t add_set(CodeSet set) { return add({RegexNode::Kind::set, std::move(set), {}, 0, 0}); }

  Result<int32_t> alternatives(size_t depth) {
    if (depth > Regex::kMaxDepth) return Error{Status::limit_exceeded, "the pattern nests more than 100 groups"};
    RegexNode node{RegexNode::Kind::alternatives, {}, {}, 0, 0};
    do {
      QUERN_TRY(const int32_t branch, sequence(depth));
      node.children.push_back(branch);
    } while (eat('|'));
    return node.children.size() == 1 ? node.children[0] : add(std::move(node));
  }

  Result<int32_t> sequence(size_t depth) {
    RegexNode node{RegexNode::Kind::sequence, {}, {}, 0, 0};
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      if (eat('^')) {
        node.children.push_back(kBegin);
      } else if (eat('$')) {
        node.children.push_back(kEnd);
      } else {
        QUERN_TRY(int32_t part, atom(depth));
        QUERN_TRY_VOID(quantifier(part));
        node.children.push_back(part);
      }
    }
    return add(std::move(node));
  }

  Result<int32_t> atom(size_t depth) {
    if (eat('(')) {
      if (text_.substr(at_, 2) == "?=" || text_.substr(at_, 2) == "?!") return refused("look-ahead");
      if (text_.substr(at_, 3) == "?<=" || text_.substr(at_, 3) == "?<!") return refused("look-behind");
      if (eat("?<")) {
        const size_t close = text_.find('>', at_);
        if (close == std::string_view::npos || close == at_) return wrong("has an unfinished group name");
        at_ = close + 1;
      } else if (!eat("?:") && text_.substr(at_, 1) == "?") {
        return wrong("has an unknown kind of group");
      }
      QUERN_TRY(const int32_t inside, alternatives(depth + 1));
      if (!eat(')')) return wrong("lacks a ')'");
      return inside;
    }
    if (eat('[')) {
      QUERN_TRY(CodeSet set, char_class());
      return add_set(std::move(set));
    }
    if (eat('.')) return add_set(kLineEnds.inverted());
    const char c = text_[at_];
    if (c == '*' || c == '+' || c == '?' || c == '{') return wrong("has a quantifier after nothing");
    if (c == ']' || c == '}') return wrong("has a lone bracket");
    if (eat('\\')) {
      QUERN_TRY(CodeSet set, escape(false));
      return add_set(std::move(set));
    }
    return add_set(CodeSet::one(static_cast<uint32_t>(next_code_point(text_, &at_))));
  }

  Result<void> quantifier(int32_t& part) {
    uint32_t min = 0, max = kUnbounded;
    if (eat('*')) {
    } else if (eat('+')) {
      min = 1;
    } else if (eat('?')) {
      max = 1;
    } else if (eat('{')) {
      QUERN_TRY(min, number());
      max = min;
      if (eat(',')) max = kUnbounded;
      if (max == kUnbounded && at_ < text_.size() && text_[at_] != '}') {
        QUERN_TRY(max, number());
      }
      if (!eat('}')) return wrong("lacks a '}'");
      if (max < min) return wrong("has a quantifier with its bounds the wrong way round");
    } else {
      return {};
    }
    eat('?');  // laziness changes which match is found, not which texts match
    if (at_ < text_.size() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?' || text_[at_] == '{')) {
      return wrong("has two quantifiers in a row");
    }
    part = add({RegexNode::Kind::repeat, {}, {part}, min, max});
    return {};
  }

  Result<uint32_t> number() {
    uint64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text_[at_] - '0'), kUnbounded);
    }
    if (at_ == begin) return wrong("has a '{' that is no quantifier");
    if (value >= kUnbounded) return Error{Status::limit_exceeded, "a quantifier of the pattern is too large"};
    return static_cast<uint32_t>(value);
  }

  Result<uint32_t> hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_value(text_[at_]) : -1;
      if (digit < 0) return wrong("has an unfinished hexadecimal escape");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  Result<uint32_t> unicode_escape() {
    if (eat('{')) {
      uint32_t value = 0;
      const size_t begin = at_;
      for (; at_ < text_.size() && hex_value(text_[at_]) >= 0 && value <= kMaxCodePoint; ++at_) {
        value = value * 16 + static_cast<uint32_t>(hex_value(text_[at_]));
      }
      if (at_ == begin || value > kMaxCodePoint || !eat('}')) return wrong("has a wrong \\u{...} escape");
      return value;
    }
    QUERN_TRY(const uint32_t high, hex(4));
    if (high < 0xD800 || high >= 0xDC00 || text_.substr(at_, 2) != "\\u") return high;
    const size_t before = at_;
    at_ += 2;
    QUERN_TRY(const uint32_t low, hex(4));
    if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((high - 0xD800) << 10 | (low - 0xDC00));
    at_ = before;
    return high;
  }

  // After a backslash.
  Result<CodeSet> escape(bool in_class) {
    if (at_ >= text_.size()) return wrong("ends in a backslash");
    const char c = text_[at_++];
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return kDigits.inverted();
      case 'w':
        return kWord;
      case 'W':
        return kWord.inverted();
      case 's':
        return kSpaces;
      case 'S':
        return kSpaces.inverted();
      case 't':
        return CodeSet::one('\t');
      case 'n':
        return CodeSet::one('\n');
      case 'v':
        return CodeSet::one('\v');
      case 'f':
        return CodeSet::one('\f');
      case 'r':
        return CodeSet::one('\r');
      case 'b':
        if (in_class) return CodeSet::one('\b');
        return refused("a word border");
      case 'B':
        return refused("a word border");
      case 'k':
        return refused("a back reference");
      case 'p':
      case 'P':
        return refused("a property class (\\p)");
      case 'c': {
        const char letter = at_ < text_.size() ? text_[at_++] : '\0';
        if ((letter | 32) < 'a' || (letter | 32) > 'z') return wrong("has a wrong \\c escape");
        return CodeSet::one(static_cast<uint32_t>(letter) & 31);
      }
      case 'x': {
        QUERN_TRY(const uint32_t code, hex(2));
        return CodeSet::one(code);
      }
      case 'u': {
        QUERN_TRY(const uint32_t code, unicode_escape());
        return CodeSet::one(code);
      }
      default:
        break;
    }
    if (c == '0' && (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9')) return CodeSet::one(0);
    if (c >= '1' && c <= '9') return refused("a back reference");
    if (std::string_view("^$\\.*+?()[]{}|/-").find(c) != std::string_view::npos) {
      return CodeSet::one(static_cast<uint32_t>(c));
    }
    --at_;
    return wrong("escapes a character that has no meaning when escaped");
  }

  Result<CodeSet> class_atom() {
    if (eat('\\')) return escape(true);
    return CodeSet::one(static_cast<uint32_t>(next_code_point(text_, &at_)));
  }

  // After '['.
  Result<CodeSet> char_class() {
    const bool negated = eat('^');
    CodeSet set;
    while (!eat(']')) {
      if (at_ >= text_.size()) return wrong("lacks a ']'");
      QUERN_TRY(const CodeSet first, class_atom());
      const bool is_range = text_.substr(at_, 1) == "-" && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        set.add(first);
        continue;
      }
      ++at_;
      QUERN_TRY(const CodeSet last, class_atom());
      const auto single = [](const CodeSet& s) {
        return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
      };
      if (!single(first) || !single(last) || first.ranges()[0].first > last.ranges()[0].first) {
        return wrong("has a wrong range in a class");
      }
      set.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    return negated ? set.inverted() : set;
  }

  bool has_anchor(int32_t node) const {
    std::vector<int32_t> work{node};
    while (!work.empty()) {
      const int32_t at = work.back();
      work.pop_back();
      if (at < 0) return true;
      for (const int32_t child : regex_.nodes[static_cast<size_t>(at)].children) work.push_back(child);
    }
    return false;
  }

  // Anchors may stand at the borders of a branch; groups that are a whole branch are looked into.
  Result<void> strip_anchors(int32_t root) {
    std::vector<RegexBranch> work{{root, true, true}};
    while (!work.empty()) {
      RegexBranch branch = work.back();
      work.pop_back();
      RegexNode node = regex_.nodes[static_cast<size_t>(branch.node)];
      if (node.kind == RegexNode::Kind::sequence) {
        auto& parts = node.children;
        while (!parts.empty() && parts.front() == kBegin) parts.erase(parts.begin()), branch.open_left = false;
        while (!parts.empty() && parts.back() == kEnd) parts.pop_back(), branch.open_right = false;
        if (parts.size() == 1 && parts[0] >= 0) {
          work.push_back({parts[0], branch.open_left, branch.open_right});
          continue;
        }
        branch.node = add(std::move(node));
      } else if (node.kind == RegexNode::Kind::alternatives && has_anchor(branch.node)) {
        for (size_t i = node.children.size(); i-- > 0;)
          work.push_back({node.children[i], branch.open_left, branch.open_right});
        continue;
      }
      if (has_anchor(branch.node)) {
        return Error{Status::unsupported, "'^' or '$' inside the pattern, not at its borders"};
      }
      regex_.branches.push_back(branch);
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  Regex regex_;
};

}  // namespace

Result<Regex> parse_regex(std::string_view pattern) {
  return RegexParser(pattern).run();
}

}  // namespace quern::grammar
