#include "apps/quern/divergence.h"

#include <algorithm>
#include <cmath>

namespace quern::apps {

double log_sum_exp(std::span<const float> row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - top);
  return top + std::log(sum);
}

size_t arg_max(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

void Likelihood::add(std::span<const float> row, int32_t next) {
  const double nll = log_sum_exp(row) - row[static_cast<size_t>(next)];
  ++n_;
  sum_ += nll;
  squares_ += nll * nll;
}

double Likelihood::mean() const {
  return n_ == 0 ? 0 : sum_ / static_cast<double>(n_);
}
double Likelihood::perplexity() const {
  return std::exp(mean());
}

double Likelihood::perplexity_error() const {
  if (n_ < 2) return 0;
  const double variance = squares_ / static_cast<double>(n_) - mean() * mean();
  return perplexity() * std::sqrt(std::max(variance, 0.0) / static_cast<double>(n_ - 1));
}

void Divergence::add(std::span<const float> base, std::span<const float> other) {
  const double base_total = log_sum_exp(base), other_total = log_sum_exp(other);
  double kl = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_p = base[i] - base_total, log_q = other[i] - other_total;
    const double p = std::exp(log_p);
    if (p > 0) kl += p * (log_p - log_q);
  }
  values_.push_back(static_cast<float>(std::max(kl, 0.0)));
  sum_ += std::max(kl, 0.0);
  if (arg_max(base) == arg_max(other)) ++n_same_;
}

double Divergence::mean() const {
  return values_.empty() ? 0 : sum_ / static_cast<double>(values_.size());
}

double Divergence::mean_error() const {
  if (values_.size() < 2) return 0;
  double squares = 0;
  for (const float x : values_) squares += (x - mean()) * (x - mean());
  const auto n = static_cast<double>(values_.size());
  return std::sqrt(squares / (n - 1) / n);
}

double Divergence::quantile(double q) const {
  if (values_.empty()) return 0;
  std::vector<float> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(at), high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

double Divergence::top1_agreement() const {
  return values_.empty() ? 0 : static_cast<double>(n_same_) / static_cast<double>(values_.size());
}

}  // namespace quern::apps
