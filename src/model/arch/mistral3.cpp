// mistral3: Mistral and Ministral 3 with YaRN, whose queries may be scaled by position.
#include "model/arch/arch.h"

namespace quern::model {

Arch mistral3();

Arch mistral3() {
  Arch arch = std_decoder("mistral3");
  arch.rope = RopeKind::norm;
  arch.experts.renormalize = true;
  arch.experts.width = ExpertWidth::ff;
  add_experts(arch, Need::optional);
  add_keys(arch, {
                     {"attention.temperature_scale", &Params::attn_temperature, Need::optional},
                     {"rope.scaling.yarn_log_multiplier", &Params::yarn_log_multiplier, Need::optional},
                 });
  return arch;
}

}  // namespace quern::model
