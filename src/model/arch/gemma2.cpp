// gemma2: norms before and after each half of a block, soft-capped scores and logits, a window on even layers.
#include "model/arch/arch.h"

namespace quern::model {

Arch gemma2();

Arch gemma2() {
  Arch arch = std_decoder("gemma2");
  arch.activation = Activation::gelu_tanh;
  arch.windows = WindowPattern::even;
  arch.embed_scale = EmbedScale::sqrt_dim;
  arch.dim_per_head_scale_at_layers = 46;  // 27B
  arch.default_window = 4096;
  arch.default_attn_softcap = 50;
  arch.default_logit_softcap = 30;
  add_keys(arch, {
                     {"attention.sliding_window", &Params::window, Need::optional},
                     {"attn_logit_softcapping", &Params::attn_softcap, Need::optional},
                     {"final_logit_softcapping", &Params::logit_softcap, Need::optional},
                 });
  add_tensors(arch, {
                        {Role::attn_post_norm, "blk.{}.post_attention_norm.weight", Dim::dim, Dim::one, Need::required},
                        {Role::ffn_post_norm, "blk.{}.post_ffw_norm.weight", Dim::dim, Dim::one, Need::required},
                    });
  return arch;
}

}  // namespace quern::model
