// Merging with a heap of candidates over a linked list of symbols. A candidate whose symbols have changed since it was
// pushed is dropped when it comes up, so nothing is ever searched or removed from the middle of the heap.
#include "token/bpe.h"

#include <algorithm>

#include "base/log.h"

namespace quern::token {
namespace {

using Symbol = BpeModel::Scratch::Symbol;
using Candidate = BpeModel::Scratch::Candidate;

// Heap order: the top is the lowest rank, then the leftmost.
bool comes_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

Result<Merge> read_merge(const Vocab& vocab, std::string_view line, int32_t rank, int32_t& left, int32_t& right) {
  const auto bad = [&](const std::string& why) {
    return Error{Status::invalid_file,
                 "tokenizer: merge " + std::to_string(rank) + " '" + std::string(line.substr(0, 80)) + "' " + why};
  };
  const size_t space = line.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == line.size()) return bad("is not two parts with a space between");
  left = vocab.find(line.substr(0, space));
  right = vocab.find(line.substr(space + 1));
  return Merge{rank, vocab.find(std::string(line.substr(0, space)) += line.substr(space + 1))};
}

}  // namespace

Result<BpeModel> BpeModel::create(const Vocab& vocab, const VocabData& data, bool ignore_merges) {
  BpeModel model;
  model.merges_ = MergeMap(data.merges.size());
  size_t n_idle = 0;
  std::string_view first_idle;
  for (size_t i = 0; i < data.merges.size(); ++i) {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    QUERN_TRY(const Merge merge, read_merge(vocab, data.merges[i], static_cast<int32_t>(i), left, right));
    // A merge of or to something that is no token can never be made: the peers' loaders let it stand, and so do we.
    if (left == kNoToken || right == kNoToken || merge.result == kNoToken) {
      if (n_idle++ == 0) first_idle = data.merges[i];
      continue;
    }
    // Text never turns into markup; a repeated pair keeps its better rank.
    if (!vocab.is_markup(merge.result)) model.merges_.add(left, right, merge);
  }
  if (n_idle > 0) {
    log_warning("tokenizer: " + std::to_string(n_idle) +
                " merges are of or to no token and have no effect, the first is '" +
                std::string(first_idle.substr(0, 80)) + "'");
  }
  model.ignore_merges_ = ignore_merges;
  if (ignore_merges) {
    model.words_ = TextMap(static_cast<size_t>(vocab.size()));
    for (int32_t id = 0; id < vocab.size(); ++id) {
      if (!vocab.is_markup(id)) model.words_.add(vocab.bytes(id), id);
    }
  }
  return model;
}

uint64_t BpeModel::encode(const Vocab& vocab, std::string_view word, Scratch& scratch,
                          std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const int32_t whole = words_.find(word);
    if (whole != kNoToken) {
      ids.push_back(whole);
      return 1;
    }
  }
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (const char byte : word) {
    const int32_t id = vocab.byte_token(static_cast<uint8_t>(byte));
    if (id == kNoToken) continue;
    const int32_t index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  }
  if (symbols.empty()) return 0;
  symbols.back().next = -1;

  uint64_t pushed = 0;
  std::vector<Candidate>& heap = scratch.heap;
  heap.clear();
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const int32_t left_id = symbols[static_cast<size_t>(left)].id;
    const int32_t right_id = symbols[static_cast<size_t>(right)].id;
    const Merge merge = merges_.find(left_id, right_id);
    if (merge.rank < 0) return;
    heap.push_back({merge.rank, left, left_id, right_id, merge.result});
    std::push_heap(heap.begin(), heap.end(), comes_later);
    ++pushed;
  };
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) consider(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbols[static_cast<size_t>(top.left)];
    if (left.id != top.left_id || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != top.right_id) continue;
    left.id = top.result;
    right.id = kNoToken;
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = top.left;
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    ids.push_back(symbols[static_cast<size_t>(i)].id);
  return pushed;
}

}  // namespace quern::token
