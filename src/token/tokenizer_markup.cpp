// A trie of user-defined and control tokens, walked from each place where one can begin.
#include "token/tokenizer_markup.h"

namespace quern::token {
namespace {

uint64_t edge(int32_t node, char byte) {
  return uint64_t{static_cast<uint32_t>(node)} << 8 | static_cast<uint8_t>(byte);
}

}  // namespace

MarkupMatcher::MarkupMatcher(const Vocab& vocab) {
  for (int32_t id = 0; id < vocab.size(); ++id) {
    if (vocab.type(id) == TokenType::user_defined) add(vocab.bytes(id), id, false);
    if (vocab.is_markup(id)) add(vocab.bytes(id), id, true);
  }
}

void MarkupMatcher::add(std::string_view text, int32_t id, bool control) {
  if (text.empty()) return;
  int32_t node = 0;
  for (const char byte : text) {
    const int32_t fresh = static_cast<int32_t>(nodes_.size());
    const auto [it, added] = edges_.try_emplace(edge(node, byte), fresh);
    if (added) nodes_.emplace_back();
    if (node == 0) first_[static_cast<uint8_t>(byte)] = it->second;
    node = it->second;
  }
  nodes_[static_cast<size_t>(node)] = {id, control};
}

int32_t MarkupMatcher::child(int32_t node, char byte) const {
  const auto it = edges_.find(edge(node, byte));
  return it == edges_.end() ? 0 : it->second;
}

MarkupMatcher::Match MarkupMatcher::find(std::string_view text, size_t from, std::span<const ByteRange> markup,
                                         uint64_t& steps) const {
  size_t range = 0;  // the first range that ends after `at`
  for (size_t at = from; at < text.size(); ++at) {
    ++steps;
    int32_t node = first_[static_cast<uint8_t>(text[at])];
    if (node == 0) continue;
    while (range < markup.size() && markup[range].end <= at) ++range;
    const size_t markup_end = range < markup.size() && markup[range].begin <= at ? markup[range].end : at;
    Match best;
    for (size_t end = at + 1; node != 0; ++end) {
      const Node& here = nodes_[static_cast<size_t>(node)];
      if (here.id != kNoToken && (!here.control || end <= markup_end)) best = {{at, end}, here.id};
      if (end == text.size()) break;
      ++steps;
      node = child(node, text[end]);
    }
    if (best.id != kNoToken) return best;
  }
  return {{text.size(), text.size()}, kNoToken};
}

}  // namespace quern::token
