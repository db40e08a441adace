// Packed weight layouts. x16: rows in groups of 16, so that a vector lane is a row and no dot product needs a
// horizontal sum. Within a group (a panel) the fields of the disk blocks lie in planes, one after another, each plane
// running over all blocks of the row: codes, high bits, sub-scales, scales. Within a block's field the 16 rows
// interleave granule by granule: granule 4 for codes puts 4 consecutive weights of each row side by side (16 rows x 4
// bytes = one 64-byte vector, what a 4-wide integer dot wants); granule 2 for f16 scales; 1 for byte scales. It is a
// permutation of the disk bytes (Q5_0 and Q5_1 also transpose their 32 high bits), so decode reads no byte more.
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
  std::array<Field, 5> fields;  // in plane order
};

const FieldList& block_fields(format::Format format);

// Bytes of one panel: 16 rows of n_cols, rounded up to 64.
size_t panel_bytes(format::Format format, int64_t n_cols);
// Bytes of a whole matrix in x16.
size_t x16_bytes(format::Format format, int64_t n_rows, int64_t n_cols);
// Where plane number `field` of a panel starts.
size_t plane_offset(format::Format format, int64_t n_cols, int field);

}  // namespace quern::kernels
