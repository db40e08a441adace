// The fields of each format's disk block, and the geometry that follows from them.
#include "kernels/layout.h"

#include "base/arena.h"
#include "base/check.h"

namespace quern::kernels {

const FieldList& block_fields(format::Format format) {
  // Indexed by Format. Offsets are those of format/blocks.h.
  static constexpr FieldList kFields[format::kFormatCount] = {
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
  return kFields[static_cast<int>(format)];
}

size_t panel_bytes(format::Format format, int64_t n_cols) {
  return align_up(format::row_bytes(format, static_cast<size_t>(n_cols)) * kPanelRows, kCacheLine);
}

size_t x16_bytes(format::Format format, int64_t n_rows, int64_t n_cols) {
  return panel_bytes(format, n_cols) * static_cast<size_t>(panel_count(n_rows));
}

size_t plane_offset(format::Format format, int64_t n_cols, int field) {
  const FieldList& list = block_fields(format);
  QUERN_CHECK(field < list.n);
  const size_t n_blocks = static_cast<size_t>(n_cols) / format::format_info(format).block_weights;
  size_t offset = 0;
  for (int f = 0; f < field; ++f)
    offset += n_blocks * static_cast<size_t>(list.fields[static_cast<size_t>(f)].bytes) * kPanelRows;
  return offset;
}

}  // namespace quern::kernels
