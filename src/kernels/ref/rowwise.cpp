// ref: ops that work row by row.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "format/activation.h"
#include "format/codec.h"
#include "kernels/ref/elementary.h"
#include "kernels/ref/matmul.h"
#include "kernels/ref/ref.h"

namespace quern::kernels::ref {
namespace {

size_t at(int64_t row, int64_t width) {
  return static_cast<size_t>(row * width);
}

// x * (1 / sqrt(mean(x^2) + eps)) * weight
void norm(const float* in, const float* weight, int n, float eps, float* out) {
  float partial[16] = {};
  for (int i = 0; i < n; ++i) partial[i % 16] = std::fmaf(in[i], in[i], partial[i % 16]);
  const float scale = 1.0F / std::sqrt(fold_partials(partial) / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) out[i] = in[i] * scale * weight[i];
}

}  // namespace

float fold_partials(const float* partial) {
  float p[16];
  std::memcpy(p, partial, sizeof p);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) p[i] = p[i] + p[i + half];
  }
  return p[0];
}

void embed(const EmbedArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    float* out = a.out + at(row, a.n_dim);
    format::dequantize_row(a.format, a.table + static_cast<size_t>(ctx.ids[row]) * a.row_bytes, out,
                           static_cast<size_t>(a.n_dim));
    for (int i = 0; i < a.n_dim; ++i) out[i] *= a.scale;
  }
}

void rope_table(const RopeTableArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const int step = a.neox ? 1 : 2, reach = a.neox ? a.n_pairs : 1;
  for (int i = 0; i < a.n_pairs && r.begin < r.end; ++i) {
    const double divisor = a.divisors != nullptr ? static_cast<double>(a.divisors[i]) : 1.0;
    const double frequency = a.scale * std::pow(a.base, -static_cast<double>(i) / a.n_pairs) / divisor;
    for (int64_t row = r.begin; row < r.end; ++row) {
      const double angle = ctx.positions[row] * frequency;
      float* cosines = a.out + at(row, 4 * a.n_pairs) + i * step;
      float* sines = cosines + 2 * a.n_pairs;
      cosines[0] = cosines[reach] = static_cast<float>(std::cos(angle)) * a.magnitude;
      sines[reach] = static_cast<float>(std::sin(angle)) * a.magnitude;
      sines[0] = -sines[reach];
    }
  }
}

void rms_norm(const RmsNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(row_count(ctx, a.rows), w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const int64_t source = a.gather ? ctx.out_rows[row] : row;
    norm(a.in + at(source, a.n_dim), a.weight, a.n_dim, a.eps, a.out + at(row, a.n_dim));
  }
}

void quantize(const QuantizeArgs& a, const RunContext& ctx, const Worker& w) {
  const int64_t n_rows = row_count(ctx, a.rows);
  const Range r = rows_of(n_rows, w);
  const auto n = static_cast<size_t>(a.n);
  if (!format::is_tiled(a.format)) {
    for (int64_t row = r.begin; row < r.end; ++row) {
      format::quantize_activation_row(a.format, a.in + at(row, a.n), n,
                                      a.out + static_cast<size_t>(row) * a.out_stride);
    }
    return;
  }
  const format::ActivationLayout layout = format::activation_layout(format::in_rows(a.format), n);
  const int n_planes = format::plane_count(a.format);
  std::vector<std::byte> planes(layout.row_bytes);
  const auto place = [&](const std::byte* plane, int64_t v) {
    format::put_into_tile(a.format, plane, n, static_cast<int>(v % format::kTileRows),
                          a.out + static_cast<size_t>(v / format::kTileRows) * a.out_stride);
  };
  for (int64_t row = r.begin; row < r.end; ++row) {
    format::quantize_activation_row(format::in_rows(a.format), a.in + at(row, a.n), n, planes.data());
    for (int p = 0; p < n_planes; ++p) {
      place(planes.data() + static_cast<size_t>(p) * layout.plane_bytes, row * n_planes + p);
    }
  }
  if (r.begin == r.end || r.end != n_rows) return;
  std::fill(planes.begin(), planes.end(), std::byte{0});
  for (int64_t v = n_rows * n_planes; v % format::kTileRows != 0; ++v) place(planes.data(), v);
}

void add(const AddArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (size_t i = at(r.begin, a.n); i < at(r.end, a.n); ++i) a.out[i] = a.a[i] + a.b[i];
}

void head_norm(const HeadNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t head = r.begin * a.n_heads; head < r.end * a.n_heads; ++head) {
    float* x = a.x + at(head, a.head_dim);
    norm(x, a.weight, a.head_dim, a.eps, x);
  }
}

void rope(const RopeArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  const int step = a.neox ? 1 : 2, reach = a.neox ? a.n_pairs : 1;
  for (int64_t head = r.begin * a.n_heads; head < r.end * a.n_heads; ++head) {
    float* x = a.x + at(head, a.head_dim);
    const float* cosines = a.table + at(head / a.n_heads, 4 * a.n_pairs);
    const float* sines = cosines + 2 * a.n_pairs;
    for (int i = 0; i < a.n_pairs; ++i) {
      const int i0 = i * step, i1 = i0 + reach;
      const float x0 = x[i0], x1 = x[i1];
      x[i0] = std::fmaf(x0, cosines[i0], x1 * sines[i0]);
      x[i1] = std::fmaf(x1, cosines[i1], x0 * sines[i1]);
    }
  }
}

void temperature(const TemperatureArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const int64_t periods = (int64_t{ctx.positions[row]} + a.offset) / a.period;
    const auto factor = static_cast<float>(1.0 + a.scale * std::log(1.0 + static_cast<double>(periods)));
    for (size_t i = at(row, a.n); i < at(row + 1, a.n); ++i) a.x[i] *= factor;
  }
}

float gated(ActFn fn, float gate, float up) {
  if (fn == ActFn::silu) return silu(gate) * up;
  if (fn == ActFn::gelu_tanh) return gelu_tanh(gate) * up;
  const float g = gate < kSwigluLimit ? gate : kSwigluLimit;
  const float low = up > -kSwigluLimit ? up : -kSwigluLimit, u = low < kSwigluLimit ? low : kSwigluLimit;
  return gelu_quick(g) * (u + 1.0F);
}

void act_mul(const ActMulArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = rows_of(row_count(ctx, a.rows), w);
  for (int64_t i = r.begin * a.n; i < r.end * a.n; ++i) a.out[i] = gated(a.fn, a.gate[i], a.up[i]);
}

void softcap(const SoftcapArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(row_count(ctx, a.rows) * a.n, w);
  for (int64_t i = r.begin; i < r.end; ++i) a.x[i] = a.cap * tanh_f32(a.x[i] / a.cap);
}

}  // namespace quern::kernels::ref
