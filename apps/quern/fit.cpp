#include "apps/quern/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/progress.h"
#include "engine/engine.h"

namespace quern::apps {
namespace {

// "20.9 B", "134.5 M"
std::string count_text(uint64_t n) {
  const auto x = static_cast<double>(n);
  return n >= 1'000'000'000 ? fmt::format("{:.1f} B", x / 1e9) : fmt::format("{:.1f} M", x / 1e6);
}

struct ExpertLayers {
  int n = 0;
  model::ExpertSpec first;  // of the first such layer
};

ExpertLayers expert_layers(const model::Spec& spec) {
  ExpertLayers found;
  for (const model::LayerSpec& layer : spec.layers) {
    if (layer.experts.n_experts == 0) continue;
    if (found.n++ == 0) found.first = layer.experts;
  }
  return found;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::experts_do_not:
      return "experts_do_not_fit";
    case Verdict::does_not:
      return "does_not_fit";
  }
  return "";
}

void add_fit(nlohmann::ordered_json& j, const Fit& fit) {
  j["weight_bytes"] = fit.sizes.bytes;
  j["active_bytes"] = fit.sizes.active_bytes;
  j["kv"] = {{"tokens", fit.n_ctx}, {"bytes", fit.kv_bytes}};
  j["memory"] = {{"available", fit.available}, {"total", fit.total}, {"verdict", verdict_name(fit.verdict)}};
}

}  // namespace

Fit fit_of(const model::Model& model, const Topology& topology) {
  Fit fit;
  fit.sizes = model::weight_sizes(model);
  fit.n_ctx = std::min(model.spec.n_ctx_train, engine::kDefaultMaxCtx);
  fit.kv_bytes = model::kv_bytes(model.spec, fit.n_ctx);
  fit.available = topology.memory_available;
  fit.total = topology.memory_total;
  if (topology.memory_limit) {
    fit.available = std::min(fit.available, *topology.memory_limit);
    fit.total = std::min(fit.total, *topology.memory_limit);
  }
  if (fit.sizes.bytes + fit.kv_bytes > fit.available) {
    const bool rest_fits = fit.sizes.bytes - fit.sizes.expert_bytes + fit.kv_bytes <= fit.available;
    fit.verdict = fit.sizes.expert_bytes > 0 && rest_fits ? Verdict::experts_do_not : Verdict::does_not;
  }
  return fit;
}

std::string verdict_text(const Fit& fit) {
  switch (fit.verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::experts_do_not:
      return "the experts do not fit: those that a token chooses are read from the file where memory does not hold "
             "them";
    case Verdict::does_not:
      return "does not fit: weights are read from the file again for each token";
  }
  return "";
}

std::string fit_line(const Fit& fit) {
  return fmt::format("{} of weights and {} of keys and values ({} tokens), {} available: {}",
                     human_bytes(fit.sizes.bytes), human_bytes(fit.kv_bytes), fit.n_ctx, human_bytes(fit.available),
                     verdict_text(fit));
}

std::vector<std::pair<std::string, std::string>> model_rows(const model::Model& model, const Fit& fit) {
  const model::Spec& spec = model.spec;
  const model::WeightSizes& sizes = fit.sizes;
  const ExpertLayers layers = expert_layers(spec);
  std::vector<std::pair<std::string, std::string>> rows;
  std::string params = count_text(sizes.params);
  if (layers.n > 0) params += fmt::format(", {} active for a token", count_text(sizes.active_params));
  rows.emplace_back("parameters", params);
  std::string blocks = fmt::format("{}, width {}", spec.layers.size(), spec.n_dim);
  if (spec.n_next_token_blocks > 0)
    blocks += fmt::format(", and {} for further tokens, not used", spec.n_next_token_blocks);
  rows.emplace_back("layers", blocks);
  if (layers.n > 0) {
    const model::ExpertSpec& e = layers.first;
    std::string text = fmt::format("{} in each of {} layers, {} used by a token", e.n_experts, layers.n, e.n_used);
    if (e.n_groups > 0) text += fmt::format(", from {} of {} groups", e.n_groups_used, e.n_groups);
    if (e.n_ff_shared > 0) text += ", and a shared one";
    rows.emplace_back("experts", text);
  }
  std::string weights =
      fmt::format("{}, {} read for a token", human_bytes(sizes.bytes), human_bytes(sizes.active_bytes));
  if (layers.n > 0) weights += fmt::format("; {} are experts", human_bytes(sizes.expert_bytes));
  rows.emplace_back("weights", weights);
  rows.emplace_back("context", fmt::format("{} tokens; keys and values of {} take {}", spec.n_ctx_train, fit.n_ctx,
                                           human_bytes(fit.kv_bytes)));
  rows.emplace_back("memory", fmt::format("{} available of {}: {}", human_bytes(fit.available), human_bytes(fit.total),
                                          verdict_text(fit)));
  return rows;
}

nlohmann::ordered_json model_json(const model::Model& model, const Fit& fit) {
  const ExpertLayers layers = expert_layers(model.spec);
  const model::ExpertSpec& e = layers.first;
  nlohmann::ordered_json j = {
      {"parameters", fit.sizes.params},     {"active_parameters", fit.sizes.active_params},
      {"layers", model.spec.layers.size()}, {"next_token_blocks", model.spec.n_next_token_blocks},
      {"width", model.spec.n_dim},          {"context", model.spec.n_ctx_train}};
  j["experts"] = nullptr;
  if (layers.n > 0) {
    j["experts"] = {{"count", e.n_experts},
                    {"used", e.n_used},
                    {"layers", layers.n},
                    {"groups", e.n_groups},
                    {"groups_used", e.n_groups_used},
                    {"shared", e.n_ff_shared > 0},
                    {"bytes", fit.sizes.expert_bytes}};
  }
  add_fit(j, fit);
  return j;
}

nlohmann::ordered_json fit_json(const std::string& path, const Fit& fit) {
  nlohmann::ordered_json j = {{"path", path}};
  add_fit(j, fit);
  return j;
}

}  // namespace quern::apps
