// Packed weight layouts. x16: rows in groups of 16, so that a vector lane is a row and no dot product needs a
// horizontal sum. A group (a panel) is the blocks of its rows one after the other, so that a walk over it is one stream
// of memory, which the hardware's prefetcher follows by itself. In a block of 16 rows the fields of the disk blocks
// stand in this order: codes, high bits, sub-scales, scales. Within a field the 16 rows interleave granule by granule:
// granule 4 for codes puts 4 consecutive weights of each row side by side (16 rows x 4 bytes = one 64-byte vector, what
// a 4-wide integer dot wants); granule 2 for f16 scales; 1 for byte scales. It is a permutation of the disk bytes (Q5_0
// and Q5_1 also transpose their 32 high bits), so decode reads no byte more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "format/format.h"

namespace quern::kernels {

inline constexpr int64_t kPanelRows = 16;
// Panels of a matrix: whole groups of rows, the last one padded.
inline int64_t panel_count(int64_t n_rows) {
  return (n_rows + kPanelRows - 1) / kPanelRows;
}

struct Field {
  int offset = 0;   // in the disk block
  int bytes = 0;    // per row and block
  int granule = 1;  // bytes of one row that stay together
  // 32 high bits, one per weight: output byte j holds, in bit g, the high bit of weight 4 g + j, which is the place of
  // that weight's code byte in code vector g.
  bool transpose_bits = false;
};

struct FieldList {
  int n = 0;
  std::array<Field, 5> fields;  // as packed
};

// Indexed by Format. Offsets are those of format/blocks.h.
inline constexpr FieldList kBlockFields[format::kFormatCount] = {
    /* f32    */ {1, {{{0, 4, 4}}}},
    /* f16    */ {1, {{{0, 2, 2}}}},
    /* bf16   */ {1, {{{0, 2, 2}}}},
    /* q8_0   */ {2, {{{2, 32, 4}, {0, 2, 2}}}},
    /* q4_0   */ {2, {{{2, 16, 4}, {0, 2, 2}}}},
    /* q4_1   */ {3, {{{4, 16, 4}, {0, 2, 2}, {2, 2, 2}}}},
    /* q5_0   */ {3, {{{6, 16, 4}, {2, 4, 4, true}, {0, 2, 2}}}},
    /* q5_1   */ {4, {{{8, 16, 4}, {4, 4, 4, true}, {0, 2, 2}, {2, 2, 2}}}},
    /* q2_k   */ {4, {{{16, 64, 4}, {0, 16, 1}, {80, 2, 2}, {82, 2, 2}}}},
    /* q3_k   */ {4, {{{32, 64, 4}, {0, 32, 4}, {96, 12, 1}, {108, 2, 2}}}},
    /* q4_k   */ {4, {{{16, 128, 4}, {4, 12, 1}, {0, 2, 2}, {2, 2, 2}}}},
    /* q5_k   */ {5, {{{48, 128, 4}, {16, 32, 4}, {4, 12, 1}, {0, 2, 2}, {2, 2, 2}}}},
    /* q6_k   */ {4, {{{0, 128, 4}, {128, 64, 4}, {192, 16, 1}, {208, 2, 2}}}},
    /* iq4_nl */ {2, {{{2, 16, 4}, {0, 2, 2}}}},
    /* iq4_xs */ {4, {{{8, 128, 4}, {2, 2, 1}, {4, 4, 1}, {0, 2, 2}}}},
    /* mxfp4  */ {2, {{{1, 16, 4}, {0, 1, 1}}}},
};
constexpr const FieldList& block_fields(format::Format format) {
  return kBlockFields[static_cast<int>(format)];
}
// Where field number `field` of a block of 16 rows starts; with the number of fields, the block's size.
constexpr int field_offset(format::Format format, int field) {
  int offset = 0;
  for (int f = 0; f < field; ++f) offset += block_fields(format).fields[static_cast<size_t>(f)].bytes;
  return offset * static_cast<int>(kPanelRows);
}

// Bytes of one panel: 16 rows of n_cols, rounded up to 64.
size_t panel_bytes(format::Format format, int64_t n_cols);
// Bytes of a whole matrix in x16.
size_t x16_bytes(format::Format format, int64_t n_rows, int64_t n_cols);

}  // namespace quern::kernels
