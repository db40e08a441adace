// glm4moe: GLM 4.5. The first layers are dense; each expert's score is a sigmoid of its own, with a bias that counts
// for the choice only; a shared expert is always on. Half of each head is rotated. Blocks that predict the next tokens
// are at the end of the file and not part of the network.
#include "model/arch/arch.h"

namespace quern::model {

Arch glm4moe();

Arch glm4moe() {
  Arch arch = std_decoder("glm4moe");
  arch.experts.gating = Gating::sigmoid;
  add_experts(arch, Need::required);
  add_shared_expert(arch);
  add_keys(arch, {{"expert_shared_count", &Params::n_shared, Need::required}});
  add_tensors(arch, {
                        {Role::ffn_norm, "blk.{}.post_attention_norm.weight", Dim::dim, Dim::one, Need::required},
                        {Role::exp_probs_b,
                         "blk.{}.exp_probs_b.bias",
                         Dim::experts,
                         Dim::one,
                         Need::required,
                         {},
                         0,
                         Layers::experts},
                    });
  return arch;
}

}  // namespace quern::model
