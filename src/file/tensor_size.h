// The size of a tensor by its type and shape, also of types that Quern lists but does not read, and why it does not.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace quern::file {

// What a message says of a tensor type that format::format_from_ggml does not know: its name, and what to do.
std::string unread_type_text(uint32_t ggml_type);

struct TensorSize {
  uint64_t elements = 0;
  uint64_t bytes = 0;  // 0 where the type's block size is unknown
};

// Checks a tensor's shape (ne[0] first, n_dims of them used) and type against each other. The error's message is the
// part after "FILE: tensor NAME: ".
Result<TensorSize> tensor_size(uint32_t ggml_type, uint32_t n_dims, const std::array<uint64_t, 4>& shape);

}  // namespace quern::file
