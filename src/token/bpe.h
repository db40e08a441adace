// Byte-level BPE: turns words of bytes into tokens by merging neighbours, best merge first, leftmost first among
// equals. Cutting text into words is pretokenizer.h's.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "token/vocab.h"

namespace quern::token {

class BpeModel {
 public:
  // An error where a merge has no two parts, or a part or its result is not a token.
  static Result<BpeModel> create(const Vocab& vocab, const VocabData& data, bool ignore_merges);

  // Working memory of one encode call.
  struct Scratch;
  // Appends the word's tokens. A byte that has no token is left out. Returns how many candidate merges it weighed: at
  // most 3 per byte, each at the cost of a heap operation.
  uint64_t encode(const Vocab& vocab, std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  MergeMap merges_;
  bool ignore_merges_ = false;
  TextMap words_;  // by bytes; only with ignore_merges
};

struct BpeModel::Scratch {
  struct Symbol {
    int32_t id;              // kNoToken once merged into its left neighbour
    int32_t previous, next;  // -1 at the ends
  };
  struct Candidate {
    int32_t rank, left;  // left: index of a symbol
    int32_t left_id, right_id, result;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

}  // namespace quern::token
