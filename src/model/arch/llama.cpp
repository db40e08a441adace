// llama: Llama 1 to 3 (rope factors by tensor), SmolLM2, Mistral, TinyLlama. Queries and keys are stored permuted, so
// rotation pairs neighbours.
#include "model/arch/arch.h"

namespace quern::model {

Arch llama();

Arch llama() {
  Arch arch = std_decoder("llama");
  arch.rope = RopeKind::norm;
  arch.windows = WindowPattern::all;
  add_keys(arch, {{"attention.sliding_window", &Params::window, Need::optional}});
  return arch;
}

}  // namespace quern::model
