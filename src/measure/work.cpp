#include "measure/work.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace quern::measure {
namespace {

using kernels::RunContext;

uint64_t u(int64_t n) {
  return static_cast<uint64_t>(n);
}
constexpr uint64_t kF32 = sizeof(float);
constexpr uint64_t kF16 = 2;

uint64_t act_bytes(format::ActivationFormat format, int64_t n, uint64_t rows) {
  return format::activation_bytes(format, static_cast<size_t>(n), rows);
}

// One overload per op: a new op does not compile without one.
struct Count {
  const RunContext& ctx;
  uint64_t rows(kernels::RowSet set) const { return u(kernels::row_count(ctx, set)); }
  uint64_t tokens() const { return u(ctx.n_rows); }

  Work operator()(const kernels::EmbedArgs& a) const {
    return {.weight_bytes = tokens() * a.row_bytes, .write_bytes = tokens() * u(a.n_dim) * kF32};
  }
  Work operator()(const kernels::RopeTableArgs& a) const {
    return {.weight_bytes = a.divisors != nullptr ? u(a.n_pairs) * kF32 : 0,
            .write_bytes = tokens() * 4 * u(a.n_pairs) * kF32};
  }
  Work operator()(const kernels::RmsNormArgs& a) const {
    const uint64_t bytes = rows(a.rows) * u(a.n_dim) * kF32;
    return {.weight_bytes = u(a.n_dim) * kF32, .read_bytes = bytes, .write_bytes = bytes};
  }
  Work operator()(const kernels::QuantizeArgs& a) const {
    return {.read_bytes = rows(a.rows) * u(a.n) * kF32, .write_bytes = act_bytes(a.format, a.n, rows(a.rows))};
  }
  Work operator()(const kernels::MatmulArgs& a) const {
    const uint64_t n = rows(a.rows), out = n * u(a.n_out) * kF32;
    if (n == 0) return {};
    Work w{.weight_bytes = u(a.n_out) * format::row_bytes(a.format, static_cast<size_t>(a.n_in)),
           .read_bytes = act_bytes(a.act, a.n_in, n) + (a.residual != nullptr ? out : 0),
           .write_bytes = out};
    if (a.bias != nullptr) w.weight_bytes += u(a.n_out) * kF32;
    (a.act == format::ActivationFormat::f32 ? w.float_macs : w.int_macs) = n * u(a.n_out) * u(a.n_in);
    return w;
  }
  Work operator()(const kernels::GatedMatmulArgs& a) const {
    Work w = (*this)(a.gate);
    w.weight_bytes *= 2;
    w.int_macs *= 2;
    w.float_macs *= 2;
    return w;
  }
  Work operator()(const kernels::RouteArgs& a) const {
    return {.read_bytes = tokens() * u(a.n_experts) * kF32, .write_bytes = choice_bytes(a.n_used)};
  }
  Work operator()(const kernels::ReadAheadArgs& a) const { return {.read_bytes = choice_bytes(a.n_used)}; }
  Work operator()(const kernels::BucketArgs& a) const {
    return {.read_bytes = choice_bytes(a.n_used),
            .write_bytes = u(kernels::bucket_ints(int64_t{ctx.n_rows} * a.n_used, a.n_experts)) * 4};
  }
  Work operator()(const kernels::GatherArgs& a) const {
    const uint64_t n = tokens() * u(a.n_used);
    return {.read_bytes = act_bytes(format::in_rows(a.format), a.n, n), .write_bytes = act_bytes(a.format, a.n, n)};
  }
  Work operator()(const kernels::ExpertMatmulArgs& a) const { return routed(a.of, a.routed); }
  Work operator()(const kernels::ExpertGatedArgs& a) const {
    Work w = routed(a.of.gate, a.routed);
    w.weight_bytes *= 2;
    w.int_macs *= 2;
    return w;
  }
  Work operator()(const kernels::ExpertSumArgs& a) const {
    Work w = routed(a.of, a.routed);
    w.write_bytes = tokens() * u(a.of.n_out) * kF32;
    if (a.of.residual != nullptr) w.read_bytes += w.write_bytes;
    return w;
  }
  Work operator()(const kernels::CombineArgs& a) const {
    const uint64_t bytes = tokens() * u(a.n) * kF32;
    return {.read_bytes = u(a.n_used) * bytes + choice_bytes(a.n_used), .write_bytes = bytes};
  }
  Work operator()(const kernels::RowGateArgs& a) const {
    const uint64_t bytes = tokens() * u(a.n) * kF32;
    return {.weight_bytes = u(a.n_in) * kF32,
            .read_bytes = bytes + tokens() * u(a.n_in) * kF32,
            .write_bytes = bytes,
            .float_macs = tokens() * u(a.n_in)};
  }
  uint64_t choice_bytes(int n_used) const { return tokens() * u(n_used) * sizeof(kernels::ExpertChoice); }
  // Each expert that any row chose is read once: which they are only the run knows, so the expectation of even choice.
  Work routed(const kernels::MatmulArgs& a, const kernels::Routed& r) const {
    const uint64_t n = tokens() * u(r.n_used);
    const double missed = std::pow(1.0 - static_cast<double>(r.n_used) / r.n_experts, static_cast<double>(ctx.n_rows));
    const auto n_read = static_cast<uint64_t>(std::lround(r.n_experts * (1.0 - missed)));
    const uint64_t row_bytes = format::row_bytes(a.format, static_cast<size_t>(a.n_in));
    Work w{.weight_bytes = n_read * u(a.n_out) * row_bytes,
           .read_bytes = act_bytes(a.act, a.n_in, n),
           .write_bytes = n * u(a.n_out) * kF32};
    (a.act == format::ActivationFormat::f32 ? w.float_macs : w.int_macs) = n * u(a.n_out) * u(a.n_in);
    return w;
  }
  Work operator()(const kernels::AddArgs& a) const {
    const uint64_t bytes = tokens() * u(a.n) * kF32;
    return {.read_bytes = 2 * bytes, .write_bytes = bytes};
  }
  Work operator()(const kernels::HeadNormArgs& a) const {
    const uint64_t bytes = tokens() * u(a.n_heads) * u(a.head_dim) * kF32;
    return {.weight_bytes = u(a.head_dim) * kF32, .read_bytes = bytes, .write_bytes = bytes};
  }
  Work operator()(const kernels::RopeArgs& a) const {
    const uint64_t bytes = tokens() * u(a.n_heads) * 2 * u(a.n_pairs) * kF32;
    return {.read_bytes = bytes + tokens() * 4 * u(a.n_pairs) * kF32, .write_bytes = bytes};
  }
  Work operator()(const kernels::TemperatureArgs& a) const {
    const uint64_t bytes = tokens() * u(a.n) * kF32;
    return {.read_bytes = bytes, .write_bytes = bytes};
  }
  Work operator()(const kernels::KvStoreArgs& a) const {
    const uint64_t n = 2 * tokens() * u(a.place.n_kv_heads) * u(a.place.head_dim);
    return {.kv_bytes = n * kF16, .read_bytes = n * kF32};
  }
  Work operator()(const kernels::AttentionArgs& a) const {
    uint64_t seen = 0, pairs = 0;  // positions that any row sees; (row, position) pairs
    for (int s = 0; s < ctx.n_spans; ++s) {
      const kernels::Span& span = ctx.spans[s];
      const auto first_seen = [&](int64_t p) { return a.window > 0 ? std::max<int64_t>(0, p - a.window + 1) : 0; };
      if (span.n_rows == 0) continue;
      const int64_t end = int64_t{span.first_position} + span.n_rows;
      seen += u(end - first_seen(span.first_position));
      for (int64_t p = span.first_position; p < end; ++p) pairs += u(p + 1 - first_seen(p));
    }
    const uint64_t dim = u(a.place.head_dim), row = tokens() * u(a.n_heads) * dim * kF32;
    return {.kv_bytes = 2 * seen * u(a.place.n_kv_heads) * dim * kF16,
            .read_bytes = row,
            .write_bytes = row,
            .float_macs = 2 * pairs * u(a.n_heads) * dim};
  }
  Work operator()(const kernels::AttentionPartsArgs& a) const {
    Work w = (*this)(a.of);
    w.write_bytes = part_bytes(a.of);
    return w;
  }
  Work operator()(const kernels::AttentionMergeArgs& a) const {
    return {.read_bytes = part_bytes(a.of), .write_bytes = tokens() * u(a.of.n_heads) * u(a.of.place.head_dim) * kF32};
  }
  uint64_t part_bytes(const kernels::AttentionArgs& a) const {
    if (ctx.n_spans == 0) return 0;
    return u(a.n_heads) * u(kernels::SeenPages(a, ctx).n) * u(a.place.head_dim + kernels::AttentionPartsArgs::kRest) *
           kF32;
  }
  Work operator()(const kernels::ActMulArgs& a) const {
    const uint64_t bytes = rows(a.rows) * u(a.n) * kF32;
    return {.read_bytes = 2 * bytes, .write_bytes = bytes};
  }
  Work operator()(const kernels::SoftcapArgs& a) const {
    const uint64_t bytes = rows(a.rows) * u(a.n) * kF32;
    return {.read_bytes = bytes, .write_bytes = bytes};
  }
  Work operator()(const kernels::RepackArgs& a) const {
    const uint64_t bytes = u(a.n_rows) * format::row_bytes(a.format, static_cast<size_t>(a.n_cols));
    return {.weight_bytes = bytes, .write_bytes = bytes};
  }
};

}  // namespace

Work& Work::operator+=(const Work& w) {
  weight_bytes += w.weight_bytes;
  kv_bytes += w.kv_bytes;
  read_bytes += w.read_bytes;
  write_bytes += w.write_bytes;
  int_macs += w.int_macs;
  float_macs += w.float_macs;
  return *this;
}

Work work_of(const kernels::OpArgs& args, const RunContext& ctx) {
  return std::visit(Count{ctx}, args);
}

uint64_t step_bytes(const plan::Plan& plan, int n_sequences, int position) {
  std::vector<kernels::Span> spans;
  for (int i = 0; i < n_sequences; ++i) spans.push_back({i, 1, position, nullptr});
  RunContext ctx;
  ctx.n_rows = ctx.n_spans = ctx.n_out = n_sequences;
  ctx.spans = spans.data();
  uint64_t bytes = 0;
  for (const plan::Step& step : plan.steps) {
    for (const plan::Call& call : step.calls) {
      const Work w = work_of(call, plan.complete(ctx));
      bytes += w.weight_bytes + w.kv_bytes;
    }
  }
  return bytes;
}

}  // namespace quern::measure
