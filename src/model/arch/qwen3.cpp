// qwen3: the standard decoder with a norm on each query and key head.
#include "model/arch/arch.h"

namespace quern::model {

Arch qwen3();

Arch qwen3() {
  Arch arch = std_decoder("qwen3");
  add_tensors(arch, {
                        {Role::attn_q_norm, "blk.{}.attn_q_norm.weight", Dim::head_dim, Dim::one, Need::required},
                        {Role::attn_k_norm, "blk.{}.attn_k_norm.weight", Dim::head_dim, Dim::one, Need::required},
                    });
  return arch;
}

}  // namespace quern::model
