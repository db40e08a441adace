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
  spelled_.resize(tokens_.size());
  std::vector<TrieEntry> all;
  const auto is_plain = [](std::string_view bytes) {
    return !bytes.empty() && std::ranges::none_of(bytes, [](char c) { return static_cast<uint8_t>(c) >= kMarkerClose; });
  };
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto& [bytes, kind] = tokens_[i];
    const auto id = static_cast<int32_t>(i);
    if (kind == TokenKind::end) end_tokens_.push_back(id);
    if (!is_plain(bytes)) continue;
    if (kind == TokenKind::text || kind == TokenKind::both) all.push_back({bytes, id});
    if (kind == TokenKind::marker || kind == TokenKind::both || kind == TokenKind::end) {
      spelled_[i] = static_cast<char>(kMarkerOpen) + bytes + static_cast<char>(kMarkerClose);
      all.push_back({spelled_[i], id});
    }
  }
  std::sort(all.begin(), all.end(), [](const TrieEntry& a, const TrieEntry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });
  int32_t last = -1;
  for (const TrieEntry& entry : all) {
    const bool is_marker = static_cast<uint8_t>(entry.bytes.back()) == kMarkerClose;
    if (!sorted_.empty() && sorted_.back().bytes == entry.bytes) {
      if (is_marker) {  // a name means one token
        tokens_[static_cast<size_t>(entry.token)].kind = TokenKind::unused;
        continue;
      }
      next_same_[static_cast<size_t>(last)] = entry.token;
    } else {
      sorted_.push_back(entry);
    }
    last = entry.token;
  }
  trie_ = Trie(sorted_);
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

std::shared_ptr<const Slice> Vocabulary::make_slice(const SliceKey& key) const {
  auto slice = std::make_shared<Slice>();
  for (auto& mask : slice->up_to) mask.assign(mask_words(), 0);
  std::vector<TrieEntry> rest;
  for (const TrieEntry& entry : sorted_) {
    size_t n_chars = 0, at = 0;
    bool pure = true;
    while (pure && at < entry.bytes.size()) {
      const int32_t code = next_code_point(entry.bytes, &at);
      pure = code >= 0 && key.contains(static_cast<uint32_t>(code)) && ++n_chars <= Slice::kMaxChars;
    }
    if (!pure) {
      rest.push_back(entry);
      continue;
    }
    for (int32_t id = entry.token; id >= 0; id = next_same(id)) {
      for (size_t n = n_chars; n <= Slice::kMaxChars; ++n) slice->up_to[n][static_cast<size_t>(id) / 64] |= 1ULL << (id % 64);
    }
  }
  slice->rest = Trie(rest);
  return slice;
}

std::shared_ptr<const Slice> Vocabulary::slice(const SliceKey& key) const {
  try {
    const std::lock_guard lock(mutex_);
    const auto name = std::make_pair(key.ascii.to_string(), key.others);
    const auto found = slices_.find(name);
    if (found != slices_.end()) return found->second;
    if (slices_.size() >= kMaxSlices) return nullptr;
    return slices_[name] = make_slice(key);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace quern::grammar
