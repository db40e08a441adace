// Reads the goldens of make_goldens.py and says how far given logits are from them: a lower bound of the mean KL.
// Leaves to the caller the tiny model (tools/synth/tiny_models.py writes it) and its evaluation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::golden {

struct Golden {
  std::string model;                        // the tiny model's name: NAME.gguf
  double limit = 0;                         // mean_kl() of a right engine stays under this
  double least_control = 0;                 // the smallest misreading of the file scores this
  std::vector<int32_t> tokens;              // [n] one sequence from position 0
  std::vector<std::vector<int32_t>> ids;    // [n, k] tokens of the k largest logits, largest first
  std::vector<std::vector<double>> logits;  // [n, k]
  std::vector<double> logsumexp;            // [n] over the whole vocabulary
  double embedding_limit = 0;               // embedding_distance() of a right engine stays under this
  double least_embedding_control = 0;       // the smallest misreading that changes hidden states scores this
  // By pooling ("mean", "cls", "last"): [n_dim] the vector of all tokens, of length 1.
  std::map<std::string, std::vector<double>> embeddings;
};

// Nothing where the file is missing or is no golden.
inline std::optional<Golden> read_golden(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json j = nlohmann::json::parse(file, nullptr, false);
  if (j.is_discarded() || !j.contains("logsumexp")) return std::nullopt;
  Golden g;
  g.model = j.at("model").get<std::string>();
  g.limit = j.at("limit").get<double>();
  g.least_control = j.at("least_control").get<double>();
  g.tokens = j.at("tokens").get<std::vector<int32_t>>();
  g.ids = j.at("ids").get<std::vector<std::vector<int32_t>>>();
  g.logits = j.at("logits").get<std::vector<std::vector<double>>>();
  g.logsumexp = j.at("logsumexp").get<std::vector<double>>();
  g.embedding_limit = j.at("embedding_limit").get<double>();
  g.least_embedding_control = j.at("least_embedding_control").get<double>();
  for (const auto& item : j.at("embeddings").items())
    g.embeddings[item.key()] = item.value().get<std::vector<double>>();
  return g;
}

inline double log_sum_exp(std::span<const float> y) {
  const double top = *std::max_element(y.begin(), y.end());
  double sum = 0;
  for (float v : y) sum += std::exp(static_cast<double>(v) - top);
  return top + std::log(sum);
}

// Mean over positions of a lower bound of KL(reference || engine): the k largest tokens and "any other" as outcomes.
// Infinite where the shape is wrong or a logit is not finite, so that such logits can pass no limit.
inline double mean_kl(const Golden& g, std::span<const float> logits /* [n, n_vocab] */, size_t n_vocab) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  constexpr double kLeastRest = 1e-9;  // what rounding the golden's numbers leaves uncertain
  if (g.tokens.empty() || logits.size() != g.tokens.size() * n_vocab) return kWrong;
  double total = 0;
  for (size_t row = 0; row < g.tokens.size(); ++row) {
    const std::span<const float> y = logits.subspan(row * n_vocab, n_vocab);
    if (!std::all_of(y.begin(), y.end(), [](float v) { return std::isfinite(v); })) return kWrong;
    const double lse = log_sum_exp(y);
    double rest_p = 1, rest_q = 1;
    for (size_t k = 0; k < g.ids[row].size(); ++k) {
      const auto id = static_cast<size_t>(g.ids[row][k]);
      if (id >= n_vocab) return kWrong;
      const double log_p = g.logits[row][k] - g.logsumexp[row], log_q = static_cast<double>(y[id]) - lse;
      total += std::exp(log_p) * (log_p - log_q);
      rest_p -= std::exp(log_p);
      rest_q -= std::exp(log_q);
    }
    rest_p = std::max(rest_p, kLeastRest);
    rest_q = std::max(rest_q, kLeastRest);
    total += rest_p * (std::log(rest_p) - std::log(rest_q));
  }
  return total / static_cast<double>(g.tokens.size());
}

// 1 - cosine of the angle between an embedding and the golden's. Infinite where the shape is wrong or a number is not
// finite.
inline double embedding_distance(const Golden& g, const std::string& pooling, std::span<const float> vector) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  const auto at = g.embeddings.find(pooling);
  if (at == g.embeddings.end() || at->second.size() != vector.size()) return kWrong;
  double dot = 0, mine = 0, its = 0;
  for (size_t i = 0; i < vector.size(); ++i) {
    const double x = vector[i], y = at->second[i];
    dot += x * y;
    mine += x * x;
    its += y * y;
  }
  const double distance = 1 - dot / std::sqrt(mine * its);
  return std::isfinite(distance) ? distance : kWrong;
}

}  // namespace quern::golden
