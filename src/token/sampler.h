// Choosing the next token from logits: penalties, filters, and a draw that a seed repeats exactly on any machine.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quern::token {

// Steps in order: logit_bias, penalties, top_k, typical_p, top_p, min_p, temperature, draw. The defaults are those that
// llama.cpp's users know.
struct SamplerOptions {
  float temperature = 0.8F;        // <= 0: the likeliest token, lowest id on ties; filters then change nothing
  int32_t top_k = 40;              // 0 or less: off
  float top_p = 0.95F;             // keeps the likeliest tokens up to this mass; 1: off
  float min_p = 0.05F;             // keeps tokens at least this likely relative to the likeliest; 0: off
  float typical_p = 1.0F;          // keeps tokens whose surprise is near the entropy, up to this mass; 1: off
  float repeat_penalty = 1.0F;     // divides positive and multiplies negative logits of recent tokens; 1: off
  int32_t repeat_last_n = 64;      // how many tokens, prompt included, are recent; 0: none; -1: all
  float presence_penalty = 0.0F;   // subtracted once per recent token
  float frequency_penalty = 0.0F;  // subtracted for each time a token is recent
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logits of ids; -infinity forbids an id
};

// SplitMix64 as a counter-based generator: draw i of a seed is mix(seed + (i + 1) * golden), whatever came before.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : seed_(seed) {}
  uint64_t next();
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  uint64_t position() const { return position_; }

 private:
  uint64_t seed_;
  uint64_t position_ = 0;
};

// One per sequence; not shared between threads. After creation it allocates nothing.
class Sampler {
 public:
  // Errors name the option that is out of range.
  static Result<Sampler> create(const SamplerOptions& options, int32_t n_vocab);

  // logits: [n_vocab]. NaN counts as -infinity, +infinity as the largest float. Where nothing is possible (all are
  // -infinity) the answer is 0. Each call that is not greedy takes one draw.
  int32_t sample(std::span<const float> logits);
  // The same among allowed tokens only, whatever bias says: bit i of word i / 64 allows token i; tokens past the last
  // word are not allowed. Where nothing is possible the answer is the first allowed token.
  int32_t sample(std::span<const float> logits, std::span<const uint64_t> allowed);
  // Makes a token recent: the prompt's tokens and then each one chosen. Ids outside the vocabulary are passed over.
  void accept(int32_t id);
  void reset();  // forgets recent tokens and starts the draws anew

  const SamplerOptions& options() const { return options_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
    double weight;  // exp(logit - largest), not normalized
  };
  Sampler(const SamplerOptions& options, int32_t n_vocab);
  void load(std::span<const float> logits);
  int32_t choose();  // among the loaded logits
  void penalize();
  int32_t greedy() const;
  void select_top_k();
  void keep_sorted(size_t n);
  void weigh(float inverse_temperature);
  void filter_typical();
  void filter_top_p();
  void filter_min_p();
  int32_t draw();
  void count(int32_t id, int32_t change);

  SamplerOptions options_;
  RandomStream random_;
  std::vector<float> logits_;          // [n_vocab], after bias and penalties
  std::vector<Candidate> candidates_;  // the tokens still in; the first n_sorted_ in order of logit, then of id
  size_t n_sorted_ = 0;
  std::vector<int32_t> recent_;  // ring of the last repeat_last_n ids
  size_t recent_next_ = 0;
  std::vector<int32_t> counts_;    // [n_vocab] how often an id is recent
  std::vector<int32_t> distinct_;  // ids whose count is not zero
  std::vector<int32_t> place_;     // [n_vocab] where an id stands in distinct_
};

struct TokenLogProb {
  int32_t id = 0;
  float log_prob = 0;
};
// The n likeliest tokens of softmax(logits), likeliest first, lower ids first on ties. logits: [n_vocab].
std::vector<TokenLogProb> top_log_probs(std::span<const float> logits, size_t n);
// log softmax(logits)[id]; -infinity where it is impossible or id is out of range.
float log_prob(std::span<const float> logits, int32_t id);

}  // namespace quern::token
