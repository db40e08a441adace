// Unicode as Python's str sees it: code points in UTF-8, character classes, case mapping. Bytes that are not UTF-8
// travel unharmed as one "character" each (kRawByte + byte).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::token::jinja {

inline constexpr uint32_t kRawByte = 0x110000;

// The code point at text[pos]; *length is the number of bytes it takes (1 to 4). pos < text.size().
uint32_t decode_at(std::string_view text, size_t pos, size_t* length);
// The position of the character before pos > 0.
size_t previous_char(std::string_view text, size_t pos);
void append_utf8(std::string& out, uint32_t code_point);
size_t count_chars(std::string_view text);
// The byte position of the n-th character; text.size() when there are fewer.
size_t char_position(std::string_view text, size_t n);

bool is_space(uint32_t c);       // str.isspace
bool is_line_break(uint32_t c);  // str.splitlines, \r\n aside
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit(uint32_t c);
bool is_numeric(uint32_t c);
bool is_cased(uint32_t c);
bool is_upper(uint32_t c);
bool is_lower(uint32_t c);
bool is_title(uint32_t c);
bool is_printable(uint32_t c);
bool is_word(uint32_t c);  // \w: letter, digit, mark in a name, underscore

enum class CaseMap : uint8_t { upper, lower, title, fold };
// Appends the full mapping of one character (it may be up to three).
void append_case(std::string& out, uint32_t c, CaseMap map);
// Is the capital sigma at text[pos] the last letter of its word (so that its small form is U+03C2)?
bool is_final_sigma(std::string_view text, size_t pos);

}  // namespace quern::token::jinja
