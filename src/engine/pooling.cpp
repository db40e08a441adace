#include "engine/pooling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace quern::engine {
namespace {

using model::Pooling;

struct Word {
  const char* name;
  Pooling pooling;
};
constexpr Word kWords[] = {{"mean", Pooling::mean}, {"cls", Pooling::cls}, {"last", Pooling::last}};

}  // namespace

const char* pooling_name(Pooling pooling) {
  for (const Word& word : kWords) {
    if (word.pooling == pooling) return word.name;
  }
  return "";
}

Result<Pooling> choose_pooling(const std::string& wanted, Pooling of_file) {
  for (const Word& word : kWords) {
    if (wanted == word.name) return word.pooling;
  }
  if (!wanted.empty() && wanted != "auto")
    return Error{Status::invalid_argument, "unknown pooling '" + wanted + "' (these are: auto, mean, cls, last)"};
  switch (of_file) {
    case Pooling::unstated:
      return Pooling::last;
    case Pooling::none:
      return Error{Status::unsupported,
                   "the model's file states no pooling (pooling_type 0): choose one with --pooling for embeddings"};
    case Pooling::rank:
      return Error{Status::unsupported, "the model is a reranker (pooling_type 4): it gives no embeddings"};
    default:
      return of_file;
  }
}

size_t Pool::begins_at(size_t shared, size_t n_tokens) const {
  if (how_ == Pooling::last) return std::min(shared, n_tokens - 1);
  return n_known_ <= shared ? n_known_ : 0;
}

void Pool::truncate(size_t n) {
  if (n >= n_known_) return;
  std::fill(sum_.begin(), sum_.end(), 0.0);
  n_known_ = 0;
}

int Pool::wanted(int first, int n, bool at_end, int32_t* rows) const {
  if (how_ == Pooling::mean) {
    std::iota(rows, rows + n, 0);
    return n;
  }
  const bool has_it = how_ == Pooling::cls ? first == 0 : at_end;
  rows[0] = how_ == Pooling::cls ? 0 : n - 1;
  return has_it ? 1 : 0;
}

void Pool::add(int n, std::span<const float> states) {
  QUERN_CHECK(states.size() % sum_.size() == 0);
  if (how_ == Pooling::last) truncate(0);
  for (size_t at = 0; at < states.size(); at += sum_.size()) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(states[at + i]);
  }
  n_known_ += static_cast<size_t>(n);
}

// The mean has the direction of the sum.
Result<void> Pool::vector(std::span<float> out) const {
  double square = 0;
  for (const double x : sum_) square += x * x;
  const double length = std::sqrt(square);
  if (!(length > 0) || !std::isfinite(length))
    return Error{Status::unsupported, "this text has no embedding: the states of its tokens are zero or not finite"};
  std::transform(sum_.begin(), sum_.end(), out.begin(), [&](double x) { return static_cast<float>(x / length); });
  return {};
}

}  // namespace quern::engine
