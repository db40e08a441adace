// The scanners of single regular expressions over classified characters. Names and multi-pass rules: pretokenizer.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "token/unicode.h"

namespace quern::token {

struct Char {
  uint32_t offset;      // in the text
  uint32_t code_point;  // kInvalidByte for an invalid byte
  CharClass char_class;
};
std::vector<Char> read_chars(std::string_view text);

// Each step takes the index of a character before the end and returns the end of the word that starts there, which is
// what its regular expression matches at that place. `end` acts as the end of the text.
class Scanner {
 public:
  Scanner(const std::vector<Char>& chars, size_t end) : chars_(chars.data()), end_(end) {}

  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  size_t gpt2(size_t at);
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
  // \s+(?!\S)|\s+
  size_t llama3(size_t at, size_t digits);
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|
  // \s+(?!\S)|\s+
  size_t qwen35(size_t at);
  // [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ C?|
  // [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* C?|
  // \p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
  // where C is (?i:'s|'t|'re|'ve|'m|'ll|'d) if `contractions`, else nothing.
  size_t cased(size_t at, size_t digits, bool contractions);

  uint64_t reads() const { return reads_; }  // characters looked at so far

 private:
  // A set of classes, as bits by CharClass.
  using Set = uint32_t;
  bool is(size_t at, Set set);
  size_t run(size_t at, Set set);  // the first index from `at` on that is outside the set
  bool is_char(size_t at, uint32_t code_point);
  bool is_newline(size_t at) { return is_char(at, '\r') || is_char(at, '\n'); }
  size_t newlines(size_t at, bool slashes);
  size_t contraction(size_t at, bool any_case);  // its end, or `at` where there is none
  size_t prefixed_run(size_t at, Set letters);   // [^\r\n\p{L}\p{N}]? then letters+; `at` where it does not match
  size_t symbols(size_t at, Set others, bool newline_tail, bool slashes);
  size_t whitespace(size_t at, bool newlines_apart);
  size_t rest(size_t at, size_t digits, Set words, bool slashes);
  size_t cased_word(size_t at);
  size_t ends_lower(size_t at);
  static Set bit(CharClass c) { return Set{1} << static_cast<unsigned>(c); }

  const Char* chars_;  // [end_]
  size_t end_;
  uint64_t reads_ = 0;
};

}  // namespace quern::token
