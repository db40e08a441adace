// format: weight and activation block formats, their kernel layouts, and a scalar codec for each (the ground truth).
//
// Owns: the list of GGUF block formats that Quern reads, their sizes, block structs, dequantization bit for bit as the
//       `gguf` Python package does it, f16/bf16 conversion, quantization of activations.
// Never: files, threads, instruction sets.
// In -> out: packed bytes <-> float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace quern::format {

// Names as GGUF's. The order is ours; ggml_type in FormatInfo is the number in files.
enum class Format : uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};
inline constexpr int kFormatCount = 16;

struct FormatInfo {
  const char* name;        // "Q4_K"
  uint32_t ggml_type;      // the number in a GGUF tensor record
  uint32_t block_bytes;    // bytes of one block
  uint32_t block_weights;  // weights in one block; a row holds a whole number of blocks
};

const FormatInfo& format_info(Format format);
// The format of a GGUF type number; nothing where Quern does not read it.
std::optional<Format> format_from_ggml(uint32_t ggml_type);
// The block of a GGUF type number: what a file reader needs to size a tensor, also of types that Quern cannot compute
// with. Nothing where the size is unknown: numbers that no released version has used, and Q8_1, which never appears in
// files and which ggml (36 bytes) and the `gguf` package (40) size differently.
struct GgmlBlock {
  uint32_t block_bytes;
  uint32_t block_weights;
};
std::optional<GgmlBlock> ggml_block(uint32_t ggml_type);
// A name for any GGUF type number, also those Quern does not read ("IQ2_XXS", "type 77").
std::string ggml_type_name(uint32_t ggml_type);
// Bytes of a row of n_weights, which is a multiple of block_weights.
inline size_t row_bytes(Format format, size_t n_weights) {
  const FormatInfo& info = format_info(format);
  return n_weights / info.block_weights * info.block_bytes;
}

}  // namespace quern::format
