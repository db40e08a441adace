// A range of bytes in a text: which parts of a rendered prompt came from input. Shared by chat templates, which make
// these ranges, and tokenizers, which match no special token inside one.
#pragma once

#include <cstddef>
#include <vector>

namespace quern::token {

// Bytes [begin, end) of some text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

// Adds [begin, end) behind the last span, merging the two where they touch. Spans stay sorted, disjoint and non-empty.
inline void add_span(std::vector<TextSpan>& spans, size_t begin, size_t end) {
  if (begin >= end) return;
  if (!spans.empty() && spans.back().end >= begin) {
    if (spans.back().end < end) spans.back().end = end;
  } else {
    spans.push_back({begin, end});
  }
}

}  // namespace quern::token
