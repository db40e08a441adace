// UTF-8 decoding, class lookup, NFC. Categories come from the generated table; decomposition data from utf8proc.
#include "token/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace quern::token {
namespace {

// Bounds of the second byte for a lead byte, which exclude overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  uint32_t length;  // of the whole sequence; 0 where the byte cannot lead
  uint8_t low, high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// First range of each page of 256 code points, so that a lookup searches only the ranges of one page.
constexpr size_t kPages = 0x1100;
using PageIndex = std::array<uint16_t, kPages + 1>;

PageIndex make_page_index() {
  PageIndex index{};
  size_t range = 0;
  for (size_t page = 0; page <= kPages; ++page) {
    while (range + 1 < kClassRangeCount && kClassRanges[range + 1].first <= page * 256) ++range;
    index[page] = static_cast<uint16_t>(range);
  }
  return index;
}

bool is_below_first_mark(std::string_view text) {
  // Code points below U+0300 have no composition; their UTF-8 leads are below 0xCC.
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

// The canonical combining class as the reference knows it: 0 for marks newer than its data.
int combining_class(utf8proc_int32_t c) {
  const int value = utf8proc_get_property(c)->combining_class;
  if (value == 0) return 0;
  const uint32_t code_point = static_cast<uint32_t>(c);
  const auto after = std::upper_bound(kLateMarks.begin(), kLateMarks.end(), code_point,
                                      [](uint32_t x, const auto& range) { return x < range[0]; });
  return after != kLateMarks.begin() && code_point <= (*(after - 1))[1] ? 0 : value;
}

// Canonical order: each maximal run of marks sorted by combining class, equal classes in place.
void order_marks(std::vector<utf8proc_int32_t>& chars) {
  for (size_t i = 0; i < chars.size();) {
    size_t end = i;
    while (end < chars.size() && combining_class(chars[end]) != 0) ++end;
    if (end - i > 1) {
      std::stable_sort(chars.begin() + static_cast<ptrdiff_t>(i), chars.begin() + static_cast<ptrdiff_t>(end),
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    }
    i = std::max(end, i + 1);
  }
}

// Appends the NFC form of the scalar values of `chars`, which it uses up.
void append_composed(std::string& out, std::vector<utf8proc_int32_t>& chars) {
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(chars.size());
  std::array<utf8proc_int32_t, 32> parts;  // the longest canonical decomposition has four code points
  for (const utf8proc_int32_t c : chars) {
    const utf8proc_ssize_t n = utf8proc_decompose_char(c, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
                                                       static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE), nullptr);
    if (n > 0 && n <= static_cast<utf8proc_ssize_t>(parts.size())) {
      decomposed.insert(decomposed.end(), parts.begin(), parts.begin() + n);
    } else {
      decomposed.push_back(c);
    }
  }
  order_marks(decomposed);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(decomposed.data(), static_cast<utf8proc_ssize_t>(decomposed.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<uint32_t>(decomposed[static_cast<size_t>(i)]));
  chars.clear();
}

}  // namespace

Utf8Step classify_utf8(std::string_view text, size_t at) {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = lead_of(byte_at(at));
  if (lead.length == 0) return {Utf8State::invalid, 1};
  uint32_t seen = 1;
  for (; seen < lead.length; ++seen) {
    if (at + seen == text.size()) return {Utf8State::partial, seen};
    const uint8_t low = seen == 1 ? lead.low : uint8_t{0x80};
    const uint8_t high = seen == 1 ? lead.high : uint8_t{0xBF};
    if (byte_at(at + seen) < low || byte_at(at + seen) > high) return {Utf8State::invalid, seen};
  }
  return {Utf8State::complete, lead.length};
}

Decoded decode_utf8(std::string_view text, size_t at) {
  const auto byte_at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  if (byte_at(at) < 0x80) return {byte_at(at), 1};
  const Utf8Step step = classify_utf8(text, at);
  if (step.state != Utf8State::complete) return {kInvalidByte, 1};
  uint32_t code_point = byte_at(at) & (0x7Fu >> step.length);
  for (uint32_t i = 1; i < step.length; ++i) code_point = code_point << 6 | (byte_at(at + i) & 0x3F);
  return {code_point, step.length};
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto push = [&](uint32_t byte) { out.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | code_point >> 18);
    push(0x80 | (code_point >> 12 & 0x3F));
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

CharClass char_class(uint32_t code_point) {
  if (code_point >= kInvalidByte) return CharClass::other;
  static const PageIndex pages = make_page_index();
  const size_t page = code_point >> 8;
  const auto begin = kClassRanges.begin() + pages[page];
  const auto end = kClassRanges.begin() + pages[page + 1] + 1;
  const auto after =
      std::upper_bound(begin, end, code_point, [](uint32_t c, const ClassRange& r) { return c < r.first; });
  return (after - 1)->char_class;
}

std::string normalize_nfc(std::string_view text) {
  if (is_below_first_mark(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> run;
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    if (d.code_point == kInvalidByte) {
      append_composed(out, run);
      out.push_back(text[at]);
    } else {
      run.push_back(static_cast<utf8proc_int32_t>(d.code_point));
    }
    at += d.length;
  }
  append_composed(out, run);
  return out;
}

}  // namespace quern::token
