// ref: matrix times activation rows, for every weight format, in the file's own layout; and the packing of that layout
// into x16. docs/NUMERICS.md: integer dots are exact, each block meets float once, one chain per output.
#include <cmath>
#include <cstring>
#include <vector>

#include "format/activation.h"
#include "format/codec.h"
#include "format/half.h"
#include "kernels/layout.h"
#include "kernels/ref/matmul.h"
#include "kernels/ref/ref.h"

namespace quern::kernels::ref {
namespace {

using format::BlockCodes;
using format::Format;

// An activation row seen through its layout.
struct ActivationRow {
  const int8_t* codes;
  const float* d;
  const int32_t* sums;
  ActivationRow(const std::byte* row, const format::ActivationLayout& layout)
      : codes(reinterpret_cast<const int8_t*>(row)),
        d(reinterpret_cast<const float*>(row + layout.d_offset)),
        sums(reinterpret_cast<const int32_t*>(row + layout.sums_offset)) {}
};

// Sum of the activation codes of sub-block j of the block that starts at `first`.
int32_t sub_sum(const ActivationRow& x, const format::ActivationLayout& layout, int64_t first, int width, int j) {
  int32_t sum = 0;
  const auto sum_width = static_cast<int64_t>(layout.sum_width);
  const int64_t begin = (first + j * width) / sum_width;
  for (int64_t i = begin; i < begin + width / sum_width; ++i) sum += x.sums[i];
  return sum;
}

float dot_codes(Format format, const std::byte* w, const std::byte* x_row, int64_t n, ActivationFormat act) {
  const format::CodeTraits& traits = format::code_traits(format);
  const size_t block_bytes = format::format_info(format).block_bytes;
  const format::ActivationLayout layout = format::activation_layout(act, static_cast<size_t>(n));
  const ActivationRow x(x_row, layout);
  float acc = 0.0F;
  BlockCodes codes;
  for (int64_t first = 0; first < n; first += traits.weights, w += block_bytes) {
    format::unpack_block(format, w, &codes);
    int32_t dot = 0, min_dot = 0;
    for (int j = 0; j < traits.weights / traits.sub_width; ++j) {
      int32_t sub = 0;
      for (int i = j * traits.sub_width; i < (j + 1) * traits.sub_width; ++i) sub += codes.q[i] * x.codes[first + i];
      dot += codes.sub_scale[j] * sub;
      if (traits.sub_min_hi > 0) min_dot += codes.sub_min[j] * sub_sum(x, layout, first, traits.sub_width, j);
    }
    const float d_x = x.d[first / static_cast<int64_t>(layout.block)];
    acc = std::fmaf(static_cast<float>(dot), codes.d * d_x, acc);
    if (traits.sub_min_hi > 0) acc = std::fmaf(-codes.dmin, d_x * static_cast<float>(min_dot), acc);
  }
  return acc;
}

float dot_floats(Format format, const std::byte* w, const float* x, int64_t n) {
  float acc = 0.0F;
  const size_t bytes = format::format_info(format).block_bytes;
  for (int64_t i = 0; i < n; ++i) {
    float weight = 0;
    format::dequantize_row(format, w + static_cast<size_t>(i) * bytes, &weight, 1);
    acc = std::fmaf(weight, x[i], acc);
  }
  return acc;
}

// Bit g of output byte j is bit 4 g + j of the input.
uint32_t transpose_high_bits(uint32_t bits) {
  uint32_t out = 0;
  for (uint32_t i = 0; i < 32; ++i) out |= ((bits >> i) & 1U) << (i % 4 * 8 + i / 4);
  return out;
}

}  // namespace

XRows::XRows(const MatmulArgs& a)
    : a_(a),
      act_(format::in_rows(a.act)),
      n_planes_(format::plane_count(a.act)),
      layout_(format::activation_layout(act_, static_cast<size_t>(a.n_in))),
      planes_(act_ == a.act ? 0 : layout_.row_bytes) {}

const std::byte* XRows::row(int64_t row) {
  if (planes_.empty()) return a_.x + static_cast<size_t>(row) * a_.x_stride;
  for (int p = 0; p < n_planes_; ++p) {
    const int64_t v = row * n_planes_ + p;
    format::take_from_tile(a_.act, a_.x + static_cast<size_t>(v / format::kTileRows) * a_.x_stride,
                           static_cast<size_t>(a_.n_in), static_cast<int>(v % format::kTileRows),
                           planes_.data() + static_cast<size_t>(p) * layout_.plane_bytes);
  }
  return planes_.data();
}

float XRows::dot(const std::byte* weights, const std::byte* x) const {
  if (act_ == ActivationFormat::f32) return dot_floats(a_.format, weights, reinterpret_cast<const float*>(x), a_.n_in);
  const float value = dot_codes(a_.format, weights, x, a_.n_in, act_);
  return n_planes_ == 1 ? value : value + dot_codes(a_.format, weights, x + layout_.plane_bytes, a_.n_in, act_);
}

void matmul(const MatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(a.n_out, w);
  const size_t row_bytes = format::row_bytes(a.format, static_cast<size_t>(a.n_in));
  XRows rows(a);
  for (int64_t row = 0; row < row_count(ctx, a.rows); ++row) {
    const std::byte* x = rows.row(row);
    float* y = a.y + row * a.y_stride;
    for (int64_t o = r.begin; o < r.end; ++o) {
      const float value = with_bias(rows.dot(a.w + static_cast<size_t>(o) * row_bytes, x), a.bias, o);
      y[o] = a.residual != nullptr ? a.residual[row * a.y_stride + o] + value : value;
    }
  }
}

void gated_matmul(const GatedMatmulArgs& a, const RunContext& ctx, const Worker& w) {
  const MatmulArgs& m = a.gate;
  const Range r = share(m.n_out, w);
  const size_t row_bytes = format::row_bytes(m.format, static_cast<size_t>(m.n_in));
  XRows rows(m);
  for (int64_t row = 0; row < row_count(ctx, m.rows); ++row) {
    const std::byte* x = rows.row(row);
    for (int64_t o = r.begin; o < r.end; ++o) {
      const size_t at = static_cast<size_t>(o) * row_bytes;
      m.y[row * m.y_stride + o] =
          gated(a.fn, with_bias(rows.dot(m.w + at, x), m.bias, o), with_bias(rows.dot(a.up + at, x), a.up_bias, o));
    }
  }
}

// One row's field of one block into its places among 16 rows.
void pack_field(const Field& field, const std::byte* in, std::byte* out, int64_t row) {
  for (int g = 0; g < field.bytes; g += field.granule) {
    std::byte* to = out + static_cast<size_t>(g * kPanelRows + row * field.granule);
    std::memcpy(to, in + field.offset + g, static_cast<size_t>(field.granule));
    if (field.transpose_bits) {
      uint32_t bits = 0;
      std::memcpy(&bits, to, 4);
      bits = transpose_high_bits(bits);
      std::memcpy(to, &bits, 4);
    }
  }
}

void repack_x16(const RepackArgs& a, const RunContext&, const Worker& w) {
  const FieldList& list = block_fields(a.format);
  const format::FormatInfo& info = format::format_info(a.format);
  const int64_t n_blocks = a.n_cols / info.block_weights;
  const size_t row_bytes = format::row_bytes(a.format, static_cast<size_t>(a.n_cols));
  const size_t panel = panel_bytes(a.format, a.n_cols);
  const Range r = share(panel_count(a.n_rows), w);
  for (int64_t p = r.begin; p < r.end; ++p) {
    std::byte* out = a.out + static_cast<size_t>(p) * panel;
    std::memset(out, 0, panel);
    for (int64_t row = 0; row < kPanelRows && p * kPanelRows + row < a.n_rows; ++row) {
      const std::byte* in = a.in + static_cast<size_t>(p * kPanelRows + row) * row_bytes;
      for (int64_t b = 0; b < n_blocks; ++b) {
        const auto block = static_cast<size_t>(b) * info.block_bytes;
        for (int f = 0; f < list.n; ++f)
          pack_field(list.fields[static_cast<size_t>(f)], in + block,
                     out + block * kPanelRows + field_offset(a.format, f), row);
      }
    }
  }
}

}  // namespace quern::kernels::ref
