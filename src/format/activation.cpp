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

ActivationFormat one_plane(ActivationFormat format) {
  return format == ActivationFormat::q8_32x2    ? ActivationFormat::q8_32
         : format == ActivationFormat::q8_256x2 ? ActivationFormat::q8_256
                                                : format;
}

ActivationFormat two_planes(ActivationFormat format) {
  return format == ActivationFormat::q8_32    ? ActivationFormat::q8_32x2
         : format == ActivationFormat::q8_256 ? ActivationFormat::q8_256x2
                                              : format;
}

ActivationLayout activation_layout(ActivationFormat format, size_t n) {
  if (format == ActivationFormat::f32) {
    const size_t bytes = round_up_64(n * sizeof(float));
    return {1, 1, bytes, bytes, bytes, bytes};
  }
  const bool by_32 = one_plane(format) == ActivationFormat::q8_32;
  const size_t block = by_32 ? 32 : 256, sum_width = by_32 ? 32 : 16;
  QUERN_CHECK(n % block == 0);
  const size_t d_offset = round_up_64(n);
  const size_t sums_offset = d_offset + round_up_64(n / block * sizeof(float));
  const size_t plane_bytes = sums_offset + round_up_64(n / sum_width * sizeof(int32_t));
  return {block, sum_width, d_offset, sums_offset, plane_bytes, plane_bytes * static_cast<size_t>(plane_count(format))};
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
