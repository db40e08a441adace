// Overflow-checked sizes of tensors. The sizes of blocks are format's.
#include "file/tensor_size.h"

#include <limits>

#include "format/format.h"

namespace quern::file {

std::string unread_type_text(uint32_t ggml_type) {
  const std::string name = format::ggml_type_name(ggml_type) + " (type " + std::to_string(ggml_type) + ")";
  if (ggml_type == 4) {
    return name +
           " means Q4_2 in files of 2023 and MXFP4 in files made by Ollama, both withdrawn; get the model as a "
           "current GGUF (MXFP4 is type 39)";
  }
  const bool withdrawn = ggml_type == 5 || (ggml_type >= 31 && ggml_type <= 33) || (ggml_type >= 36 && ggml_type <= 38);
  if (withdrawn) return name + " was withdrawn from GGUF; get the model in a current quantization";
  return name + " is not a format that Quern reads; get the model in another quantization, e.g. Q4_K_M or Q8_0";
}

Result<TensorSize> tensor_size(uint32_t ggml_type, uint32_t n_dims, const std::array<uint64_t, 4>& shape) {
  if (n_dims < 1 || n_dims > 4) {
    return Error{Status::invalid_file, "has " + std::to_string(n_dims) + " dimensions; 1 to 4 are allowed"};
  }
  TensorSize size{1, 0};
  for (uint32_t d = 0; d < n_dims; ++d) {
    if (shape[d] == 0) {
      return Error{Status::invalid_file, "dimension " + std::to_string(d) + " is 0; it must be positive"};
    }
    if (__builtin_mul_overflow(size.elements, shape[d], &size.elements) ||
        size.elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Error{Status::invalid_file,
                   "number of elements overflows at dimension " + std::to_string(d) + " = " + std::to_string(shape[d])};
    }
  }
  const auto block = format::ggml_block(ggml_type);
  if (!block) return size;
  if (shape[0] % block->block_weights != 0) {
    return Error{Status::invalid_file, "row of " + std::to_string(shape[0]) + " weights is not a multiple of the " +
                                           std::to_string(block->block_weights) + " in a block of " +
                                           format::ggml_type_name(ggml_type)};
  }
  if (__builtin_mul_overflow(size.elements / block->block_weights, uint64_t{block->block_bytes}, &size.bytes)) {
    return Error{Status::invalid_file, "size in bytes overflows (" + std::to_string(size.elements) + " elements)"};
  }
  return size;
}

}  // namespace quern::file
