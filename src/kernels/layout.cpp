// Sizes of packed matrices.
#include "kernels/layout.h"

#include "base/arena.h"

namespace quern::kernels {

size_t panel_bytes(format::Format format, int64_t n_cols) {
  return align_up(format::row_bytes(format, static_cast<size_t>(n_cols)) * kPanelRows, kCacheLine);
}

size_t x16_bytes(format::Format format, int64_t n_rows, int64_t n_cols) {
  return panel_bytes(format, n_cols) * static_cast<size_t>(panel_count(n_rows));
}

}  // namespace quern::kernels
