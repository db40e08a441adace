// The block sizes of tensor types that exist in GGUF files beyond src/format's list.
#include "file/ggml_types.h"

#include <limits>

#include "format/format.h"

namespace quern::file {
namespace {

struct ForeignType {
  uint32_t ggml_type;
  BlockSize size;
};

// Q8_1 is left out: it is a type of activations, and implementations differ on its size.
constexpr ForeignType kForeignTypes[] = {
    {15, {256, 292}},  // Q8_K
    {16, {256, 66}},   // IQ2_XXS
    {17, {256, 74}},   // IQ2_XS
    {18, {256, 98}},   // IQ3_XXS
    {19, {256, 50}},   // IQ1_S
    {21, {256, 110}},  // IQ3_S
    {22, {256, 82}},   // IQ2_S
    {24, {1, 1}},      // I8
    {25, {1, 2}},      // I16
    {26, {1, 4}},      // I32
    {27, {1, 8}},      // I64
    {28, {1, 8}},      // F64
    {29, {256, 56}},   // IQ1_M
    {34, {256, 54}},   // TQ1_0
    {35, {256, 66}},   // TQ2_0
    {40, {64, 36}},    // NVFP4
    {41, {128, 18}},   // Q1_0
    {42, {64, 18}},    // Q2_0
};

}  // namespace

std::optional<BlockSize> block_size(uint32_t ggml_type) {
  if (const auto known = format::format_from_ggml(ggml_type)) {
    const format::FormatInfo& info = format::format_info(*known);
    return BlockSize{info.block_weights, info.block_bytes};
  }
  for (const ForeignType& type : kForeignTypes) {
    if (type.ggml_type == ggml_type) return type.size;
  }
  return std::nullopt;
}

std::string unread_type_text(uint32_t ggml_type) {
  const std::string name = format::ggml_type_name(ggml_type) + " (type " + std::to_string(ggml_type) + ")";
  if (ggml_type == 4) {
    return name + " means Q4_2 in files of 2023 and MXFP4 in files made by Ollama, both withdrawn; get the model as a "
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
      return Error{Status::invalid_file, "number of elements overflows at dimension " + std::to_string(d) + " = " +
                                             std::to_string(shape[d])};
    }
  }
  const auto block = block_size(ggml_type);
  if (!block) return size;
  if (shape[0] % block->weights != 0) {
    return Error{Status::invalid_file, "row of " + std::to_string(shape[0]) + " weights is not a multiple of the " +
                                           std::to_string(block->weights) + " in a block of " +
                                           format::ggml_type_name(ggml_type)};
  }
  if (__builtin_mul_overflow(size.elements / block->weights, uint64_t{block->bytes}, &size.bytes)) {
    return Error{Status::invalid_file, "size in bytes overflows (" + std::to_string(size.elements) + " elements)"};
  }
  return size;
}

}  // namespace quern::file
