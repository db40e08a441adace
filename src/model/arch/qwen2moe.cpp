// qwen2moe: Qwen 1.5 and 2 with experts. Weights of the chosen are their shares among all, not renormalized; a shared
// expert is gated by the sigmoid of one dot product.
#include "model/arch/arch.h"

namespace quern::model {

Arch qwen2moe();

Arch qwen2moe() {
  Arch arch = std_decoder("qwen2moe");
  arch.experts.shared = SharedWidth::ff;
  add_experts(arch, Need::required);
  add_shared_expert(arch);
  add_tensors(arch, {{Role::ffn_gate_inp_shexp,
                      "blk.{}.ffn_gate_inp_shexp.weight",
                      Dim::dim,
                      Dim::one,
                      Need::required,
                      {},
                      0,
                      Layers::shared_expert}});
  return arch;
}

}  // namespace quern::model
