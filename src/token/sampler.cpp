// The sampler. Weights are computed in double by an exponential of our own, so that a seed gives the same tokens
// wherever the logits are the same.
#include "token/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"

namespace quern::token {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// e^x for x <= 0, to about 2 ulp: x = k ln2 + r, and the series of e^r.
double exp_below(double x) {
  if (!(x > -745.0)) return 0.0;
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const double k = std::floor(x * 1.44269504088896340736 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;
  for (int i = 14; i > 0; --i) sum = 1.0 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(k));
}

// ln y for y >= 1, by Newton's steps on exp_below.
double log_above(double y) {
  int exponent = 0;
  const double mantissa = std::frexp(y, &exponent);
  double x = exponent * 0.69314718055994530942 + (mantissa - 1.0);
  for (int i = 0; i < 6; ++i) x += y * exp_below(-x) - 1.0;
  return x;
}

float sanitize(float logit) {
  if (std::isnan(logit)) return kImpossible;
  return std::min(logit, FLT_MAX);
}

Error out_of_range(const char* option, const char* range) {
  return Error{Status::invalid_argument, std::string("sampler option ") + option + " must be " + range};
}

}  // namespace

uint64_t RandomStream::next() {
  uint64_t z = seed_ + ++position_ * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

Result<Sampler> Sampler::create(const SamplerOptions& options, int32_t n_vocab) {
  const auto within = [](float value, float low, float high) { return value >= low && value <= high; };
  if (n_vocab <= 0) return Error{Status::invalid_argument, "a sampler needs a vocabulary"};
  if (std::isnan(options.temperature) || std::isinf(options.temperature)) return out_of_range("temperature", "finite");
  if (!within(options.top_p, 0, 1)) return out_of_range("top_p", "between 0 and 1");
  if (!within(options.min_p, 0, 1)) return out_of_range("min_p", "between 0 and 1");
  if (!within(options.typical_p, 0, 1)) return out_of_range("typical_p", "between 0 and 1");
  if (!(options.repeat_penalty > 0) || std::isinf(options.repeat_penalty)) {
    return out_of_range("repeat_penalty", "greater than 0");
  }
  if (options.repeat_last_n < -1) return out_of_range("repeat_last_n", "-1, 0 or a number of tokens");
  if (!within(options.presence_penalty, -1000, 1000)) return out_of_range("presence_penalty", "finite and reasonable");
  if (!within(options.frequency_penalty, -1000, 1000))
    return out_of_range("frequency_penalty", "finite and reasonable");
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || id >= n_vocab) return out_of_range("logit_bias", "given for ids of the vocabulary");
    if (std::isnan(bias)) return out_of_range("logit_bias", "a number");
  }
  try {
    return Sampler(options, n_vocab);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory for a sampler"};
  }
}

Sampler::Sampler(const SamplerOptions& options, int32_t n_vocab)
    : options_(options), random_(options.seed), logits_(static_cast<size_t>(n_vocab)) {
  const auto n = static_cast<size_t>(n_vocab);
  candidates_.reserve(n);
  if (options_.repeat_last_n == 0) return;
  if (options_.repeat_last_n > 0) recent_.assign(static_cast<size_t>(options_.repeat_last_n), -1);
  counts_.resize(n);
  place_.resize(n);
  distinct_.reserve(n);
}

void Sampler::reset() {
  for (const int32_t id : distinct_) counts_[static_cast<size_t>(id)] = 0;
  distinct_.clear();
  std::fill(recent_.begin(), recent_.end(), -1);
  recent_next_ = 0;
  random_ = RandomStream(options_.seed);
}

void Sampler::count(int32_t id, int32_t change) {
  const auto i = static_cast<size_t>(id);
  if (counts_[i] == 0) {
    place_[i] = static_cast<int32_t>(distinct_.size());
    distinct_.push_back(id);
  }
  counts_[i] += change;
  if (counts_[i] != 0) return;
  const int32_t last = distinct_.back();
  distinct_[static_cast<size_t>(place_[i])] = last;
  place_[static_cast<size_t>(last)] = place_[i];
  distinct_.pop_back();
}

void Sampler::accept(int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= logits_.size() || options_.repeat_last_n == 0) return;
  if (!recent_.empty()) {
    const int32_t oldest = std::exchange(recent_[recent_next_], id);
    recent_next_ = (recent_next_ + 1) % recent_.size();
    if (oldest >= 0) count(oldest, -1);
  }
  if (counts_[static_cast<size_t>(id)] < std::numeric_limits<int32_t>::max()) count(id, 1);
}

void Sampler::load(std::span<const float> logits) {
  QUERN_CHECK(logits.size() == logits_.size());
  std::transform(logits.begin(), logits.end(), logits_.begin(), sanitize);
  for (const auto& [id, bias] : options_.logit_bias) {
    float& logit = logits_[static_cast<size_t>(id)];
    logit = sanitize(logit + bias);
  }
  penalize();
}

void Sampler::penalize() {
  if (options_.repeat_penalty == 1 && options_.presence_penalty == 0 && options_.frequency_penalty == 0) return;
  for (const int32_t id : distinct_) {
    const auto i = static_cast<size_t>(id);
    float logit = logits_[i];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= static_cast<float>(counts_[i]) * options_.frequency_penalty + options_.presence_penalty;
    logits_[i] = sanitize(logit);
  }
}

// The first of the largest. Two passes, since compilers make vectors of the first one.
int32_t Sampler::greedy() const {
  constexpr size_t kLanes = 16;
  float largest[kLanes];
  std::fill(std::begin(largest), std::end(largest), kImpossible);
  size_t i = 0;
  for (; i + kLanes <= logits_.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      largest[lane] = logits_[i + lane] > largest[lane] ? logits_[i + lane] : largest[lane];
  }
  for (; i < logits_.size(); ++i) largest[0] = std::max(largest[0], logits_[i]);
  const float most = *std::max_element(std::begin(largest), std::end(largest));
  const auto found = std::find(logits_.begin(), logits_.end(), most);
  return found == logits_.end() ? 0 : static_cast<int32_t>(found - logits_.begin());
}

int32_t Sampler::sample(std::span<const float> logits) {
  load(logits);
  return choose();
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const uint64_t> allowed) {
  load(logits);
  size_t first = logits_.size();
  bool possible = false;
  for (size_t i = 0; i < logits_.size(); ++i) {
    if (i / 64 < allowed.size() && (allowed[i / 64] >> (i % 64) & 1) != 0) {
      first = std::min(first, i);
      possible = possible || logits_[i] != kImpossible;
    } else {
      logits_[i] = kImpossible;
    }
  }
  const int32_t id = choose();
  return possible || first == logits_.size() ? id : static_cast<int32_t>(first);
}

int32_t Sampler::choose() {
  if (options_.temperature <= 0) return greedy();
  select_top_k();
  if (candidates_.empty()) {
    random_.next();
    return 0;
  }
  if (options_.typical_p < 1) filter_typical();
  if (options_.top_p < 1) filter_top_p();
  if (options_.min_p > 0) filter_min_p();
  weigh(1 / options_.temperature);
  return draw();
}

namespace {

// Likelier first; lower id first on ties.
constexpr auto kBefore = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

}  // namespace

// The possible tokens, only the k best where top_k says so: one pass with a heap whose top is the worst kept.
void Sampler::select_top_k() {
  candidates_.clear();
  n_sorted_ = 0;
  const size_t k = options_.top_k > 0 ? static_cast<size_t>(options_.top_k) : logits_.size();
  const bool all = k >= logits_.size();
  for (size_t i = 0; i < logits_.size(); ++i) {
    const Candidate candidate{logits_[i], static_cast<int32_t>(i), 0};
    if (candidate.logit == kImpossible) continue;
    if (all || candidates_.size() < k) {
      candidates_.push_back(candidate);
      if (!all && candidates_.size() == k) std::make_heap(candidates_.begin(), candidates_.end(), kBefore);
    } else if (candidate.logit > candidates_.front().logit) {  // of equals the lower id, seen first, stays
      std::pop_heap(candidates_.begin(), candidates_.end(), kBefore);
      candidates_.back() = candidate;
      std::push_heap(candidates_.begin(), candidates_.end(), kBefore);
    }
  }
  if (!all) keep_sorted(candidates_.size());
}

// Puts the n best candidates in order at the front.
void Sampler::keep_sorted(size_t n) {
  n = std::min(n, candidates_.size());
  if (n <= n_sorted_) return;
  const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(n_sorted_);
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(n);
  if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), kBefore);
  std::sort(begin, end, kBefore);
  n_sorted_ = n;
}

void Sampler::weigh(float inverse_temperature) {
  float largest = kImpossible;
  for (const auto& candidate : candidates_) largest = std::max(largest, candidate.logit);
  for (auto& candidate : candidates_) {
    candidate.weight = exp_below((double{candidate.logit} - double{largest}) * double{inverse_temperature});
  }
}

void Sampler::filter_typical() {
  weigh(1);
  double total = 0;
  for (const auto& candidate : candidates_) total += candidate.weight;
  float largest = kImpossible;
  for (const auto& candidate : candidates_) largest = std::max(largest, candidate.logit);
  const double log_total = log_above(std::max(total, 1.0));
  // Surprise of a token: -ln p = ln total - (logit - largest). The entropy is its mean.
  const auto surprise = [&](const Candidate& c) { return log_total - (double{c.logit} - double{largest}); };
  double entropy = 0;
  for (const auto& candidate : candidates_) {
    if (candidate.weight > 0) entropy += candidate.weight / total * surprise(candidate);
  }
  std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
    const double x = std::fabs(surprise(a) - entropy);
    const double y = std::fabs(surprise(b) - entropy);
    return x < y || (x == y && a.id < b.id);
  });
  double mass = 0;
  size_t kept = 0;
  while (kept < candidates_.size() && (kept == 0 || mass <= double{options_.typical_p} * total)) {
    mass += candidates_[kept++].weight;
  }
  candidates_.resize(kept);
  n_sorted_ = 0;
}

// The shortest list of the likeliest that reaches the mass. It is sorted only as far as it goes.
void Sampler::filter_top_p() {
  weigh(1);
  double total = 0;
  for (const auto& candidate : candidates_) total += candidate.weight;
  const double wanted = double{options_.top_p} * total;
  double mass = 0;
  size_t kept = 0;
  for (size_t sorted = 64; kept < candidates_.size(); sorted *= 8) {
    keep_sorted(sorted);
    while (kept < n_sorted_) {
      mass += candidates_[kept++].weight;
      if (mass >= wanted) {
        candidates_.resize(kept);
        return;
      }
    }
  }
}

void Sampler::filter_min_p() {
  weigh(1);
  const double least = double{options_.min_p};
  const auto end =
      std::remove_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return c.weight < least; });
  const auto kept = static_cast<size_t>(end - candidates_.begin());
  n_sorted_ = std::min(n_sorted_, kept);  // those kept of a sorted front are its first
  candidates_.resize(kept);
}

int32_t Sampler::draw() {
  double total = 0;
  for (const auto& candidate : candidates_) total += candidate.weight;
  const double at = random_.uniform() * total;
  double mass = 0;
  for (const auto& candidate : candidates_) {
    mass += candidate.weight;
    if (at < mass) return candidate.id;
  }
  // Rounding only: the last one that has any weight.
  for (auto it = candidates_.rbegin(); it != candidates_.rend(); ++it) {
    if (it->weight > 0) return it->id;
  }
  return candidates_.front().id;
}

namespace {

struct SoftmaxScale {
  double largest = 0;
  double log_total = 0;
  bool possible = false;
};

SoftmaxScale softmax_scale(std::span<const float> logits) {
  float largest = kImpossible;
  for (const float logit : logits) largest = std::max(largest, sanitize(logit));
  if (largest == kImpossible) return {};
  double total = 0;
  for (const float logit : logits) total += exp_below(double{sanitize(logit)} - double{largest});
  return {double{largest}, log_above(total), true};
}

}  // namespace

std::vector<TokenLogProb> top_log_probs(std::span<const float> logits, size_t n) {
  const SoftmaxScale scale = softmax_scale(logits);
  if (!scale.possible) return {};
  struct Entry {
    float logit;
    int32_t id;
  };
  std::vector<Entry> best;
  for (size_t i = 0; i < logits.size(); ++i) {
    const Entry entry{sanitize(logits[i]), static_cast<int32_t>(i)};
    if (entry.logit == kImpossible || n == 0) continue;
    if (best.size() == n && !kBefore(entry, best.front())) continue;
    if (best.size() == n) {
      std::pop_heap(best.begin(), best.end(), kBefore);
      best.pop_back();
    }
    best.push_back(entry);
    std::push_heap(best.begin(), best.end(), kBefore);
  }
  std::sort(best.begin(), best.end(), kBefore);
  std::vector<TokenLogProb> result;
  for (const auto& entry : best) {
    result.push_back({entry.id, static_cast<float>(double{entry.logit} - scale.largest - scale.log_total)});
  }
  return result;
}

float log_prob(std::span<const float> logits, int32_t id) {
  const SoftmaxScale scale = softmax_scale(logits);
  if (!scale.possible || id < 0 || static_cast<size_t>(id) >= logits.size()) return kImpossible;
  return static_cast<float>(double{sanitize(logits[static_cast<size_t>(id)])} - scale.largest - scale.log_total);
}

}  // namespace quern::token
