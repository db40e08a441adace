// UTF-8 and Unicode as tokenizers need them: strict decoding, character classes, NFC.
//
// The classes are those of the regex engine of Hugging Face tokenizers (Unicode 16; tools/make_unicode_tables.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "token/unicode_data.h"

namespace quern::token {

inline constexpr uint32_t kInvalidByte = 0x110000;  // code_point of a byte that is not part of valid UTF-8

struct Decoded {
  uint32_t code_point;  // kInvalidByte where text[at] starts no valid sequence
  uint32_t length;      // bytes taken; 1 for an invalid byte
};

// Decodes one code point of text at `at` < text.size(). Overlong forms, surrogates and values above U+10FFFF are
// invalid.
Decoded decode_utf8(std::string_view text, size_t at);

// What the bytes at the end of a stream are: a whole sequence, the beginning of one, or neither.
enum class Utf8State { complete, partial, invalid };
struct Utf8Step {
  Utf8State state;
  uint32_t
      length;  // complete: its bytes; partial: bytes seen; invalid: the longest prefix that could have begun one, >= 1
};
Utf8Step classify_utf8(std::string_view text, size_t at);

// Appends code_point (a scalar value) as UTF-8.
void append_utf8(std::string& out, uint32_t code_point);

CharClass char_class(uint32_t code_point);  // kInvalidByte and above are `other`

// Normalization form C of the valid runs of text; invalid bytes stay where they are. n log n in the longest run of
// marks.
std::string normalize_nfc(std::string_view text);

}  // namespace quern::token
