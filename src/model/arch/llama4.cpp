// llama4: each fourth layer attends to everything, without rotation and with queries scaled by position; the others
// rotate, see their chunk only, and normalize queries and keys without weights. Experts are in every n-th layer; the
// weight of one (a sigmoid) multiplies its input; a shared expert is always on.
#include "model/arch/arch.h"

namespace quern::model {

Arch llama4();

Arch llama4() {
  Arch arch = std_decoder("llama4");
  arch.rope = RopeKind::norm;
  arch.experts = {Gating::sigmoid, false, true, ExpertWidth::ff, SharedWidth::ff_expert};
  arch.chunked = {4, 8192, {0.1, 8192, 1}, 128};
  add_experts(arch, Need::required);
  add_shared_expert(arch);
  add_keys(arch, {
                     {"expert_feed_forward_length", &Params::n_ff_expert, Need::required},
                     {"interleave_moe_layer_step", &Params::expert_layer_step, Need::required},
                     {"attention.sliding_window", &Params::window, Need::optional},
                 });
  return arch;
}

}  // namespace quern::model
