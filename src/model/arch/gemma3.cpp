// gemma3: norms before and after each half of a block, a norm on each query and key head, five windowed layers to each
// global one with a rotary base of their own. Linear rope scaling, where a file states it, is for the global layers.
#include "model/arch/arch.h"

namespace quern::model {

Arch gemma3();

Arch gemma3() {
  Arch arch = std_decoder("gemma3");
  arch.activation = Activation::gelu_tanh;
  arch.windows = WindowPattern::but_every_6th;
  arch.embed_scale = EmbedScale::sqrt_dim;
  arch.default_rope_base_swa = 10000;
  arch.dim_per_head_scale_at_layers = 62;  // 27B
  add_keys(arch, {
                     {"attention.sliding_window", &Params::window, Need::optional},
                     {"rope.freq_base_swa", &Params::rope_base_swa, Need::optional},
                     {"final_logit_softcapping", &Params::logit_softcap, Need::optional},
                 });
  add_tensors(arch, {
                        {Role::attn_q_norm, "blk.{}.attn_q_norm.weight", Dim::head_dim, Dim::one, Need::required},
                        {Role::attn_k_norm, "blk.{}.attn_k_norm.weight", Dim::head_dim, Dim::one, Need::required},
                        {Role::attn_post_norm, "blk.{}.post_attention_norm.weight", Dim::dim, Dim::one, Need::required},
                        {Role::ffn_post_norm, "blk.{}.post_ffw_norm.weight", Dim::dim, Dim::one, Need::required},
                    });
  return arch;
}

}  // namespace quern::model
