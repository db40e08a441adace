// The sums behind eval: likelihood of a text, and Kullback-Leibler divergence between two models' next-token
// distributions. All in double over f32 logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern::apps {

// log of the sum of exp(row[i]); row: [n_vocab] f32.
double log_sum_exp(std::span<const float> row);
// The lowest index among the largest values.
size_t arg_max(std::span<const float> row);

class Likelihood {
 public:
  void add(std::span<const float> row, int32_t next);  // row: [n_vocab] f32, next: the token that followed
  int64_t count() const { return n_; }
  double mean() const;  // negative log likelihood per token, nats
  double perplexity() const;
  double perplexity_error() const;  // one standard error

 private:
  int64_t n_ = 0;
  double sum_ = 0, squares_ = 0;
};

class Divergence {
 public:
  // KL(base || other) at one position; base, other: [n_vocab] f32.
  void add(std::span<const float> base, std::span<const float> other);
  double mean() const;
  double mean_error() const;        // one standard error
  double quantile(double q) const;  // 1: the maximum
  double top1_agreement() const;

 private:
  std::vector<float> values_;  // one a position: the only thing that grows
  double sum_ = 0;
  int64_t n_same_ = 0;
};

}  // namespace quern::apps
