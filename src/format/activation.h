// activation: the integer form of activations that integer matmuls consume, and its scalar reference. Vector kernels
// produce the same bytes on every instruction set: each step below is one IEEE operation with a single right answer.
//
// A block x[0..B) (B = 32 or 256) of a row becomes codes q, a scale d and sums of codes:
//   amax = largest |x[i]|, found on the bit patterns without sign as integers, so that NaN and infinity win
//   amax not finite:    q[i] = 0, d = NaN              (what consumes the block becomes NaN, and nothing else does)
//   amax < kTinyAmax:   q[i] = 0, d = 0                (zero blocks; also keeps 127 / amax finite)
//   otherwise:          of the steps d = amax / m for m = 127, 126, 125, 124 the one with the least squared error, the
//                       larger m on ties; inverse = m / amax, q[i] = nearest integer of (x[i] * inverse), ties to even
// each a rounded f32 operation. |q[i]| <= 127 without clamping, since amax * inverse < m + 0.5 after both roundings.
// Then x[i] = d * q[i] within 0.501 * d.
// The squared error of a candidate, in units of amax / 127: r[i] = x[i] * inverse - q[i]; r[i] * r[i] is added to
// partial i mod 16 (a product, then a sum), the partials fold as docs/NUMERICS.md says, and the total is times
// kStepWeights[127 - m]. Each of the four steps puts the largest value on a code exactly. Choosing among them takes 12
// to 14 % off the squared error of a block of 32 and 3 % off one of 256, at the price of four roundings instead of one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/format.h"

namespace quern::format {

enum class ActivationFormat : uint8_t {
  f32,       // plain floats: for F32, F16 and BF16 weights
  q8_32,     // one d per 32 values, one sum per 32: for weight formats with blocks of 32
  q8_256,    // one d per 256 values, one sum per 16: for weight formats with blocks of 256 and sub-blocks of 16 or 32
  q8_32x2,   // two q8_32 rows: the values, then what their rounding left over (x - d * q, one fma); 16 bits in effect
  q8_256x2,  // the same of q8_256
  // The same numbers with six rows interleaved, for matmuls of many rows: ActivationTile.
  q8_32t,
  q8_256t,
  q8_32x2t,
  q8_256x2t,
};
inline constexpr int kTileRows = 6;

inline constexpr float kTinyAmax = 0x1p-100f;
inline constexpr int kStepCount = 4;
// (127 / m)^2 for m = 127 - k.
inline constexpr float kStepWeights[kStepCount] = {1.0f, (127.0f / 126.0f) * (127.0f / 126.0f),
                                                   (127.0f / 125.0f) * (127.0f / 125.0f),
                                                   (127.0f / 124.0f) * (127.0f / 124.0f)};

// The activation format that integer kernels use with a weight format.
ActivationFormat activation_for(Format weights);

// One-plane format of a two-plane one (itself otherwise), and the two-plane format of a one-plane one (f32: f32).
ActivationFormat one_plane(ActivationFormat format);
ActivationFormat two_planes(ActivationFormat format);
// The format with the same numbers in tiles, in rows (f32: f32).
ActivationFormat in_tiles(ActivationFormat format);
ActivationFormat in_rows(ActivationFormat format);
inline bool is_tiled(ActivationFormat format) {
  return format != in_rows(format);
}
inline int plane_count(ActivationFormat format) {
  return one_plane(format) == format ? 1 : 2;
}

// How a quantized row of n values lies in memory: codes [n] i8, d [n / block] f32, sums [n / sum_width] i32, each part
// and the whole row a multiple of 64 bytes. n is a multiple of `block`. For f32: only codes, [n] f32. A two-plane row
// is two such rows, one after the other: offsets are within each, plane_bytes apart. Not for formats in tiles.
struct ActivationLayout {
  size_t block;      // values per d: 32 or 256 (1 for f32)
  size_t sum_width;  // values per sum: 32 or 16
  size_t d_offset;   // codes are at offset 0
  size_t sums_offset;
  size_t plane_bytes;
  size_t row_bytes;
};
ActivationLayout activation_layout(ActivationFormat format, size_t n);

// How six rows of n values lie in memory, each part and the whole a multiple of 64 bytes:
//   codes   [n / 4][6][4] u8, code + 128
//   d       [n / block][6] f32
//   q8_32t:  d * float(sum of the 32 codes), [n / 32][6] f32
//   q8_256t: sums of 32 codes in pairs of neighbours, [n / 64][6][2] i16; then sums of 16, [n / 32][6][2] i16
// so that a tile of a matmul walks one stream. Row r is in tile r / 6, slot r % 6; a two-plane row is rows 2 r and
// 2 r + 1. Slots past the last row hold zeros (codes 128, d 0); bytes between parts hold anything.
struct ActivationTile {
  size_t block;
  size_t d_offset;     // codes are at offset 0
  size_t sums_offset;  // d * sum, or sums of 32
  size_t sums16_offset;
  size_t bytes;
};
ActivationTile activation_tile(ActivationFormat format, size_t n);

// Bytes of n_rows rows of n values, and from one row (in tiles: from one tile) to the next.
size_t activation_bytes(ActivationFormat format, size_t n, size_t n_rows);
size_t activation_stride(ActivationFormat format, size_t n);

// One plane between a row (q8_32 or q8_256) and slot `slot` of a tile of that format.
void put_into_tile(ActivationFormat format, const std::byte* row, size_t n, int slot, std::byte* tile);
void take_from_tile(ActivationFormat format, const std::byte* tile, size_t n, int slot, std::byte* row);

// Bytes between parts and after the last are set to zero, so that equal inputs give equal rows.
// Not for formats in tiles.
void quantize_activation_row(ActivationFormat format, const float* x /*[n]*/, size_t n, std::byte* row /*[row_bytes]*/);

// Any format, tiles with their padding.
void quantize_activation_rows(ActivationFormat format, const float* x /*[n_rows, n]*/, size_t n, size_t n_rows,
                              std::byte* out /*[activation_bytes]*/);

// x[i] = d * q[i], summed over the planes: the values that a matmul sees.
void dequantize_activation_row(ActivationFormat format, const std::byte* row /*[row_bytes]*/, size_t n,
                               float* out /*[n]*/);

}  // namespace quern::format
