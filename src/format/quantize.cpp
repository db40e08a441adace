// Choosing integer codes for floats. One search serves all formats, driven by CodeTraits: per sub-block find the real
// line w = scale * q - minimum, then fit the format's own scale parts to those lines, then round the weights once more
// with the scales as they will be read back. Bits are pack.cpp's business.
#include "format/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "format/half.h"

namespace quern::format {
namespace {

struct Line {
  float scale = 0.0f;
  float minimum = 0.0f;
};

float round_to_f16(float value) {
  return f16_to_f32(f32_to_f16(value));
}

// Nearest integer, NaN counting as lo.
int round_clamped(float value, int lo, int hi) {
  if (!(value > static_cast<float>(lo))) return lo;
  if (value >= static_cast<float>(hi)) return hi;
  return static_cast<int>(std::nearbyint(value));
}

int nearest_code(const CodeTraits& traits, float value) {
  if (traits.table == nullptr) return round_clamped(value, traits.q_lo, traits.q_hi);
  int best = 0;
  float best_distance = std::numeric_limits<float>::infinity();
  for (int code = 0; code < 16; ++code) {
    const float distance = std::fabs(value - static_cast<float>(traits.table[code]));
    if (distance < best_distance) {
      best = code;
      best_distance = distance;
    }
  }
  return traits.table[best];
}

// Codes of x on a line (q may be null), and their squared error.
double fit_codes(const CodeTraits& traits, const float* x /*[n]*/, int n, Line line, int8_t* q /*[n]*/) {
  double error = 0.0;
  for (int i = 0; i < n; ++i) {
    const int code = nearest_code(traits, line.scale != 0.0f ? (x[i] + line.minimum) / line.scale : 0.0f);
    const double difference = line.scale * static_cast<float>(code) - line.minimum - x[i];
    error += difference * difference;
    if (q != nullptr) q[i] = static_cast<int8_t>(code);
  }
  return error;
}

float extreme(const float* x /*[n]*/, int n) {
  float result = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(result)) result = x[i];
  }
  return result;
}

// Lines that reach the outermost values of a sub-block, the starting points of the search. Signed formats give the
// outermost value the most negative code (of which there is one more), or as variant 1 the most positive one; Q8_0
// leaves -128 unused, as all its writers do. Formats with a minimum start at the lowest value or, as variant v, a
// fraction of the range above it.
Line outer_line(const CodeTraits& traits, const float* x /*[n]*/, int n, int variant) {
  if (traits.sub_min_hi == 0) {
    const float outermost = extreme(x, n);
    if (traits.q_lo == -128) return {std::fabs(outermost) / 127.0f, 0.0f};
    return {outermost / static_cast<float>(variant == 0 ? traits.q_lo : traits.q_hi), 0.0f};
  }
  constexpr float kCutStep = 0.04f;
  const float high = *std::max_element(x, x + n);
  float low = *std::min_element(x, x + n);
  if (traits.sub_min_hi > 1) low = std::min(low, 0.0f);  // K-quants store the minimum as a non-negative multiple
  const float start = low + kCutStep * static_cast<float>(variant) * (high - low);
  return {(high - start) / static_cast<float>(traits.q_hi), traits.sub_min_hi > 1 ? std::max(-start, 0.0f) : -start};
}

// The least-error line of a sub-block among the outer ones and steeper or flatter ones: clipping few values a little
// often pays, the more so the fewer codes there are.
Line find_line(const CodeTraits& traits, const float* x /*[n]*/, int n) {
  constexpr int kSlopeSteps = 8;
  constexpr float kSlopeStep = 0.025f;
  const int n_variants = traits.sub_min_hi > 0 ? 5 : 2;
  Line best = outer_line(traits, x, n, 0);
  if (traits.q_lo == -128) return best;
  double best_error = fit_codes(traits, x, n, best, nullptr);
  for (int variant = 0; variant < n_variants; ++variant) {
    const Line outer = outer_line(traits, x, n, variant);
    for (int step = -kSlopeSteps; step <= kSlopeSteps; ++step) {
      const Line line = {outer.scale * (1.0f + kSlopeStep * static_cast<float>(step)), outer.minimum};
      const double error = fit_codes(traits, x, n, line, nullptr);
      if (error < best_error) {
        best = line;
        best_error = error;
      }
    }
  }
  return best;
}

// Formats of 32 weights: one line is the block.
void choose_block32(const CodeTraits& traits, const float* x, BlockCodes* codes) {
  const Line line = find_line(traits, x, traits.weights);
  codes->d = round_to_f16(line.scale);
  codes->sub_scale[0] = 1;
  codes->dmin = round_to_f16(line.minimum);
  codes->sub_min[0] = traits.sub_min_hi > 0 ? 1 : 0;
  fit_codes(traits, x, traits.weights, {codes->d, codes->dmin}, codes->q);
}

// Formats of 256 weights: d and dmin make the outermost scale and minimum the outermost sub-scale and sub-minimum.
void choose_block256(const CodeTraits& traits, const float* x, BlockCodes* codes) {
  const int width = traits.sub_width;
  const int n_subs = traits.weights / width;
  float scales[16] = {};
  float minima[16] = {};
  for (int j = 0; j < n_subs; ++j) {
    const Line line = find_line(traits, x + j * width, width);
    scales[j] = line.scale;
    minima[j] = line.minimum;
  }
  const int outermost = traits.sub_lo < 0 ? traits.sub_lo : traits.sub_hi;
  codes->d = round_to_f16(extreme(scales, n_subs) / static_cast<float>(outermost));
  codes->dmin =
      traits.sub_min_hi > 0 ? round_to_f16(extreme(minima, n_subs) / static_cast<float>(traits.sub_min_hi)) : 0.0f;
  for (int j = 0; j < n_subs; ++j) {
    const float scale = codes->d != 0.0f ? scales[j] / codes->d : 0.0f;
    const float minimum = codes->dmin != 0.0f ? minima[j] / codes->dmin : 0.0f;
    codes->sub_scale[j] = static_cast<int8_t>(round_clamped(scale, traits.sub_lo, traits.sub_hi));
    codes->sub_min[j] = static_cast<uint8_t>(round_clamped(minimum, 0, traits.sub_min_hi));
    const Line line = {codes->d * static_cast<float>(codes->sub_scale[j]),
                       codes->dmin * static_cast<float>(codes->sub_min[j])};
    fit_codes(traits, x + j * width, width, line, codes->q + j * width);
  }
}

// MXFP4: d is a power of two. With the largest value in [2^k, 2^(k+1)), the largest level 12 * d is either 1.5 * 2^k,
// and what lies above is cut, or twice that.
void choose_mxfp4(const CodeTraits& traits, const float* x, BlockCodes* codes) {
  const float outermost = extreme(x, traits.weights);
  const int exponent = outermost != 0.0f ? std::clamp(std::ilogb(outermost), -126, 127) - 3 : -128;
  double best_error = std::numeric_limits<double>::infinity();
  codes->d = 0x1p-128f;
  for (int e = std::max(exponent, -128); e <= exponent + 1; ++e) {
    const float d = std::ldexp(1.0f, e);
    const double error = fit_codes(traits, x, traits.weights, {d, 0.0f}, nullptr);
    if (error < best_error) {
      codes->d = d;
      best_error = error;
    }
  }
  codes->sub_scale[0] = 1;
  codes->dmin = 0.0f;
  codes->sub_min[0] = 0;
  fit_codes(traits, x, traits.weights, {codes->d, 0.0f}, codes->q);
}

template <class Convert>
void narrow_row(const float* x, size_t n, std::byte* packed, Convert convert) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(x[i]);
    std::memcpy(packed + 2 * i, &bits, 2);
  }
}

}  // namespace

void choose_codes(Format format, const float* x, BlockCodes* codes) {
  const CodeTraits& traits = code_traits(format);
  if (format == Format::mxfp4) return choose_mxfp4(traits, x, codes);
  return traits.weights == 32 ? choose_block32(traits, x, codes) : choose_block256(traits, x, codes);
}

void quantize_row(Format format, const float* x, size_t n, std::byte* packed) {
  const FormatInfo& info = format_info(format);
  QUERN_CHECK(n % info.block_weights == 0);
  switch (format) {
    case Format::f32:
      std::memcpy(packed, x, n * sizeof(float));
      return;
    case Format::f16:
      narrow_row(x, n, packed, f32_to_f16);
      return;
    case Format::bf16:
      narrow_row(x, n, packed, f32_to_bf16);
      return;
    default:
      break;
  }
  BlockCodes codes;
  for (size_t i = 0; i < n; i += info.block_weights, packed += info.block_bytes) {
    choose_codes(format, x + i, &codes);
    pack_block(format, codes, packed);
  }
}

}  // namespace quern::format
