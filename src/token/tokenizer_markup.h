// Finds whole tokens in raw text before it is cut into words: user-defined tokens anywhere, control tokens only where
// the caller says that the text is markup. Leftmost first, then longest.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/vocab.h"

namespace quern::token {

struct ByteRange {
  size_t begin = 0, end = 0;
};

class MarkupMatcher {
 public:
  MarkupMatcher() = default;
  explicit MarkupMatcher(const Vocab& vocab);

  struct Match {
    ByteRange bytes;  // empty at text.size() where there is no match
    int32_t id = kNoToken;
  };
  // The first match at or after `from`. `markup`: ascending ranges of text in which control tokens count, if they lie
  // wholly within one. Adds to `steps` the bytes it looked at: at most text.size() times the longest token.
  Match find(std::string_view text, size_t from, std::span<const ByteRange> markup, uint64_t& steps) const;

 private:
  struct Node {
    int32_t id = kNoToken;
    bool control = false;
  };
  int32_t child(int32_t node, char byte) const;
  void add(std::string_view text, int32_t id, bool control);

  std::vector<Node> nodes_{1};
  std::unordered_map<uint64_t, int32_t> edges_;  // node << 8 | byte -> node
  std::array<int32_t, 256> first_{};             // the root's edges; 0: none
};

}  // namespace quern::token
