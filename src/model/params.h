// From an architecture's key rows and a file's metadata to numbers (Params), and from those to the layers of a Spec.
#pragma once

#include "file/gguf.h"
#include "model/arch/arch.h"

namespace quern::model {

Result<Params> read_params(const file::GgufFile& file, const Arch& arch);

// Checks the numbers for sense and fills in what follows from them. Rope divisors are left null: they are tensors.
Result<Spec> make_spec(const file::GgufFile& file, const Arch& arch, const Params& params);

}  // namespace quern::model
