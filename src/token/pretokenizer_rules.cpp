// The scanners. A step returns what the leftmost alternative that matches would take, greedily; where a greedy run has
// to give characters back, the place is found by one look back over that run.
#include "token/pretokenizer_rules.h"

#include <algorithm>

namespace quern::token {
namespace {

constexpr uint32_t set_of(CharClass c) {
  return uint32_t{1} << static_cast<unsigned>(c);
}
constexpr uint32_t kLetters = set_of(CharClass::upper) | set_of(CharClass::lower) | set_of(CharClass::letter);
constexpr uint32_t kMarks = set_of(CharClass::mark);
constexpr uint32_t kNumbers = set_of(CharClass::number);
constexpr uint32_t kSpaces = set_of(CharClass::space);
constexpr uint32_t kUncased = set_of(CharClass::letter) | kMarks;     // in both cases' sets
constexpr uint32_t kUpperLike = set_of(CharClass::upper) | kUncased;  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr uint32_t kLowerLike = set_of(CharClass::lower) | kUncased;  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

}  // namespace

std::vector<Char> read_chars(std::string_view text) {
  std::vector<Char> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    chars.push_back({static_cast<uint32_t>(at), d.code_point, char_class(d.code_point)});
    at += d.length;
  }
  return chars;
}

bool Scanner::is(size_t at, Set set) {
  ++reads_;
  return at < end_ && (set & bit(chars_[at].char_class)) != 0;
}

bool Scanner::is_char(size_t at, uint32_t code_point) {
  ++reads_;
  return at < end_ && chars_[at].code_point == code_point;
}

size_t Scanner::run(size_t at, Set set) {
  while (is(at, set)) ++at;
  return at;
}

size_t Scanner::newlines(size_t at, bool slashes) {
  while (is_newline(at) || (slashes && is_char(at, '/'))) ++at;
  return at;
}

size_t Scanner::contraction(size_t at, bool any_case) {
  constexpr uint32_t kLongS = 0x17F;  // folds to s
  if (!is_char(at, '\'') || at + 1 >= end_) return at;
  const auto letter = [&](size_t i) -> uint32_t {
    if (i >= end_) return 0;
    const uint32_t c = chars_[i].code_point;
    if (any_case && c >= 'A' && c <= 'Z') return c + ('a' - 'A');
    return any_case && c == kLongS ? 's' : c;
  };
  const uint32_t first = letter(at + 1);
  const uint32_t second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  return first == 'l' && second == 'l' ? at + 3 : at;
}

size_t Scanner::prefixed_run(size_t at, Set letters) {
  if (!is(at, kLetters | kNumbers) && !is_newline(at) && is(at + 1, letters)) return run(at + 1, letters);
  return run(at, letters);
}

// ` ?` and characters outside `others`, then a tail of newlines; `at` where it does not match.
size_t Scanner::symbols(size_t at, Set others, bool newline_tail, bool slashes) {
  const size_t begin = is_char(at, ' ') ? at + 1 : at;
  const size_t end = run(begin, ~(others | kSpaces | kNumbers));
  if (end == begin) return at;
  return newline_tail ? newlines(end, slashes) : end;
}

// The alternatives on white space; `at` is a space, so one of them matches.
size_t Scanner::whitespace(size_t at, bool newlines_apart) {
  const size_t end = run(at, kSpaces);
  if (newlines_apart) {
    size_t last = end;
    while (last > at && !is_newline(last - 1)) --last;
    if (last > at) return last;
  }
  return end == end_ || end - at == 1 ? end : end - 1;
}

// What follows the word alternatives: numbers, symbols, white space.
size_t Scanner::rest(size_t at, size_t digits, Set words, bool slashes) {
  if (is(at, kNumbers)) {
    size_t end = at + 1;
    while (end - at < digits && is(end, kNumbers)) ++end;
    return end;
  }
  if (const size_t end = symbols(at, words, true, slashes); end != at) return end;
  return whitespace(at, true);
}

size_t Scanner::gpt2(size_t at) {
  if (const size_t end = contraction(at, false); end != at) return end;
  const size_t begin = is_char(at, ' ') ? at + 1 : at;
  if (const size_t end = run(begin, kLetters); end != begin) return end;
  if (const size_t end = run(begin, kNumbers); end != begin) return end;
  if (const size_t end = symbols(at, kLetters, false, false); end != at) return end;
  return whitespace(at, false);
}

size_t Scanner::llama3(size_t at, size_t digits) {
  if (const size_t end = contraction(at, true); end != at) return end;
  if (const size_t end = prefixed_run(at, kLetters); end != at) return end;
  return rest(at, digits, kLetters, false);
}

size_t Scanner::qwen35(size_t at) {
  if (const size_t end = contraction(at, true); end != at) return end;
  if (const size_t end = prefixed_run(at, kLetters | kMarks); end != at) return end;
  return rest(at, 1, kLetters | kMarks, false);
}

// upper-like* lower-like+ at `at`, or `at`. The run of upper-like characters gives back up to its last uncased one
// where no lower-case letter follows it.
size_t Scanner::ends_lower(size_t at) {
  const size_t upper_end = run(at, kUpperLike);
  if (is(upper_end, kLowerLike)) return run(upper_end, kLowerLike);
  for (size_t i = upper_end; i > at; --i) {
    if (is(i - 1, kUncased)) return i;
  }
  return at;
}

// Both word alternatives without the contraction; `at` where neither matches. At most one of a character's two roles, a
// prefix or part of the word, is open to a letter; a mark has both, and the prefix is tried first.
size_t Scanner::cased_word(size_t at) {
  const bool prefix = !is(at, kLetters | kNumbers) && !is_newline(at);
  if (prefix) {
    if (const size_t end = ends_lower(at + 1); end != at + 1) return end;
  }
  if (const size_t end = ends_lower(at); end != at) return end;
  const size_t begin = prefix ? at + 1 : at;
  const size_t end = run(begin, kUpperLike);  // no lower-like character follows, or the first alternative had matched
  return end == begin ? at : end;
}

size_t Scanner::cased(size_t at, size_t digits, bool contractions) {
  if (const size_t end = cased_word(at); end != at) return contractions ? contraction(end, true) : end;
  return rest(at, digits, kLetters, true);
}

}  // namespace quern::token
