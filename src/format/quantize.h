// quantize: floats -> packed blocks, scalar. Good enough for tests, synthetic models and conversion of small tensors:
// per sub-block a short search for the scale with the least squared error. No importance weights, no speed.
#pragma once

#include <cstddef>

#include "format/codec.h"
#include "format/format.h"

namespace quern::format {

// A row in any of the 16 formats. n is a multiple of block_weights. The values are meant to be finite and within f16
// scale range; others are not undefined, but what they become is unspecified.
void quantize_row(Format format, const float* x /*[n]*/, size_t n, std::byte* packed /*[row_bytes(format, n)]*/);

// The codes of one block, for tests that need them apart from the bytes. Requires has_codes(format).
void choose_codes(Format format, const float* x /*[block_weights]*/, BlockCodes* codes);

}  // namespace quern::format
