// Small vocabularies for tokenizer tests, owned by the test: VocabData only views.
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "token/tokenizer.h"
#include "token/unicode.h"

namespace quern::token::testing {

// The printable form of a byte in byte-level vocabularies.
inline std::string printable(uint8_t byte) {
  std::string out;
  for (uint32_t c = 0; c < 0x144; ++c) {
    if (byte_level_value(c) == byte) append_utf8(out, c);
  }
  return out;
}

inline std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += printable(static_cast<uint8_t>(c));
  return out;
}

struct TestVocab {
  VocabData data;
  std::deque<std::string> strings;  // what data views

  std::string_view keep(std::string text) { return strings.emplace_back(std::move(text)); }
  int32_t add(std::string text, TokenType type = TokenType::normal, float score = 0) {
    data.tokens.push_back(keep(std::move(text)));
    data.types.push_back(static_cast<int32_t>(type));
    data.scores.push_back(score);
    return static_cast<int32_t>(data.tokens.size()) - 1;
  }
  // Byte-level: the merge of two texts given as bytes, and its result if that is no token yet.
  void merge(std::string_view left, std::string_view right) {
    const std::string whole = printable(left) + printable(right);
    bool known = false;
    for (const std::string_view token : data.tokens) known |= token == whole;
    if (!known) add(whole);
    data.merges.push_back(keep(printable(left) + " " + printable(right)));
  }
  std::unique_ptr<Tokenizer> build() const {
    auto tokenizer = Tokenizer::create(data);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
  }
};

// Ids 0..255 are the bytes; a few merges over English and UTF-8; then markup.
inline TestVocab byte_vocab(const std::string& pre) {
  TestVocab v;
  v.data.model = "gpt2";
  v.data.pre = pre;
  for (int b = 0; b < 256; ++b) v.add(printable(static_cast<uint8_t>(b)));
  v.merge("h", "e");
  v.merge("l", "l");
  v.merge("he", "ll");
  v.merge("hell", "o");
  v.merge(" ", "w");
  v.merge("a", "a");
  v.merge("aa", "a");
  v.merge(" ", " ");
  v.merge("\xE4", "\xB8");
  v.merge("\xE4\xB8", "\xAD");
  v.merge("A", "A");
  v.merge("\n", "\n");
  v.add("<|endoftext|>", TokenType::control);
  v.add("<|im_start|>", TokenType::control);
  v.add("<|im_end|>", TokenType::control);
  v.add("<think>", TokenType::user_defined);
  return v;
}

// <unk>, <s>, </s>, 256 byte tokens, then pieces with falling scores.
inline TestVocab spm_vocab(const std::vector<std::string>& pieces, bool bytes = true) {
  TestVocab v;
  v.data.model = "llama";
  v.add("<unk>", TokenType::unknown);
  v.add("<s>", TokenType::control);
  v.add("</s>", TokenType::control);
  for (int b = 0; bytes && b < 256; ++b) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string name = "<0x";
    name.push_back(kHex[static_cast<size_t>(b / 16)]);
    name.push_back(kHex[static_cast<size_t>(b % 16)]);
    name.push_back('>');
    v.add(name, TokenType::byte);
  }
  float score = 0;
  for (const std::string& piece : pieces) v.add(piece, TokenType::normal, score -= 1);
  return v;
}

inline std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  return ids.ok() ? *ids : std::vector<int32_t>{};
}

// Tokens as text in the vocabulary, with | between them.
inline std::string tokens_of(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  std::string out;
  for (const int32_t id : ids_of(tokenizer, text, options)) {
    if (!out.empty()) out += '|';
    out += tokenizer.vocab().text(id);
  }
  return out;
}

inline std::string random_bytes(std::mt19937& rng, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<char>(rng() & 0xFF));
  return out;
}

inline std::string random_unicode(std::mt19937& rng, size_t n) {
  constexpr uint32_t kTops[] = {0x80, 0x800, 0x3100, 0x10000, 0x110000};
  std::string out;
  while (n > 0) {
    const uint32_t c = static_cast<uint32_t>(rng()) % kTops[rng() % 5];
    if (c >= 0xD800 && c < 0xE000) continue;
    append_utf8(out, rng() % 3 == 0 ? uint32_t{' '} : c);
    --n;
  }
  return out;
}

}  // namespace quern::token::testing
