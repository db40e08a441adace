// Scalar reference of activation quantization; activation.h states the rule.
#include "format/activation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"

namespace quern::format {
namespace {

size_t round_up_64(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// The squared error of rounding to multiples of 1 / inverse, in units of its square.
float squared_error(const float* x /*[block]*/, size_t block, float inverse) {
  float partial[16] = {};
  for (size_t i = 0; i < block; ++i) {
    const float scaled = x[i] * inverse, r = scaled - std::nearbyint(scaled);
    partial[i % 16] = partial[i % 16] + r * r;
  }
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) partial[i] = partial[i] + partial[i + half];
  }
  return partial[0];
}

// Returns d.
float quantize_block(const float* x, size_t block, int8_t* q /*[block]*/) {
  uint32_t amax_bits = 0;
  for (size_t i = 0; i < block; ++i) amax_bits = std::max(amax_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const bool finite = amax_bits < 0x7f800000u;
  const auto amax = std::bit_cast<float>(amax_bits);
  if (!finite || amax < kTinyAmax) {
    std::memset(q, 0, block);
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  float least = std::numeric_limits<float>::infinity(), best = 127.0f;
  for (int k = 0; k < kStepCount; ++k) {
    const float m = static_cast<float>(127 - k), error = squared_error(x, block, m / amax) * kStepWeights[k];
    if (error < least) {
      least = error;
      best = m;
    }
  }
  const float inverse = best / amax;
  for (size_t i = 0; i < block; ++i) q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
  return amax / best;
}

int32_t sum_codes(const int8_t* q /*[n]*/, size_t n) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += q[i];
  return sum;
}

}  // namespace

ActivationFormat activation_for(Format weights) {
  switch (format_info(weights).block_weights) {
    case 1:
      return ActivationFormat::f32;
    case 32:
      return ActivationFormat::q8_32;
    default:
      return ActivationFormat::q8_256;
  }
}

namespace {

// Rows: f32, 32, 256; columns: planes and order.
struct Variants {
  ActivationFormat rows, rows2, tiles, tiles2;
};
constexpr Variants kVariants[] = {
    {ActivationFormat::f32, ActivationFormat::f32, ActivationFormat::f32, ActivationFormat::f32},
    {ActivationFormat::q8_32, ActivationFormat::q8_32x2, ActivationFormat::q8_32t, ActivationFormat::q8_32x2t},
    {ActivationFormat::q8_256, ActivationFormat::q8_256x2, ActivationFormat::q8_256t, ActivationFormat::q8_256x2t},
};
const Variants& variants(ActivationFormat format) {
  for (const Variants& v : kVariants) {
    if (format == v.rows || format == v.rows2 || format == v.tiles || format == v.tiles2) return v;
  }
  return kVariants[0];
}

}  // namespace

ActivationFormat one_plane(ActivationFormat format) {
  const Variants& v = variants(format);
  return format == v.rows2 ? v.rows : format == v.tiles2 ? v.tiles : format;
}

ActivationFormat two_planes(ActivationFormat format) {
  const Variants& v = variants(format);
  return format == v.rows ? v.rows2 : format == v.tiles ? v.tiles2 : format;
}

ActivationFormat in_tiles(ActivationFormat format) {
  const Variants& v = variants(format);
  return format == v.rows ? v.tiles : format == v.rows2 ? v.tiles2 : format;
}

ActivationFormat in_rows(ActivationFormat format) {
  const Variants& v = variants(format);
  return format == v.tiles ? v.rows : format == v.tiles2 ? v.rows2 : format;
}

ActivationLayout activation_layout(ActivationFormat format, size_t n) {
  if (format == ActivationFormat::f32) {
    const size_t bytes = round_up_64(n * sizeof(float));
    return {1, 1, bytes, bytes, bytes, bytes};
  }
  QUERN_CHECK(!is_tiled(format));
  const bool by_32 = one_plane(format) == ActivationFormat::q8_32;
  const size_t block = by_32 ? 32 : 256, sum_width = by_32 ? 32 : 16;
  QUERN_CHECK(n % block == 0);
  const size_t d_offset = round_up_64(n);
  const size_t sums_offset = d_offset + round_up_64(n / block * sizeof(float));
  const size_t plane_bytes = sums_offset + round_up_64(n / sum_width * sizeof(int32_t));
  return {block, sum_width, d_offset, sums_offset, plane_bytes, plane_bytes * static_cast<size_t>(plane_count(format))};
}

ActivationTile activation_tile(ActivationFormat format, size_t n) {
  const bool by_32 = one_plane(format) == ActivationFormat::q8_32t;
  const size_t block = by_32 ? 32 : 256, rows = kTileRows;
  QUERN_CHECK(is_tiled(format) && n % block == 0);
  ActivationTile tile{block, round_up_64(n * rows), 0, 0, 0};
  tile.sums_offset = tile.d_offset + round_up_64(n / block * rows * sizeof(float));
  tile.sums16_offset = tile.sums_offset + round_up_64(n / (by_32 ? 32 : 64) * rows * 4);
  tile.bytes = tile.sums16_offset + (by_32 ? 0 : round_up_64(n / 32 * rows * 4));
  return tile;
}

size_t activation_stride(ActivationFormat format, size_t n) {
  return is_tiled(format) ? activation_tile(format, n).bytes : activation_layout(format, n).row_bytes;
}

size_t activation_bytes(ActivationFormat format, size_t n, size_t n_rows) {
  const size_t stride = activation_stride(format, n);
  if (!is_tiled(format)) return n_rows * stride;
  return (n_rows * static_cast<size_t>(plane_count(format)) + kTileRows - 1) / kTileRows * stride;
}

namespace {

template <class T>
T get(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void put(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

}  // namespace

void put_into_tile(ActivationFormat format, const std::byte* row, size_t n, int slot, std::byte* tile) {
  const ActivationLayout in = activation_layout(one_plane(in_rows(format)), n);
  const ActivationTile out = activation_tile(in_tiles(format), n);
  const auto s = static_cast<size_t>(slot);
  const auto at = [&](size_t i) { return (i * kTileRows + s) * 4; };
  for (size_t i = 0; i < n; ++i) tile[at(i / 4) + i % 4] = row[i] ^ std::byte{0x80};
  for (size_t b = 0; b < n / in.block; ++b) put(tile + out.d_offset + at(b), get<float>(row + in.d_offset + b * 4));
  const auto sum = [&](size_t i) { return get<int32_t>(row + in.sums_offset + i * 4); };
  if (in.block == 32) {
    for (size_t b = 0; b < n / 32; ++b) {
      put(tile + out.sums_offset + at(b), get<float>(row + in.d_offset + b * 4) * static_cast<float>(sum(b)));
    }
    return;
  }
  for (size_t i = 0; i < n / 16; ++i) {
    put(tile + out.sums16_offset + at(i / 2) + i % 2 * 2, static_cast<int16_t>(sum(i)));
    if (i % 2 == 0) {
      put(tile + out.sums_offset + at(i / 4) + i / 2 % 2 * 2, static_cast<int16_t>(sum(i) + sum(i + 1)));
    }
  }
}

void take_from_tile(ActivationFormat format, const std::byte* tile, size_t n, int slot, std::byte* row) {
  const ActivationLayout out = activation_layout(one_plane(in_rows(format)), n);
  const ActivationTile in = activation_tile(in_tiles(format), n);
  const auto s = static_cast<size_t>(slot);
  const auto at = [&](size_t i) { return (i * kTileRows + s) * 4; };
  std::memset(row, 0, out.plane_bytes);
  auto* q = reinterpret_cast<int8_t*>(row);
  for (size_t i = 0; i < n; ++i) row[i] = tile[at(i / 4) + i % 4] ^ std::byte{0x80};
  for (size_t b = 0; b < n / out.block; ++b) put(row + out.d_offset + b * 4, get<float>(tile + in.d_offset + at(b)));
  for (size_t i = 0; i < n / out.sum_width; ++i) {
    put(row + out.sums_offset + i * 4, sum_codes(q + i * out.sum_width, out.sum_width));
  }
}

void quantize_activation_row(ActivationFormat format, const float* x, size_t n, std::byte* row) {
  const ActivationLayout layout = activation_layout(format, n);
  std::memset(row, 0, layout.row_bytes);
  if (format == ActivationFormat::f32) {
    std::memcpy(row, x, n * sizeof(float));
    return;
  }
  auto* q = reinterpret_cast<int8_t*>(row);
  const size_t block = layout.block;
  std::vector<float> rest(plane_count(format) > 1 ? n : 0);
  for (size_t b = 0; b < n / block; ++b) {
    const float d = quantize_block(x + b * block, layout.block, q + b * block);
    std::memcpy(row + layout.d_offset + b * sizeof d, &d, sizeof d);
    for (size_t i = b * block; i < rest.size() && i < (b + 1) * block; ++i) {
      rest[i] = std::fmaf(-d, static_cast<float>(q[i]), x[i]);
    }
  }
  const size_t width = layout.sum_width;
  for (size_t s = 0; s < n / width; ++s) {
    const int32_t sum = sum_codes(q + s * width, layout.sum_width);
    std::memcpy(row + layout.sums_offset + s * sizeof sum, &sum, sizeof sum);
  }
  if (!rest.empty()) quantize_activation_row(one_plane(format), rest.data(), n, row + layout.plane_bytes);
}

void quantize_activation_rows(ActivationFormat format, const float* x, size_t n, size_t n_rows, std::byte* out) {
  if (!is_tiled(format)) {
    const size_t stride = activation_stride(format, n);
    for (size_t r = 0; r < n_rows; ++r) quantize_activation_row(format, x + r * n, n, out + r * stride);
    return;
  }
  const ActivationLayout layout = activation_layout(in_rows(format), n);
  const ActivationTile tile = activation_tile(format, n);
  std::memset(out, 0, activation_bytes(format, n, n_rows));
  std::vector<std::byte> row(layout.row_bytes), none(layout.plane_bytes);
  const auto n_planes = static_cast<size_t>(plane_count(format));
  const auto place = [&](const std::byte* plane, size_t v) {
    put_into_tile(format, plane, n, static_cast<int>(v % kTileRows), out + v / kTileRows * tile.bytes);
  };
  for (size_t r = 0; r < n_rows; ++r) {
    quantize_activation_row(in_rows(format), x + r * n, n, row.data());
    for (size_t p = 0; p < n_planes; ++p) place(row.data() + p * layout.plane_bytes, r * n_planes + p);
  }
  for (size_t v = n_rows * n_planes; v % kTileRows != 0; ++v) place(none.data(), v);
}

void dequantize_activation_row(ActivationFormat format, const std::byte* row, size_t n, float* out) {
  const ActivationLayout layout = activation_layout(format, n);
  if (format == ActivationFormat::f32) {
    std::memcpy(out, row, n * sizeof(float));
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    out[i] = 0;
    for (int p = 0; p < plane_count(format); ++p) {
      const std::byte* plane = row + static_cast<size_t>(p) * layout.plane_bytes;
      float d = 0;
      std::memcpy(&d, plane + layout.d_offset + i / layout.block * sizeof d, sizeof d);
      out[i] += d * static_cast<float>(static_cast<int8_t>(plane[i]));
    }
  }
}

}  // namespace quern::format
