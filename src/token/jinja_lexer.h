// Template text -> tokens, with Jinja's rules for whitespace: trim_blocks and lstrip_blocks on, `-` and `+` marks, and
// one newline dropped at the end of the template. Linear in the length of the text. Grammar is the parser's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern::token::jinja {

enum class TokenKind : uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  floating,
  op,
  eof,
};

struct Token {
  TokenKind kind = TokenKind::eof;
  uint32_t line = 1;
  std::string text;  // data, name, operator, decoded string, or number as written
  int64_t integer = 0;
  double number = 0;
};

// The last token is eof. Errors name the line.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace quern::token::jinja
