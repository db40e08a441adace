// From an architecture's key rows and a file's metadata to numbers (Params), and from those to the layers of a Spec.
#pragma once

#include "file/gguf.h"
#include "model/arch/arch.h"

namespace quern::model {

inline constexpr int64_t kMaxWidth = 1 << 20;

// An error of the file, and numbers that must lie within bounds; `what` is the key, without the architecture's prefix.
Error bad(const file::GgufFile& file, const std::string& text);
Result<int> bounded(const file::GgufFile& file, const char* what, int64_t value, int64_t low, int64_t high);
Result<int> layer_value(const file::GgufFile& file, const char* what, const PerLayer& values, size_t layer, int64_t low,
                        int64_t high);

Result<Params> read_params(const file::GgufFile& file, const Arch& arch);

// Checks the numbers for sense and fills in what follows from them. Rope divisors are left null: they are tensors.
Result<Spec> make_spec(const file::GgufFile& file, const Arch& arch, const Params& params);

}  // namespace quern::model
