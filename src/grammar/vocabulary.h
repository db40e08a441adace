// A vocabulary as grammars see it: tokens as bytes, in a trie. Immutable but for a store of slices, which locks itself;
// one serves all requests and threads.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/network.h"
#include "grammar/trie.h"

namespace quern::token {
class Tokenizer;
}

namespace quern::grammar {

enum class TokenKind : uint8_t {
  text,    // stands for its bytes, which may be part of a character
  marker,  // a control token: allowed only where a grammar names it
  both,    // stands for its bytes, and can be named like a marker
  end,     // ends a generation: allowed where a grammar may end, or names it
  unused   // never allowed
};

struct TokenEntry {
  std::string bytes;  // or the name of a marker
  TokenKind kind = TokenKind::text;
};

// A set of characters that a loop takes one by one: some of ASCII, and all others or none.
struct SliceKey {
  std::bitset<128> ascii;
  bool others = false;
  bool any() const { return others || ascii.any(); }
  bool operator==(const SliceKey&) const = default;
  bool contains(uint32_t code) const { return code < 128 ? ascii[code] : others; }
  ByteSet first_bytes() const;
};

// Tokens of such characters only, apart from the rest: in a loop over the set they are allowed as far as their length
// goes, and a walk need not look at them.
struct Slice {
  static constexpr size_t kMaxChars = 32;
  std::array<std::vector<uint64_t>, kMaxChars + 1> up_to;  // masks: tokens of at most so many characters
  Trie rest;                                               // the other tokens, and longer ones
};

class Vocabulary {
 public:
  static Result<std::shared_ptr<const Vocabulary>> create(const token::Tokenizer& tokenizer);
  static Result<std::shared_ptr<const Vocabulary>> create(std::vector<TokenEntry> tokens);  // by id

  size_t size() const { return tokens_.size(); }
  size_t mask_words() const { return (tokens_.size() + 63) / 64; }
  const Trie& trie() const { return trie_; }
  TokenKind kind(int32_t id) const { return tokens_[static_cast<size_t>(id)].kind; }
  const std::string& bytes(int32_t id) const { return tokens_[static_cast<size_t>(id)].bytes; }
  int32_t next_same(int32_t id) const { return next_same_[static_cast<size_t>(id)]; }  // of equal bytes, or -1
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }
  // Null where the characters are so few that a walk is short anyway, or there is no memory for a slice.
  std::shared_ptr<const Slice> slice(const SliceKey& key) const;

 private:
  static constexpr size_t kMaxSlices = 8, kFewChars = 20;
  struct KeptSlice {
    SliceKey key;
    std::shared_ptr<const Slice> slice;
  };
  explicit Vocabulary(std::vector<TokenEntry> tokens);
  std::shared_ptr<const Slice> make_slice(const SliceKey& key) const;

  std::vector<TokenEntry> tokens_;
  std::vector<int32_t> next_same_;
  std::vector<int32_t> end_tokens_;
  Trie trie_;
  mutable std::mutex mutex_;
  mutable std::vector<KeptSlice> slices_;  // the last used first
};

}  // namespace quern::grammar
