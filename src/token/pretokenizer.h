// Pre-tokenizer rules: where byte-level BPE cuts text into words before merging. Each rule is a published regular
// expression compiled by hand into a scanner that reads every character a bounded number of times, with no recursion.
// Merging is in bpe.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::token {

enum class PreRule : uint8_t {
  basic,   // GGUF files that name no rule: punctuation apart, GPT-2 words, numbers apart, groups of three digits
  gpt2,    // GPT-2
  llama3,  // Llama 3: numbers in groups of three
  qwen2,   // Qwen 2: single digits
  qwen35,  // Qwen 3.5: marks belong to words
  smollm,  // single digits apart, then GPT-2
  o200k,   // GPT-4o, gpt-oss: words break at case changes, contractions stay with their word
  tekken,  // Mistral NeMo: as o200k without contractions, single digits
};

// What a name in tokenizer.ggml.pre stands for.
struct PreTokenizer {
  std::string_view name;
  PreRule rule;
  bool ignore_merges = false;  // a word that is a token stays whole whatever the merges say
  bool add_bos = false;        // the default where the file does not say
  bool nfc = false;            // text is brought to normalization form C first
};

const PreTokenizer* find_pretokenizer(std::string_view name);  // nullptr where unknown
std::string known_pretokenizers();                             // the names, for messages

// Cuts text into words: appends the end offset of each word in order, the last one text.size(). An invalid byte counts
// as a symbol of its own. text.size() < 2^32. Returns how often a character was looked at, which is linear in the text.
uint64_t split_words(PreRule rule, std::string_view text, std::vector<uint32_t>& ends);

}  // namespace quern::token
