// qwen2: Qwen 2 and 2.5. The standard decoder with biases on q, k and v (found by their tensors).
#include "model/arch/arch.h"

namespace quern::model {

Arch qwen2();

Arch qwen2() {
  return std_decoder("qwen2");
}

}  // namespace quern::model
