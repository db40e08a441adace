// Roles: what a tensor is for, independent of how a file names it. Arch rows map names to roles.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::model {

// X(role) in the order of use. Shapes, rows first:
//   ffn_gate_inp [n_experts, n_dim], ffn_gate_inp_bias and exp_probs_b (a bias for the choice only) [n_experts];
//   ffn_gate_exps and ffn_up_exps [n_ff, n_dim] and ffn_down_exps [n_dim, n_ff], each with depth n_experts;
//   their biases: a row per expert, f32, so [n_experts, n_ff] and [n_experts, n_dim] with depth 1;
//   ffn_gate_inp_shexp [n_dim], a vector; ffn_*_shexp as the dense ones, n_ff_shared wide.
// clang-format off
#define QUERN_ROLES(X)                                                                                       \
  X(token_embd) X(rope_freqs) X(rope_factors_long) X(rope_factors_short) X(output_norm) X(output)            \
  X(attn_norm) X(attn_q) X(attn_q_bias) X(attn_k) X(attn_k_bias) X(attn_v) X(attn_v_bias) X(attn_q_norm)     \
  X(attn_k_norm) X(attn_sinks) X(attn_output) X(attn_output_bias) X(attn_post_norm)                          \
  X(ffn_norm) X(ffn_gate) X(ffn_up) X(ffn_down)                                                              \
  X(ffn_gate_inp) X(ffn_gate_inp_bias) X(exp_probs_b) X(ffn_gate_exps) X(ffn_gate_exps_bias) X(ffn_up_exps)  \
  X(ffn_up_exps_bias) X(ffn_down_exps) X(ffn_down_exps_bias) X(ffn_gate_inp_shexp) X(ffn_gate_shexp)         \
  X(ffn_up_shexp) X(ffn_down_shexp) X(ffn_post_norm)
// clang-format on

enum class Role : uint8_t {
#define X(name) name,
  QUERN_ROLES(X)
#undef X
};

#define X(name) +1
inline constexpr size_t kRoleCount = 0 QUERN_ROLES(X);
#undef X

const char* role_name(Role role);

}  // namespace quern::model
