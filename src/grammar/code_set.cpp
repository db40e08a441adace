// Code point sets and UTF-8 ranges.
#include "grammar/code_set.h"

#include <algorithm>

#include "token/unicode.h"

namespace quern::grammar {

CodeSet::CodeSet(std::initializer_list<CodeRange> ranges) {
  for (const CodeRange& range : ranges) add(range.first, range.last);
}

void CodeSet::add(uint32_t first, uint32_t last) {
  if (first > last) return;
  // The ranges that touch [first, last], or lie next to it, become one.
  auto begin = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                                [](const CodeRange& r, uint32_t code) { return r.last < code && r.last + 1 < code; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CodeSet::add(const CodeSet& other) {
  for (const CodeRange& range : other.ranges_) add(range.first, range.last);
}

CodeSet CodeSet::inverted() const {
  CodeSet result;
  uint32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) result.ranges_.push_back({next, kMaxCodePoint});
  return result;
}

CodeSet CodeSet::common(const CodeSet& other) const {
  CodeSet result;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const CodeRange &a = ranges_[i], &b = other.ranges_[j];
    if (std::max(a.first, b.first) <= std::min(a.last, b.last)) {
      result.ranges_.push_back({std::max(a.first, b.first), std::min(a.last, b.last)});
    }
    a.last < b.last ? ++i : ++j;
  }
  return result;
}

CodeSet CodeSet::without(const CodeSet& other) const {
  return common(other.inverted());
}

bool CodeSet::contains(uint32_t code) const {
  const auto it = std::upper_bound(ranges_.begin(), ranges_.end(), code,
                                   [](uint32_t value, const CodeRange& r) { return value < r.first; });
  return it != ranges_.begin() && std::prev(it)->last >= code;
}

namespace {

int utf8_length(uint32_t code) {
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

void encode(uint32_t code, int length, uint8_t* out) {
  static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (int i = length - 1; i > 0; --i) {
    out[i] = static_cast<uint8_t>(0x80 | (code & 0x3F));
    code >>= 6;
  }
  out[0] = static_cast<uint8_t>(kLead[length] | code);
}

// A range of code points of one length, cut so that each part is a product of byte ranges.
void split(uint32_t first, uint32_t last, int length, std::vector<Utf8Sequence>& out) {
  for (int i = 1; i < length; ++i) {
    const uint32_t low_bits = (1U << (6 * i)) - 1;
    if ((first & ~low_bits) == (last & ~low_bits)) continue;
    if ((first & low_bits) != 0) {
      split(first, first | low_bits, length, out);
      return split((first | low_bits) + 1, last, length, out);
    }
    if ((last & low_bits) != low_bits) {
      split(first, (last & ~low_bits) - 1, length, out);
      return split(last & ~low_bits, last, length, out);
    }
  }
  uint8_t a[4], b[4];
  encode(first, length, a);
  encode(last, length, b);
  Utf8Sequence sequence;
  sequence.length = length;
  for (int i = 0; i < length; ++i) sequence.bytes[i] = {a[i], b[i]};
  out.push_back(sequence);
}

}  // namespace

std::vector<Utf8Sequence> utf8_sequences(const CodeSet& set) {
  static constexpr CodeRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCodePoint}};
  std::vector<Utf8Sequence> out;
  for (const CodeRange& range : set.ranges()) {
    for (const CodeRange& part : kLengths) {
      const uint32_t first = std::max(range.first, part.first), last = std::min(range.last, part.last);
      if (first <= last) split(first, last, utf8_length(first), out);
    }
  }
  return out;
}

int32_t next_code_point(std::string_view text, size_t* at) {
  const token::Decoded next = *at < text.size() ? token::decode_utf8(text, *at) : token::Decoded{0, 1};
  *at += next.length;
  return next.code_point == token::kInvalidByte ? -1 : static_cast<int32_t>(next.code_point);
}

}  // namespace quern::grammar
