// A trie over tokens' bytes, laid out in the order of a walk: a node, then its children's subtrees. A dead branch is
// one jump.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace quern::grammar {

struct TrieEntry {
  std::string_view bytes;  // not empty
  int32_t token;
};

enum class TrieKeep : uint8_t { nothing, node, token };

class Trie {
 public:
  struct Node {
    uint32_t end;    // index after the subtree
    int32_t token;   // the token that ends here, -1: none
    uint16_t depth;  // bytes from the root; the root itself is not stored
    uint8_t byte;
  };
  static constexpr size_t kMaxDepth = 2048;

  Trie() = default;
  // Sorted by bytes; of equal ones the first is kept, longer ones than kMaxDepth are left out.
  explicit Trie(std::span<const TrieEntry> entries);
  const std::vector<Node>& nodes() const { return nodes_; }
  size_t depth() const { return depth_; }  // of the deepest node
  // By node: left out, kept without its token, kept. What leads to a kept node must be kept.
  Trie only(std::span<const TrieKeep> keep) const;
  // The child of node `parent` (-1: the root) by byte, or -1.
  int64_t child(int64_t parent, uint8_t byte) const;

 private:
  std::vector<Node> nodes_;
  size_t depth_ = 0;
};

}  // namespace quern::grammar
