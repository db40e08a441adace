// qwen3moe: qwen3 with experts whose weights are renormalized.
#include "model/arch/arch.h"

namespace quern::model {

Arch qwen3moe();

Arch qwen3moe() {
  Arch arch = std_decoder("qwen3moe");
  arch.experts.renormalize = true;
  add_experts(arch, Need::required);
  add_tensors(arch, {
                        {Role::attn_q_norm, "blk.{}.attn_q_norm.weight", Dim::head_dim, Dim::one, Need::required},
                        {Role::attn_k_norm, "blk.{}.attn_k_norm.weight", Dim::head_dim, Dim::one, Need::required},
                    });
  return arch;
}

}  // namespace quern::model
