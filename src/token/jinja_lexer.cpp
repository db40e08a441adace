// The lexer. Outside tags it looks for the next `{%`, `{{` or `{#`; inside it reads names, numbers, strings, operators
// until the closing mark, which counts only when brackets are balanced (so `{{ {"a": {}}}}` works).
#include "token/jinja_lexer.h"

#include <charconv>
#include <utility>

#include "token/jinja_text.h"

namespace quern::token::jinja {
namespace {

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (pos_ < source_.size()) QUERN_TRY_VOID(text_until_tag());
    push(TokenKind::eof);
    return std::move(tokens_);
  }

 private:
  Error error(const std::string& what) const {
    return Error{Status::invalid_file, "template line " + std::to_string(line_) + ": " + what};
  }
  bool at(std::string_view what) const { return source_.compare(pos_, what.size(), what) == 0; }
  void push(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }
  void advance(size_t to) {
    for (; pos_ < to; ++pos_) line_ += source_[pos_] == '\n' ? 1 : 0;
  }
  size_t skip_space(size_t pos) const {
    size_t length = 0;
    while (pos < source_.size() && is_space(decode_at(source_, pos, &length))) pos += length;
    return pos;
  }

  // Emits source_[pos_, tag) as data, less the white space that the tag's sign takes away.
  void emit_data(size_t tag, char sign, bool is_variable) {
    const std::string_view text = std::string_view(source_).substr(pos_, tag - pos_);
    size_t end = text.size();
    if (sign == '-') {
      while (end > 0) {
        const size_t before = previous_char(text, end);
        size_t length = 0;
        if (!is_space(decode_at(text, before, &length))) break;
        end = before;
      }
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || line_starting_) && skip_space(pos_ + line_begin) >= tag) end = line_begin;
    }
    if (end > 0) push(TokenKind::data, std::string(text.substr(0, end)));
    advance(tag);
  }

  Result<void> text_until_tag() {
    size_t tag = pos_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        push(TokenKind::data, source_.substr(pos_));
        advance(source_.size());
        return {};
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    size_t after = tag + 2;
    char sign = 0;
    if (after < source_.size() && (source_[after] == '-' || source_[after] == '+')) sign = source_[after++];
    emit_data(tag, sign, kind == '{');
    if (kind == '#') return comment(after);
    if (kind == '%') {
      const size_t raw_end = raw_begin_end(after);
      if (raw_end != std::string::npos) return raw(raw_end);
    }
    push(kind == '%' ? TokenKind::block_begin : TokenKind::variable_begin);
    advance(after);
    return tag_tokens(kind == '%');
  }

  // The position behind a closing mark at pos (`-%}` with the white space after it, `%}` with one newline), or npos.
  size_t close_end(size_t pos, std::string_view mark, bool plus, bool trim) const {
    if (source_.compare(pos, mark.size(), mark) == 0) {
      const size_t end = pos + mark.size();
      return trim && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
    }
    if (pos < source_.size() && source_.compare(pos + 1, mark.size(), mark) == 0) {
      if (source_[pos] == '-') return skip_space(pos + 1 + mark.size());
      if (source_[pos] == '+' && plus) return pos + 1 + mark.size();
    }
    return std::string::npos;
  }

  Result<void> comment(size_t begin) {
    const size_t mark = source_.find("#}", begin);
    if (mark == std::string::npos) return error("a comment has no end");
    const bool has_sign = mark > begin && (source_[mark - 1] == '-' || source_[mark - 1] == '+');
    finish_tag(close_end(has_sign ? mark - 1 : mark, "#}", true, true));
    return {};
  }

  void finish_tag(size_t end) {
    line_starting_ = source_[end - 1] == '\n';
    advance(end);
  }

  size_t raw_begin_end(size_t after) const {
    const size_t word = skip_space(after);
    if (source_.compare(word, 3, "raw") != 0) return std::string::npos;
    return close_end(skip_space(word + 3), "%}", false, false);
  }

  Result<void> raw(size_t begin) {
    finish_tag(begin);
    for (size_t tag = source_.find("{%", begin); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      size_t after = tag + 2;
      char sign = 0;
      if (after < source_.size() && (source_[after] == '-' || source_[after] == '+')) sign = source_[after++];
      const size_t word = skip_space(after);
      if (source_.compare(word, 6, "endraw") != 0) continue;
      const size_t end = close_end(skip_space(word + 6), "%}", true, true);
      if (end == std::string::npos) continue;
      emit_data(tag, sign, false);
      finish_tag(end);
      return {};
    }
    return error("a raw block has no end");
  }

  Result<void> tag_tokens(bool is_block) {
    std::string brackets;
    while (pos_ < source_.size()) {
      if (brackets.empty()) {
        const size_t end = is_block ? close_end(pos_, "%}", true, true) : close_end(pos_, "}}", false, false);
        if (end != std::string::npos) {
          push(is_block ? TokenKind::block_end : TokenKind::variable_end);
          finish_tag(end);
          return {};
        }
      }
      const size_t space_end = skip_space(pos_);
      if (space_end > pos_) {
        advance(space_end);
        continue;
      }
      size_t length = 0;
      const uint32_t c = decode_at(source_, pos_, &length);
      if (c >= '0' && c <= '9') {
        QUERN_TRY_VOID(number());
      } else if (is_word(c)) {
        name();
      } else if (c == '\'' || c == '"') {
        QUERN_TRY_VOID(string());
      } else {
        QUERN_TRY_VOID(operator_token(brackets));
      }
    }
    return {};  // the parser reports the missing end with what it expected
  }

  void name() {
    size_t end = pos_;
    size_t length = 0;
    while (end < source_.size() && is_word(decode_at(source_, end, &length))) end += length;
    push(TokenKind::name, source_.substr(pos_, end - pos_));
    advance(end);
  }

  Result<void> operator_token(std::string& brackets) {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!at(two)) continue;
      push(TokenKind::op, std::string(two));
      advance(pos_ + 2);
      return {};
    }
    const char c = source_[pos_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      return error(std::string("unexpected character '") + c + "' in a tag");
    }
    if (c == '(') brackets.push_back(')');
    if (c == '[') brackets.push_back(']');
    if (c == '{') brackets.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) return error(std::string("unexpected '") + c + "'");
      brackets.pop_back();
    }
    push(TokenKind::op, std::string(1, c));
    advance(pos_ + 1);
    return {};
  }

  // The end of digits of `base` from pos, with single underscores between them.
  size_t digits_end(size_t pos, int base) const {
    const auto is_base_digit = [base](char c) {
      const int value = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : 99;
      return value < base;
    };
    size_t end = pos;
    while (end < source_.size()) {
      const size_t digit = source_[end] == '_' && end > pos ? end + 1 : end;
      if (digit >= source_.size() || !is_base_digit(source_[digit])) break;
      end = digit + 1;
    }
    return end;
  }

  // The end of a float literal at pos_, or pos_ where there is none.
  size_t float_end() const {
    if (pos_ > 0 && source_[pos_ - 1] == '.') return pos_;
    size_t end = digits_end(pos_, 10);
    bool is_float = false;
    if (end < source_.size() && source_[end] == '.') {
      const size_t fraction = digits_end(end + 1, 10);
      is_float = fraction > end + 1;
      if (is_float) end = fraction;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      const size_t exponent_end = digits_end(exponent, 10);
      if (exponent_end > exponent) return exponent_end;
    }
    return is_float ? end : pos_;
  }

  Result<void> number() {
    Token token;
    token.line = line_;
    size_t end = float_end();
    int base = 10;
    size_t digits = pos_;
    if (end > pos_) {
      token.kind = TokenKind::floating;
    } else {
      token.kind = TokenKind::integer;
      const char mark = source_[pos_] == '0' && pos_ + 1 < source_.size() ? source_[pos_ + 1] : '\0';
      base = mark == 'x' || mark == 'X' ? 16 : mark == 'o' || mark == 'O' ? 8 : mark == 'b' || mark == 'B' ? 2 : 10;
      if (base != 10) {
        digits = pos_ + 2;
        if (digits < source_.size() && source_[digits] == '_') ++digits;
        end = digits_end(digits, base);
      }
      if (end <= digits) {  // also "0x" without digits, which reads as 0 and a name
        base = 10;
        digits = pos_;
        end = source_[pos_] == '0' ? digits_end(pos_, 1) : digits_end(pos_, 10);
      }
    }
    for (const char c : std::string_view(source_).substr(digits, end - digits)) {
      if (c != '_') token.text.push_back(c);
    }
    const char* first = token.text.data();
    const char* last = first + token.text.size();
    if (token.kind == TokenKind::floating) {
      const auto parsed = std::from_chars(first, last, token.number);
      if (parsed.ec == std::errc::result_out_of_range) return error("the number " + token.text + " is out of range");
    } else if (std::from_chars(first, last, token.integer, base).ec != std::errc()) {
      return error("the integer " + token.text + " does not fit 64 bits");
    }
    tokens_.push_back(std::move(token));
    advance(end);
    return {};
  }

  Result<void> string() {
    const char quote = source_[pos_];
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return error("a string has no end");
    std::string text;
    for (size_t i = pos_ + 1; i < end;) {
      if (source_[i] != '\\') {
        text.push_back(source_[i++]);
      } else {
        QUERN_TRY(i, escape(i + 1, end, text));
      }
    }
    push(TokenKind::string, std::move(text));
    advance(end + 1);
    return {};
  }

  // One escape, as Python reads it; i is behind the backslash. Returns the position behind the escape.
  Result<size_t> escape(size_t i, size_t end, std::string& out) const {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = source_[i];
    if (c == '\n') return i + 1;
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      out.push_back(kTo[known]);
      return i + 1;
    }
    size_t begin = i + 1;
    size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t value = 0;
    if (width > 0) {
      if (begin + width > end) return error("a string has an incomplete escape");
      const char* first = source_.data() + begin;
      const auto parsed = std::from_chars(first, first + width, value, 16);
      if (parsed.ec != std::errc() || parsed.ptr != first + width) return error("a string has a malformed escape");
    } else if (c >= '0' && c <= '7') {
      begin = i;
      while (width < 3 && begin + width < end && source_[begin + width] >= '0' && source_[begin + width] <= '7') {
        value = value * 8 + static_cast<uint32_t>(source_[begin + width++] - '0');
      }
    } else if (c == 'N') {
      return error("\\N escapes in strings are not supported");
    } else {
      out.push_back('\\');
      if (static_cast<unsigned char>(c) < 0x80) {
        out.push_back(c);
        return i + 1;
      }
      return unknown_escape(i, out);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return error("a string escape is not a character");
    append_utf8(out, value);
    return begin + width;
  }

  // A backslash before a character beyond ASCII: Python spells the character out (`\xe9`).
  size_t unknown_escape(size_t i, std::string& out) const {
    static constexpr char kHex[] = "0123456789abcdef";
    size_t length = 0;
    const uint32_t c = decode_at(source_, i, &length);
    const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    out.push_back(digits == 2 ? 'x' : digits == 4 ? 'u' : 'U');
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out.push_back(kHex[(c >> shift) & 15]);
    return i + length;
  }

  std::string source_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // the last tag took a newline with it, so the text begins a line
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace quern::token::jinja
