// Tries and slices of a vocabulary.
#include "grammar/vocabulary.h"

#include <algorithm>

#include "token/tokenizer.h"

namespace quern::grammar {

Trie::Trie(std::span<const TrieEntry> entries) {
  std::vector<size_t> path;  // nodes from the root to the last one made
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  std::string_view last;
  for (const auto& [bytes, token] : entries) {
    if (bytes.empty() || bytes.size() > kMaxDepth || bytes == last) continue;
    size_t common = 0;
    while (common < last.size() && common < bytes.size() && last[common] == bytes[common]) ++common;
    close(common);
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({0, -1, static_cast<uint16_t>(i + 1), static_cast<uint8_t>(bytes[i])});
    }
    nodes_.back().token = token;
    depth_ = std::max(depth_, bytes.size());
    last = bytes;
  }
  close(0);
}

Trie Trie::only(std::span<const TrieKeep> keep) const {
  std::vector<uint32_t> before(nodes_.size() + 1, 0);  // nodes that are kept before each
  for (size_t i = 0; i < nodes_.size(); ++i) before[i + 1] = before[i] + (keep[i] != TrieKeep::nothing);
  Trie result;
  result.depth_ = depth_;
  result.nodes_.reserve(before.back());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (keep[i] == TrieKeep::nothing) continue;
    Node node = nodes_[i];
    node.end = before[node.end];
    if (keep[i] == TrieKeep::node) node.token = -1;
    result.nodes_.push_back(node);
  }
  return result;
}

int64_t Trie::child(int64_t parent, uint8_t byte) const {
  const size_t end = parent < 0 ? nodes_.size() : nodes_[static_cast<size_t>(parent)].end;
  for (auto i = static_cast<size_t>(parent + 1); i < end; i = nodes_[i].end) {
    if (nodes_[i].byte == byte) return static_cast<int64_t>(i);
  }
  return -1;
}

ByteSet SliceKey::first_bytes() const {
  ByteSet bytes;
  for (size_t b = 0; b < 128; ++b) bytes[b] = ascii[b];
  for (size_t b = 0xC2; others && b < 0xF5; ++b) bytes.set(b);
  return bytes;
}

Vocabulary::Vocabulary(std::vector<TokenEntry> tokens) : tokens_(std::move(tokens)) {
  next_same_.assign(tokens_.size(), -1);
  std::vector<std::string> spelled(tokens_.size());  // markers as kMarkerOpen name kMarkerClose
  std::vector<TrieEntry> all, distinct;
  const auto is_plain = [](std::string_view bytes) {
    return !bytes.empty() &&
           std::ranges::none_of(bytes, [](char c) { return static_cast<uint8_t>(c) >= kMarkerClose; });
  };
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto& [bytes, kind] = tokens_[i];
    const auto id = static_cast<int32_t>(i);
    if (kind == TokenKind::end) end_tokens_.push_back(id);
    if (!is_plain(bytes)) continue;
    if (kind == TokenKind::text || kind == TokenKind::both) all.push_back({bytes, id});
    if (kind == TokenKind::marker || kind == TokenKind::both || kind == TokenKind::end) {
      spelled[i] = static_cast<char>(kMarkerOpen) + bytes + static_cast<char>(kMarkerClose);
      all.push_back({spelled[i], id});
    }
  }
  std::sort(all.begin(), all.end(), [](const TrieEntry& a, const TrieEntry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });
  int32_t last = -1;
  for (const TrieEntry& entry : all) {
    const bool is_marker = static_cast<uint8_t>(entry.bytes.back()) == kMarkerClose;
    if (!distinct.empty() && distinct.back().bytes == entry.bytes) {
      if (is_marker) {  // a name means one token
        tokens_[static_cast<size_t>(entry.token)].kind = TokenKind::unused;
        continue;
      }
      next_same_[static_cast<size_t>(last)] = entry.token;
    } else {
      distinct.push_back(entry);
    }
    last = entry.token;
  }
  trie_ = Trie(distinct);
  SliceKey json;  // nearly every schema has strings
  for (size_t c = 0x20; c < 0x80; ++c) json.ascii[c] = c != '"' && c != '\\';
  json.others = true;
  slice(json);
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::create(std::vector<TokenEntry> tokens) {
  if (tokens.empty()) return Error{Status::invalid_argument, "a grammar needs a vocabulary with tokens"};
  try {
    return std::shared_ptr<const Vocabulary>(new Vocabulary(std::move(tokens)));
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory for the trie of a vocabulary"};
  }
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::create(const token::Tokenizer& tokenizer) {
  try {
    const token::Vocab& vocab = tokenizer.vocab();
    std::vector<TokenEntry> tokens(static_cast<size_t>(vocab.size()));
    for (int32_t id = 0; id < vocab.size(); ++id) {
      TokenEntry& token = tokens[static_cast<size_t>(id)];
      token.bytes = vocab.bytes(id);
      if (vocab.is_eog(id)) {
        token.kind = TokenKind::end;
      } else if (vocab.type(id) == token::TokenType::unknown || vocab.type(id) == token::TokenType::unused) {
        token.kind = TokenKind::unused;
      } else if (vocab.is_markup(id)) {
        token.kind = TokenKind::marker;
      } else if (vocab.type(id) == token::TokenType::user_defined) {
        token.kind = TokenKind::both;
      }
    }
    return create(std::move(tokens));
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory for the trie of a vocabulary"};
  }
}

namespace {

// How far a token's bytes so far are characters of a slice's set.
struct SliceStep {
  bool pure = true;
  uint8_t more = 0, first = 0x80, last = 0xBF;  // bytes that the character still needs, and what the next may be
  uint16_t n_chars = 0;
  void take(uint8_t byte, const SliceKey& key) {
    if (!pure) return;
    if (more > 0) {
      pure = byte >= first && byte <= last;
      --more;
      first = 0x80;
      last = 0xBF;
      return;
    }
    ++n_chars;
    if (byte < 0x80) {
      pure = key.ascii[byte];
      return;
    }
    pure = key.others && byte >= 0xC2 && byte < 0xF5;
    more = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    if (byte == 0xE0) first = 0xA0;
    if (byte == 0xED) last = 0x9F;
    if (byte == 0xF0) first = 0x90;
    if (byte == 0xF4) last = 0x8F;
  }
};

}  // namespace

std::shared_ptr<const Slice> Vocabulary::make_slice(const SliceKey& key) const {
  auto slice = std::make_shared<Slice>();
  for (auto& mask : slice->up_to) mask.assign(mask_words(), 0);
  const auto& nodes = trie_.nodes();
  std::vector<TrieKeep> keep(nodes.size(), TrieKeep::nothing);
  std::vector<SliceStep> steps(trie_.depth() + 1);
  std::vector<size_t> path(trie_.depth() + 1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Trie::Node& node = nodes[i];
    SliceStep& step = steps[node.depth] = steps[node.depth - 1U];
    step.take(node.byte, key);
    path[node.depth] = i;
    if (node.token < 0) continue;
    if (step.pure && step.more == 0 && step.n_chars <= Slice::kMaxChars) {
      for (int32_t id = node.token; id >= 0; id = next_same(id)) {
        slice->up_to[step.n_chars][static_cast<size_t>(id) / 64] |= 1ULL << (id % 64);
      }
      continue;
    }
    keep[i] = TrieKeep::token;
    for (size_t d = node.depth - 1U; d > 0 && keep[path[d]] == TrieKeep::nothing; --d) keep[path[d]] = TrieKeep::node;
  }
  for (size_t n = 1; n <= Slice::kMaxChars; ++n) {
    for (size_t i = 0; i < mask_words(); ++i) slice->up_to[n][i] |= slice->up_to[n - 1][i];
  }
  slice->rest = trie_.only(keep);
  return slice;
}

std::shared_ptr<const Slice> Vocabulary::slice(const SliceKey& key) const {
  try {
    if (!key.others && key.ascii.count() < kFewChars) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(slices_, key, &KeptSlice::key);
    if (found != slices_.end()) {
      std::rotate(slices_.begin(), found, found + 1);  // the last used ones stay
      return slices_.front().slice;
    }
    KeptSlice made{key, make_slice(key)};
    if (slices_.size() == kMaxSlices) slices_.pop_back();
    slices_.insert(slices_.begin(), std::move(made));
    return slices_.front().slice;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace quern::grammar
