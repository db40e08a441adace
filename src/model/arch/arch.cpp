// The rows of the standard decoder, and the list of all architectures.
#include "model/arch/arch.h"

#include <algorithm>

namespace quern::model {

const char* role_name(Role role) {
  static constexpr const char* kNames[] = {
#define X(name) #name,
      QUERN_ROLES(X)
#undef X
  };
  return kNames[static_cast<size_t>(role)];
}

Arch std_decoder(std::string_view name) {
  using enum Need;
  using enum Role;
  Arch arch;
  arch.name = name;
  arch.keys = {
      {"block_count", &Params::n_layers, required},
      {"context_length", &Params::n_ctx_train, required},
      {"embedding_length", &Params::n_dim, required},
      {"feed_forward_length", &Params::n_ff, required},
      {"attention.head_count", &Params::n_heads, required},
      {"attention.head_count_kv", &Params::n_kv_heads, optional},
      {"attention.key_length", &Params::key_length, optional},
      {"attention.value_length", &Params::value_length, optional},
      {"attention.layer_norm_rms_epsilon", &Params::norm_eps, required},
      {"attention.causal", &Params::causal, optional},
      {"attention.scale", &Params::attn_scale, optional},
      {"attention.sliding_window_pattern", &Params::window_pattern, optional},
      {"pooling_type", &Params::pooling, optional},
      {"vocab_size", &Params::n_vocab, optional},
      {"rope.dimension_count", &Params::rope_dims, optional},
      {"rope.freq_base", &Params::rope_base, optional},
      {"rope.scale_linear", &Params::rope_scale_linear, optional},
      {"rope.scaling.type", &Params::rope_scaling, optional},
      {"rope.scaling.factor", &Params::rope_scale_factor, optional},
      {"rope.scaling.original_context_length", &Params::rope_original_ctx, optional},
      {"rope.scaling.attn_factor", &Params::rope_attn_factor, optional},
      {"rope.scaling.yarn_beta_fast", &Params::yarn_beta_fast, optional},
      {"rope.scaling.yarn_beta_slow", &Params::yarn_beta_slow, optional},
  };
  arch.tensors = {
      {token_embd, "token_embd.weight", Dim::dim, Dim::vocab, required},
      {output_norm, "output_norm.weight", Dim::dim, Dim::one, required},
      {output, "output.weight", Dim::dim, Dim::vocab, optional},  // absent: tied to token_embd
      {rope_freqs, "rope_freqs.weight", Dim::half_rope, Dim::one, optional},
      {attn_norm, "blk.{}.attn_norm.weight", Dim::dim, Dim::one, required},
      {attn_q, "blk.{}.attn_q.weight", Dim::dim, Dim::q_rows, required},
      {attn_q_bias, "blk.{}.attn_q.bias", Dim::q_rows, Dim::one, optional},
      {attn_k, "blk.{}.attn_k.weight", Dim::dim, Dim::kv_rows, required},
      {attn_k_bias, "blk.{}.attn_k.bias", Dim::kv_rows, Dim::one, optional},
      {attn_v, "blk.{}.attn_v.weight", Dim::dim, Dim::kv_rows, required},
      {attn_v_bias, "blk.{}.attn_v.bias", Dim::kv_rows, Dim::one, optional},
      {attn_q_norm, "blk.{}.attn_q_norm.weight", Dim::head_dim, Dim::one, optional},
      {attn_k_norm, "blk.{}.attn_k_norm.weight", Dim::head_dim, Dim::one, optional},
      {attn_output, "blk.{}.attn_output.weight", Dim::q_rows, Dim::dim, required},
      {attn_output_bias, "blk.{}.attn_output.bias", Dim::dim, Dim::one, optional},
      {ffn_norm, "blk.{}.ffn_norm.weight", Dim::dim, Dim::one, required},
      {ffn_gate, "blk.{}.ffn_gate.weight", Dim::dim, Dim::ff, required, {}, 0, Layers::dense},
      {ffn_up, "blk.{}.ffn_up.weight", Dim::dim, Dim::ff, required, {}, 0, Layers::dense},
      {ffn_down, "blk.{}.ffn_down.weight", Dim::ff, Dim::dim, required, {}, 0, Layers::dense},
  };
  return arch;
}

void remove_tensor(Arch& arch, Role role) {
  std::erase_if(arch.tensors, [role](const TensorRow& row) { return row.role == role; });
}

void add_tensors(Arch& arch, std::vector<TensorRow> rows) {
  for (TensorRow& row : rows) {
    remove_tensor(arch, row.role);
    arch.tensors.push_back(std::move(row));
  }
}

void add_keys(Arch& arch, const std::vector<KeyRow>& rows) {
  for (const KeyRow& row : rows) {
    std::erase_if(arch.keys, [&](const KeyRow& old) { return old.suffix == row.suffix; });
    arch.keys.push_back(row);
  }
}

void add_experts(Arch& arch, Need need) {
  using enum Need;
  using enum Role;
  arch.requires_experts = need == required;
  add_keys(arch,
           {
               {"expert_count", &Params::n_experts, need},
               {"expert_used_count", &Params::n_experts_used, need},
               {"expert_feed_forward_length", &Params::n_ff_expert, optional},
               {"expert_gating_func", &Params::gating, optional},
               {"expert_weights_norm", &Params::renormalize, optional},
               {"expert_weights_scale", &Params::expert_scale, optional},
               {"expert_group_count", &Params::n_groups, optional},
               {"expert_group_used_count", &Params::n_groups_used, optional},
               {"feed_forward_length", &Params::n_ff, optional},  // dense layers want it, and are asked one by one
               {"leading_dense_block_count", &Params::dense_lead, optional},
               {"nextn_predict_layers", &Params::n_next_token_blocks, optional},
           });
  const auto row = [](Role role, std::string_view name, Dim cols, Dim rows, Need n, Dim depth = Dim::one) {
    return TensorRow{role, name, cols, rows, n, {}, 0, Layers::experts, depth};
  };
  const auto bias = [](Role role, std::string_view name, Dim cols) {
    return TensorRow{role, name, cols, Dim::experts, optional, {}, 0, Layers::experts, Dim::one, true};
  };
  add_tensors(arch,
              {
                  row(ffn_gate_inp, "blk.{}.ffn_gate_inp.weight", Dim::dim, Dim::experts, required),
                  row(ffn_gate_inp_bias, "blk.{}.ffn_gate_inp.bias", Dim::experts, Dim::one, optional),
                  row(exp_probs_b, "blk.{}.exp_probs_b.bias", Dim::experts, Dim::one, optional),
                  row(ffn_gate_exps, "blk.{}.ffn_gate_exps.weight", Dim::dim, Dim::ff_expert, required, Dim::experts),
                  row(ffn_up_exps, "blk.{}.ffn_up_exps.weight", Dim::dim, Dim::ff_expert, required, Dim::experts),
                  row(ffn_down_exps, "blk.{}.ffn_down_exps.weight", Dim::ff_expert, Dim::dim, required, Dim::experts),
                  bias(ffn_gate_exps_bias, "blk.{}.ffn_gate_exps.bias", Dim::ff_expert),
                  bias(ffn_up_exps_bias, "blk.{}.ffn_up_exps.bias", Dim::ff_expert),
                  bias(ffn_down_exps_bias, "blk.{}.ffn_down_exps.bias", Dim::dim),
              });
}

void add_shared_expert(Arch& arch) {
  using enum Role;
  add_keys(arch, {
                     {"expert_shared_count", &Params::n_shared, Need::optional},
                     {"expert_shared_feed_forward_length", &Params::n_ff_shared, Need::optional},
                 });
  const auto row = [](Role role, std::string_view name, Dim cols, Dim rows) {
    return TensorRow{role, name, cols, rows, Need::required, {}, 0, Layers::shared_expert};
  };
  add_tensors(arch, {
                        row(ffn_gate_shexp, "blk.{}.ffn_gate_shexp.weight", Dim::dim, Dim::ff_shared),
                        row(ffn_up_shexp, "blk.{}.ffn_up_shexp.weight", Dim::dim, Dim::ff_shared),
                        row(ffn_down_shexp, "blk.{}.ffn_down_shexp.weight", Dim::ff_shared, Dim::dim),
                    });
}

#define QUERN_ARCH(name) Arch name();
#include "model/arch/list.inc"
#undef QUERN_ARCH

namespace {

const std::vector<Arch>& all_archs() {
  static const std::vector<Arch> archs = {
#define QUERN_ARCH(name) name(),
#include "model/arch/list.inc"
#undef QUERN_ARCH
  };
  return archs;
}

}  // namespace

const Arch* find_arch(std::string_view name) {
  const auto& archs = all_archs();
  const auto it = std::find_if(archs.begin(), archs.end(), [name](const Arch& arch) { return arch.name == name; });
  return it == archs.end() ? nullptr : &*it;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Arch& arch : all_archs()) names.emplace_back(arch.name);
  return names;
}

}  // namespace quern::model
