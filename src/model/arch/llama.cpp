// llama: Llama 1 to 3 (rope factors by tensor), SmolLM2, Mistral (Small 24B too), Mixtral (with experts), TinyLlama.
// Queries and keys are stored permuted, so rotation pairs neighbours.
#include "model/arch/arch.h"

namespace quern::model {

Arch llama();

Arch llama() {
  Arch arch = std_decoder("llama");
  arch.rope = RopeKind::norm;
  arch.windows = WindowPattern::all;
  arch.experts.renormalize = true;
  arch.experts.width = ExpertWidth::ff;
  add_experts(arch, Need::optional);
  add_keys(arch, {{"attention.sliding_window", &Params::window, Need::optional}});
  return arch;
}

}  // namespace quern::model
