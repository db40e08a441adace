// Roles: what a tensor is for, independent of how a file names it. Arch rows map names to roles.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::model {

// X(role) in the order of use.
// clang-format off
#define QUERN_ROLES(X)                                                                                       \
  X(token_embd) X(rope_freqs) X(rope_factors_long) X(rope_factors_short) X(output_norm) X(output)            \
  X(attn_norm) X(attn_q) X(attn_q_bias) X(attn_k) X(attn_k_bias) X(attn_v) X(attn_v_bias) X(attn_q_norm)     \
  X(attn_k_norm) X(attn_sinks) X(attn_output) X(attn_output_bias) X(attn_post_norm)                          \
  X(ffn_norm) X(ffn_gate) X(ffn_up) X(ffn_down) X(ffn_post_norm)
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
