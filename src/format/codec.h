// codec: what a packed block means. Each block is an integer code form, read by `unpack_block` and written by
// `pack_block`; one formula turns it into weights. This is the ground truth that kernels and repackers are tested
// against. Choosing codes for given floats is quantize.h; speed is the kernels' business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/format.h"

namespace quern::format {

// The integer code form of a block, the same for every quantized format. With j = i / sub_width:
//
//     w[i] = (d * sub_scale[j]) * q[i] - dmin * sub_min[j]
//
// evaluated in f32 in that order and without contraction, equals the `gguf` package's dequantize bit for bit. It also
// is the real number of the formula, rounded once to f32: an f16 scale times these small integers fits in 24 bits, so
// both products are exact and only the subtraction rounds (or MXFP4's largest exponents overflow). Parts that a format
// lacks are neutral (sub_scale 1; dmin 0 and sub_min 0) and change no bit, nor the sign of a zero. Formats with an
// additive float m (Q4_1, Q5_1) have dmin = -m, sub_min = 1. For IQ4_NL, IQ4_XS and MXFP4 q[i] is the table's value,
// not its index.
struct BlockCodes {
  int8_t q[256];         // [weights] range CodeTraits::q_lo .. q_hi
  int8_t sub_scale[16];  // [weights / sub_width]
  uint8_t sub_min[16];   // [weights / sub_width]
  float d;
  float dmin;
};

// The fixed facts of a format's code form, for overflow bounds and for code that is written once for all formats.
// A dot product over a block against int8 activations stays within i32 for every format: at most
// 256 * 32 * 128 * 127 < 2^28 (Q6_K, the largest).
struct CodeTraits {
  int weights;          // per block
  int sub_width;        // weights per sub-block; = weights where there are none
  int q_lo, q_hi;       // range of q
  int sub_lo, sub_hi;   // range of sub_scale; 1, 1 where the format has none
  int sub_min_hi;       // largest sub_min; 0: the format has no minimum
  const int8_t* table;  // [16] values that q can take, by code; null: every integer of the range
};

// False for F32, F16 and BF16: they have no code form.
bool has_codes(Format format);
// Requires has_codes(format).
const CodeTraits& code_traits(Format format);

// One block of format_info(format).block_bytes. Requires has_codes(format). Any bytes are valid input; entries of
// `codes` past the format's block are left as they are.
void unpack_block(Format format, const std::byte* packed /*[block_bytes]*/, BlockCodes* codes);
// The inverse: d, dmin become f16 (for MXFP4 d must be a power of two, 2^-128 .. 2^127). Requires codes in range.
// Unpack after pack gives the same codes; pack after unpack gives the same bytes but for MXFP4's minus zero.
void pack_block(Format format, const BlockCodes& codes, std::byte* packed /*[block_bytes]*/);

// The weights of one block by the formula above.
void codes_to_weights(Format format, const BlockCodes& codes, float* out /*[block_weights]*/);

// A row, or any whole number of blocks, of any of the 16 formats. n is a multiple of block_weights. NaN and infinite
// scales give what IEEE arithmetic gives; nothing is undefined.
void dequantize_row(Format format, const std::byte* packed /*[row_bytes(format, n)]*/, float* out /*[n]*/, size_t n);

}  // namespace quern::format
