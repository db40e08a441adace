// Code points, character classes and case mapping over utf8proc. What utf8proc lacks (mappings to several characters)
// is in jinja_case_table.inc.
#include "token/jinja_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace quern::token::jinja {
namespace {

struct SpecialCase {
  uint32_t code_point;
  const char* mapping;
};
#include "token/jinja_case_table.inc"

template <size_t N>
const char* find_special(const SpecialCase (&table)[N], uint32_t c) {
  const auto* row = std::lower_bound(std::begin(table), std::end(table), c,
                                     [](const SpecialCase& entry, uint32_t value) { return entry.code_point < value; });
  return row != std::end(table) && row->code_point == c ? row->mapping : nullptr;
}

utf8proc_category_t category(uint32_t c) {
  return c < kRawByte ? utf8proc_category(static_cast<utf8proc_int32_t>(c)) : UTF8PROC_CATEGORY_CN;
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

bool is_case_ignorable(uint32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
  }
}

}  // namespace

uint32_t decode_at(std::string_view text, size_t pos, size_t* length) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(pos);
  *length = 1;
  if (first < 0x80) return first;
  const size_t want = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || pos + want > text.size()) return kRawByte + first;
  uint32_t c = first & (0xFFU >> (want + 1));
  for (size_t i = 1; i < want; ++i) {
    if (!is_continuation(text[pos + i])) return kRawByte + first;
    c = (c << 6) | (byte(pos + i) & 0x3F);
  }
  const bool overlong = (want == 3 && c < 0x800) || (want == 4 && c < 0x10000);
  if (overlong || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return kRawByte + first;
  *length = want;
  return c;
}

size_t previous_char(std::string_view text, size_t pos) {
  for (size_t back = 1; back <= 4 && back <= pos; ++back) {
    if (is_continuation(text[pos - back])) continue;
    size_t length = 0;
    decode_at(text, pos - back, &length);
    return length == back ? pos - back : pos - 1;
  }
  return pos - 1;
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c >= kRawByte) {
    put(c - kRawByte);
  } else if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

size_t count_chars(std::string_view text) {
  size_t n = 0;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length, ++n) decode_at(text, pos, &length);
  return n;
}

size_t char_position(std::string_view text, size_t n) {
  size_t pos = 0;
  size_t length = 0;
  for (; n > 0 && pos < text.size(); --n, pos += length) decode_at(text, pos, &length);
  return pos;
}

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(uint32_t c) {
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(uint32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C);
}

bool is_numeric(uint32_t c) {
  const auto cat = category(c);
  return cat == UTF8PROC_CATEGORY_ND || cat == UTF8PROC_CATEGORY_NL || cat == UTF8PROC_CATEGORY_NO;
}

bool is_upper(uint32_t c) {
  return c < kRawByte && utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool is_lower(uint32_t c) {
  return c < kRawByte && utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool is_title(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}
bool is_cased(uint32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

bool is_printable(uint32_t c) {
  if (c == ' ') return true;
  const auto cat = category(c);
  return !(cat == UTF8PROC_CATEGORY_CN || (cat >= UTF8PROC_CATEGORY_ZS && cat <= UTF8PROC_CATEGORY_CO));
}

bool is_word(uint32_t c) {
  return c == '_' || is_alpha(c) || is_numeric(c);
}

void append_case(std::string& out, uint32_t c, CaseMap map) {
  if (c < 0x80) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool lower = c >= 'a' && c <= 'z';
    const bool to_upper = map == CaseMap::upper || map == CaseMap::title;
    out.push_back(static_cast<char>((to_upper && lower) ? c - 32 : (!to_upper && upper) ? c + 32 : c));
    return;
  }
  if (c >= kRawByte) return append_utf8(out, c);
  const auto point = static_cast<utf8proc_int32_t>(c);
  const char* special = nullptr;
  utf8proc_int32_t mapped = point;
  switch (map) {
    case CaseMap::upper:
      special = find_special(kUpperSpecial, c);
      mapped = utf8proc_toupper(point);
      break;
    case CaseMap::lower:
      special = find_special(kLowerSpecial, c);
      mapped = utf8proc_tolower(point);
      break;
    case CaseMap::title:
      special = find_special(kTitleSpecial, c);
      mapped = utf8proc_totitle(point);
      break;
    case CaseMap::fold: {
      utf8proc_int32_t folded[4] = {};
      int boundary = 0;
      const auto n = utf8proc_decompose_char(point, folded, 4, UTF8PROC_CASEFOLD, &boundary);
      for (utf8proc_ssize_t i = 0; i < n && i < 4; ++i) append_utf8(out, static_cast<uint32_t>(folded[i]));
      return;
    }
  }
  if (special != nullptr) {
    out += special;
  } else {
    append_utf8(out, static_cast<uint32_t>(mapped));
  }
}

bool is_final_sigma(std::string_view text, size_t pos) {
  const auto cased_beyond = [&](size_t at, bool forward) {
    while (forward ? at < text.size() : at > 0) {
      size_t length = 0;
      if (!forward) at = previous_char(text, at);
      const uint32_t c = decode_at(text, at, &length);
      if (!is_case_ignorable(c)) return is_cased(c);
      if (forward) at += length;
    }
    return false;
  };
  return cased_beyond(pos, false) && !cased_beyond(pos + 2, true);
}

}  // namespace quern::token::jinja
