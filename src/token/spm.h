// SentencePiece BPE: merges neighbours into the token with the highest score, leftmost first among equals; characters
// without a token become byte tokens, or the unknown token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "token/vocab.h"

namespace quern::token {

class SpmModel {
 public:
  // An error where a score is not a number, or where a text could have neither byte tokens nor an unknown token.
  static Result<SpmModel> create(const Vocab& vocab, const VocabData& data);

  // Appends the tokens of text, in which spaces are read as U+2581; with `prefix` one is put before it. Returns how
  // many candidate merges it weighed: at most 3 per byte, each at the cost of a look-up and a heap operation.
  uint64_t encode(const Vocab& vocab, std::string_view text, bool prefix, std::vector<int32_t>& ids) const;

 private:
  void append_unmatched(const Vocab& vocab, std::string_view symbol, bool& after_unknown,
                        std::vector<int32_t>& ids) const;

  TextMap pieces_;  // tokens that text can become: no control, unknown or byte tokens. Views of the vocabulary.
  size_t longest_ = 0;
  std::vector<float> scores_;
};

}  // namespace quern::token
