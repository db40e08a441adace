// The same linked list and heap as bpe.cpp, over texts instead of ids: SentencePiece lets two symbols merge whenever
// their joined text is a token, even where one of them alone is not.
#include "token/spm.h"

#include <algorithm>
#include <cmath>

#include "token/unicode.h"

namespace quern::token {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct Symbol {
  uint32_t begin, bytes;   // in the escaped text; bytes is 0 once merged into its left neighbour
  int32_t previous, next;  // -1 at the ends
};

struct Candidate {
  float score;
  int32_t left;
  uint32_t bytes;  // of both symbols together: a candidate is stale when they no longer add up to it
};

bool comes_later(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score < b.score : a.left > b.left;
}

std::string escape_spaces(std::string_view text, bool prefix) {
  std::string out;
  out.reserve(text.size() + 16);
  if (prefix) out += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::vector<Symbol> read_symbols(std::string_view text) {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t bytes = decode_utf8(text, at).length;
    const int32_t index = static_cast<int32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(at), bytes, index - 1, index + 1});
    at += bytes;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

}  // namespace

Result<SpmModel> SpmModel::create(const Vocab& vocab, const VocabData& data) {
  SpmModel model;
  model.pieces_ = TextMap(static_cast<size_t>(vocab.size()));
  model.scores_ = data.scores;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    if (std::isnan(model.scores_[static_cast<size_t>(id)])) {
      return Error{Status::invalid_file, "tokenizer: the score of token " + std::to_string(id) + " is not a number"};
    }
    if (vocab.is_markup(id) || vocab.type(id) == TokenType::byte) continue;
    model.pieces_.add(vocab.text(id), id);
    model.longest_ = std::max(model.longest_, vocab.text(id).size());
  }
  for (int b = 0; b < 256 && vocab.unk == kNoToken; ++b) {
    if (vocab.byte_token(static_cast<uint8_t>(b)) == kNoToken) {
      return Error{Status::invalid_file,
                   "tokenizer: byte " + std::to_string(b) + " has no token, and there is no unknown token"};
    }
  }
  return model;
}

void SpmModel::append_unmatched(const Vocab& vocab, std::string_view symbol, bool& after_unknown,
                                std::vector<int32_t>& ids) const {
  const auto token_of = [&](char c) { return vocab.byte_token(static_cast<uint8_t>(c)); };
  if (std::all_of(symbol.begin(), symbol.end(), [&](char c) { return token_of(c) != kNoToken; })) {
    for (const char c : symbol) ids.push_back(token_of(c));
    after_unknown = false;
  } else if (!after_unknown) {  // neighbours that are unknown share one token
    ids.push_back(vocab.unk);
    after_unknown = true;
  }
}

uint64_t SpmModel::encode(const Vocab& vocab, std::string_view text, bool prefix, std::vector<int32_t>& ids) const {
  const std::string escaped = escape_spaces(text, prefix);
  std::vector<Symbol> symbols = read_symbols(escaped);
  const auto text_of = [&](const Symbol& s, uint32_t bytes) {
    return std::string_view(escaped).substr(s.begin, bytes);
  };

  uint64_t pushed = 0;
  std::vector<Candidate> heap;
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& l = symbols[static_cast<size_t>(left)];
    const uint32_t bytes = l.bytes + symbols[static_cast<size_t>(right)].bytes;
    if (bytes > longest_) return;
    const int32_t id = pieces_.find(text_of(l, bytes));
    if (id == kNoToken) return;
    heap.push_back({scores_[static_cast<size_t>(id)], left, bytes});
    std::push_heap(heap.begin(), heap.end(), comes_later);
    ++pushed;
  };
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) consider(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbols[static_cast<size_t>(top.left)];
    if (left.bytes == 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (left.bytes + right.bytes != top.bytes) continue;
    left.bytes = top.bytes;
    right.bytes = 0;
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = top.left;
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }

  bool after_unknown = false;
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    const std::string_view symbol = text_of(symbols[static_cast<size_t>(i)], symbols[static_cast<size_t>(i)].bytes);
    const int32_t id = pieces_.find(symbol);
    if (id == kNoToken) {
      append_unmatched(vocab, symbol, after_unknown, ids);
    } else {
      ids.push_back(id);
      after_unknown = false;
    }
  }
  return pushed;
}

}  // namespace quern::token
