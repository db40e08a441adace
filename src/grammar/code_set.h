// Sets of code points, and how they are spelled in UTF-8: sequences of byte ranges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::grammar {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

struct CodeRange {
  uint32_t first, last;
  bool operator==(const CodeRange&) const = default;
  auto operator<=>(const CodeRange&) const = default;
};

// Invariant: ranges are sorted, disjoint and not adjacent. Surrogates may be in a set; no spelling has them.
class CodeSet {
 public:
  CodeSet() = default;
  CodeSet(std::initializer_list<CodeRange> ranges);
  static CodeSet all() { return {{0, kMaxCodePoint}}; }
  static CodeSet one(uint32_t code) { return {{code, code}}; }

  void add(uint32_t first, uint32_t last);
  void add(const CodeSet& other);
  CodeSet inverted() const;
  CodeSet without(const CodeSet& other) const;
  CodeSet common(const CodeSet& other) const;
  bool contains(uint32_t code) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodeRange>& ranges() const { return ranges_; }
  bool operator==(const CodeSet&) const = default;
  auto operator<=>(const CodeSet&) const = default;

 private:
  std::vector<CodeRange> ranges_;
};

struct ByteRange {
  uint8_t first, last;
};
// Bytes that spell some code points: any choice within each range, in order.
struct Utf8Sequence {
  int length = 0;
  ByteRange bytes[4] = {};
};
// All spellings of a set, without surrogates and overlong forms.
std::vector<Utf8Sequence> utf8_sequences(const CodeSet& set);

// The code point at *at, moved behind it; -1 where the bytes are not valid UTF-8 (*at then moves by one), 0 at the end.
int32_t next_code_point(std::string_view text, size_t* at);

}  // namespace quern::grammar
