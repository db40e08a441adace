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
      {"attention.scale", &Params::attn_scale, optional},
      {"attention.sliding_window_pattern", &Params::window_pattern, optional},
      {"vocab_size", &Params::n_vocab, optional},
      {"rope.dimension_count", &Params::rope_dims, optional},
      {"rope.freq_base", &Params::rope_base, optional},
      {"rope.scale_linear", &Params::rope_scale_linear, optional},
      {"rope.scaling.type", &Params::rope_scaling, optional},
      {"rope.scaling.factor", &Params::rope_scale_factor, optional},
      {"rope.scaling.original_context_length", &Params::rope_original_ctx, optional},
      {"rope.scaling.attn_factor", &Params::rope_attn_factor, optional},
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
      {ffn_gate, "blk.{}.ffn_gate.weight", Dim::dim, Dim::ff, required},
      {ffn_up, "blk.{}.ffn_up.weight", Dim::dim, Dim::ff, required},
      {ffn_down, "blk.{}.ffn_down.weight", Dim::ff, Dim::dim, required},
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
  arch.keys.insert(arch.keys.end(), rows.begin(), rows.end());
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
