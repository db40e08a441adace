// How large a model is, and how much of it a token touches.
#include <algorithm>

#include "model/model.h"

namespace quern::model {
namespace {

bool is_of_experts(Role role) {
  switch (role) {
    case Role::ffn_gate_exps:
    case Role::ffn_gate_exps_bias:
    case Role::ffn_up_exps:
    case Role::ffn_up_exps_bias:
    case Role::ffn_down_exps:
    case Role::ffn_down_exps_bias:
      return true;
    default:
      return false;
  }
}

uint64_t params_of(const Weight& weight) {
  return static_cast<uint64_t>(weight.cols) * static_cast<uint64_t>(weight.rows) * static_cast<uint64_t>(weight.depth);
}

}  // namespace

WeightSizes weight_sizes(const Model& model) {
  WeightSizes sizes;
  // `used` of `all` equal parts are read by a token.
  const auto add = [&](const Weight& weight, uint64_t used, uint64_t all) {
    sizes.bytes += weight.bytes();
    sizes.params += params_of(weight);
    sizes.active_bytes += weight.bytes() / all * used;
    sizes.active_params += params_of(weight) / all * used;
  };
  for (size_t r = 0; r < kRoleCount; ++r) {
    const Role role = static_cast<Role>(r);
    const Weight* weight = model.globals.get(role);
    if (weight == nullptr) continue;
    const bool one_row = role == Role::token_embd && model.globals.has(Role::output);
    add(*weight, 1, one_row ? static_cast<uint64_t>(weight->rows) : 1);
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const ExpertSpec& experts = model.spec.layers[i].experts;
    for (size_t r = 0; r < kRoleCount; ++r) {
      const Role role = static_cast<Role>(r);
      const Weight* weight = model.layers[i].get(role);
      if (weight == nullptr) continue;
      const bool some = is_of_experts(role);
      if (some) sizes.expert_bytes += weight->bytes();
      add(*weight, some ? static_cast<uint64_t>(experts.n_used) : 1,
          some ? static_cast<uint64_t>(experts.n_experts) : 1);
    }
  }
  return sizes;
}

uint64_t kv_bytes(const Spec& spec, int n_ctx) {
  constexpr uint64_t kHalf = 2, kKeysAndValues = 2;
  uint64_t bytes = 0;
  for (const LayerSpec& layer : spec.layers) {
    const int kept = layer.window > 0 ? std::min(layer.window, n_ctx) : n_ctx;
    bytes += kHalf * kKeysAndValues * static_cast<uint64_t>(layer.n_kv_heads) * static_cast<uint64_t>(layer.head_dim) *
             static_cast<uint64_t>(kept);
  }
  return bytes;
}

}  // namespace quern::model
