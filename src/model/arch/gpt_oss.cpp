// gpt-oss: every layer has experts, a window on each second one, attention sinks, biases everywhere, a clamped SwiGLU.
// An expert's weight is its share among the chosen.
#include "model/arch/arch.h"

namespace quern::model {

Arch gpt_oss();

Arch gpt_oss() {
  using enum Need;
  using enum Role;
  Arch arch = std_decoder("gpt-oss");
  arch.activation = Activation::swiglu_oai;
  arch.windows = WindowPattern::even;
  arch.scale_windowed_rope = true;
  arch.experts.gating = Gating::softmax_chosen;
  add_experts(arch, required);
  add_keys(arch, {
                     {"expert_feed_forward_length", &Params::n_ff_expert, required},
                     {"attention.sliding_window", &Params::window, required},
                     {"rope.freq_base_swa", &Params::rope_base_swa, optional},
                 });
  const auto bias = [](Role role, std::string_view name, Dim cols) {
    return TensorRow{role, name, cols, Dim::experts, required, {}, 0, Layers::experts, Dim::one, true};
  };
  add_tensors(arch, {
                        {attn_sinks, "blk.{}.attn_sinks.weight", Dim::heads, Dim::one, required},
                        {attn_output_bias, "blk.{}.attn_output.bias", Dim::dim, Dim::one, required},
                        {ffn_norm, "blk.{}.post_attention_norm.weight", Dim::dim, Dim::one, required},
                        {ffn_gate_inp_bias, "blk.{}.ffn_gate_inp.bias", Dim::experts, Dim::one, required},
                        bias(ffn_gate_exps_bias, "blk.{}.ffn_gate_exps.bias", Dim::ff_expert),
                        bias(ffn_up_exps_bias, "blk.{}.ffn_up_exps.bias", Dim::ff_expert),
                        bias(ffn_down_exps_bias, "blk.{}.ffn_down_exps.bias", Dim::dim),
                    });
  return arch;
}

}  // namespace quern::model
