// Experts: from keys to the ExpertSpec of a layer. Which tensors they have is load.cpp's business.
#pragma once

#include "model/arch/arch.h"
#include "model/params.h"

namespace quern::model {

// Of layer i; n_experts is 0 where the layer is dense.
Result<ExpertSpec> make_experts(const file::GgufFile& file, const Arch& arch, const Params& params, size_t i);

}  // namespace quern::model
