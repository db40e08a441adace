// Pooling: the normed states of a text's tokens into one vector of length 1. Internal to engine/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/spec.h"

namespace quern::engine {

// "mean", "cls", "last"; "" for the others.
const char* pooling_name(model::Pooling pooling);
// What `wanted` says ("mean", "cls", "last"); with "" or "auto" what the file says, and last where it says nothing.
// Errors: invalid_argument for another word; unsupported where the file's pooling gives no vector.
Result<model::Pooling> choose_pooling(const std::string& wanted, model::Pooling of_file);

// A pool fills with the positions of a timeline, from 0 on in order. Sums are in double, one position after another, so
// the vector does not depend on how the timeline was cut into runs.
class Pool {
 public:
  Pool(model::Pooling how, int n_dim) : how_(how), sum_(static_cast<size_t>(n_dim)) {}

  // Of a timeline whose first `shared` positions are those of a text of n_tokens: where the first run has to begin.
  size_t begins_at(size_t shared, size_t n_tokens) const;
  // The timeline has only its first n positions left.
  void truncate(size_t n);
  // Of a run of n positions from `first` on, the rows that are wanted: their numbers in the run go to rows ([n]), and
  // how many they are is the result. at_end: the text ends with the run.
  int wanted(int first, int n, bool at_end, int32_t* rows) const;
  // The states of those rows, [n_wanted, n_dim], of a run of n positions.
  void add(int n, std::span<const float> states);
  // Error: unsupported where it has no direction (all zero, or not finite).
  Result<void> vector(std::span<float> out /*[n_dim]*/) const;

 private:
  model::Pooling how_;
  std::vector<double> sum_;  // [n_dim]
  size_t n_known_ = 0;       // positions that sum_ is of; not so where the last one counts
};

}  // namespace quern::engine
