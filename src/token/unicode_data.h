// Character classes of Unicode code points, as far as pre-tokenizer rules tell them apart, and the generated range
// table. Lookup is in unicode.h; this header only joins it to the generated file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quern::token {

enum class CharClass : uint8_t {
  other,       // symbols, controls, unassigned
  upper,       // \p{Lu} \p{Lt}
  lower,       // \p{Ll}
  letter,      // \p{Lm} \p{Lo}
  mark,        // \p{M}
  number,      // \p{N}
  space,       // \s: White_Space
  punct,       // \p{P}
  late_digit,  // \p{N} only in the newer Unicode version that single-digit splitting uses; "other" to every regex
};

struct ClassRange {
  uint32_t first;
  CharClass char_class;
};

inline constexpr size_t kClassRangeCount = 3376;
extern const std::array<ClassRange, kClassRangeCount> kClassRanges;

// Marks that the reference's NFC, of an older Unicode version, treats as if they had no combining class: first, last.
inline constexpr size_t kLateMarkRangeCount = 55;
extern const std::array<std::array<uint32_t, 2>, kLateMarkRangeCount> kLateMarks;

}  // namespace quern::token
