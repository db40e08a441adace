// ref: ops that work row by row.
#include <cmath>
#include <cstring>

#include "format/activation.h"
#include "format/codec.h"
#include "kernels/ref/elementary.h"
#include "kernels/ref/ref.h"

namespace quern::kernels::ref {
namespace {

size_t at(int64_t row, int64_t width) { return static_cast<size_t>(row * width); }

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
  const Range r = share(ctx.n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    float* out = a.out + at(row, a.n_dim);
    format::dequantize_row(a.format, a.table + static_cast<size_t>(ctx.ids[row]) * a.row_bytes, out, static_cast<size_t>(a.n_dim));
    for (int i = 0; i < a.n_dim; ++i) out[i] *= a.scale;
  }
}

void rope_table(const RopeTableArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
  for (int i = 0; i < a.n_pairs && r.begin < r.end; ++i) {
    const double divisor = a.divisors != nullptr ? static_cast<double>(a.divisors[i]) : 1.0;
    const double frequency = a.scale * std::pow(a.base, -static_cast<double>(i) / a.n_pairs) / divisor;
    for (int64_t row = r.begin; row < r.end; ++row) {
      const double angle = ctx.positions[row] * frequency;
      float* out = a.out + at(row, 2 * a.n_pairs) + 2 * i;
      out[0] = static_cast<float>(std::cos(angle)) * a.magnitude;
      out[1] = static_cast<float>(std::sin(angle)) * a.magnitude;
    }
  }
}

void rms_norm(const RmsNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(row_count(ctx, a.rows), w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const int64_t source = a.gather ? ctx.out_rows[row] : row;
    norm(a.in + at(source, a.n_dim), a.weight, a.n_dim, a.eps, a.out + at(row, a.n_dim));
  }
}

void quantize(const QuantizeArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(row_count(ctx, a.rows), w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    format::quantize_activation_row(a.format, a.in + at(row, a.n), static_cast<size_t>(a.n), a.out + static_cast<size_t>(row) * a.out_stride);
  }
}

void add(const AddArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
  for (size_t i = at(r.begin, a.n); i < at(r.end, a.n); ++i) a.out[i] = a.a[i] + a.b[i];
}

void head_norm(const HeadNormArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(static_cast<int64_t>(ctx.n_rows) * a.n_heads, w);
  for (int64_t head = r.begin; head < r.end; ++head) {
    float* x = a.x + at(head, a.head_dim);
    norm(x, a.weight, a.head_dim, a.eps, x);
  }
}

void rope(const RopeArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(static_cast<int64_t>(ctx.n_rows) * a.n_heads, w);
  const int step = a.neox ? 1 : 2, reach = a.neox ? a.n_pairs : 1;
  for (int64_t head = r.begin; head < r.end; ++head) {
    float* x = a.x + at(head, a.head_dim);
    const float* table = a.table + at(head / a.n_heads, 2 * a.n_pairs);
    for (int i = 0; i < a.n_pairs; ++i) {
      const float c = table[2 * i], s = table[2 * i + 1];
      float& x0 = x[i * step];
      float& x1 = x[i * step + reach];
      const float y0 = std::fmaf(x0, c, -(x1 * s));
      const float y1 = std::fmaf(x0, s, x1 * c);
      x0 = y0;
      x1 = y1;
    }
  }
}

void act_mul(const ActMulArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(ctx.n_rows, w);
  for (size_t i = at(r.begin, a.n); i < at(r.end, a.n); ++i) {
    a.out[i] = (a.fn == ActFn::silu ? silu(a.gate[i]) : gelu_tanh(a.gate[i])) * a.up[i];
  }
}

void softcap(const SoftcapArgs& a, const RunContext& ctx, const Worker& w) {
  const Range r = share(row_count(ctx, a.rows) * a.n, w);
  for (int64_t i = r.begin; i < r.end; ++i) a.x[i] = a.cap * tanh_f32(a.x[i] / a.cap);
}

}  // namespace quern::kernels::ref
