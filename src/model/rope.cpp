#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/params.h"

namespace quern::model {
namespace {

constexpr double kYarnBetaFast = 32, kYarnBetaSlow = 1;  // where no key says
constexpr double kMaxFactor = 1 << 20;                   // and one over it: within, no f32 overflows or vanishes

int64_t original_context(const Params& p, int n_ctx_train) {
  return p.rope_original_ctx > 0 ? p.rope_original_ctx : n_ctx_train;
}

Result<void> check_yarn(const file::GgufFile& file, const Params& p, const RopeSpec& rope) {
  if (p.yarn_beta_fast == 0) return bad(file, "rope.scaling.yarn_beta_fast is 0");
  if (p.yarn_beta_slow == 0) return bad(file, "rope.scaling.yarn_beta_slow is 0");
  if (!(rope.base > 1)) return bad(file, "rope.freq_base is not above 1, which yarn needs");
  QUERN_TRY_VOID(bounded(file, "rope.scaling.original_context_length",
                         original_context(p, static_cast<int>(p.n_ctx_train)), 1, INT32_MAX));
  return {};
}

}  // namespace

Result<RopeSpec> make_rope(const file::GgufFile& file, const Arch& arch, const Params& p, const LayerSpec& layer) {
  RopeSpec rope;
  rope.kind = arch.rope;
  QUERN_TRY(rope.n_dims,
            bounded(file, "rope.dimension_count", p.rope_dims < 0 ? layer.head_dim : p.rope_dims, 2, layer.head_dim));
  if (rope.n_dims % 2 != 0) return bad(file, "rope.dimension_count is odd");
  const std::string& scaling = p.rope_scaling;
  if (!scaling.empty() && scaling != "linear" && scaling != "none" && scaling != "longrope" && scaling != "yarn")
    return Error{Status::unsupported, file.path() + ": rope scaling '" + scaling + "' is not known"};
  const double base_swa = p.rope_base_swa > 0 ? p.rope_base_swa : arch.default_rope_base_swa;
  const bool own_base = layer.window > 0 && base_swa > 0;
  rope.base = own_base ? base_swa : p.rope_base > 0 ? p.rope_base : 10000.0;
  const bool scaled = scaling.empty() || scaling == "linear" || scaling == "yarn";
  if (scaled && (!own_base || arch.scale_windowed_rope)) {
    const double factor = p.rope_scale_factor > 0 ? p.rope_scale_factor : p.rope_scale_linear;
    if (factor > 0) rope.scale = 1.0 / factor;
    if (!(rope.scale >= 1 / kMaxFactor && rope.scale <= kMaxFactor))
      return bad(file, "rope.scaling.factor is " + std::to_string(factor) + ", far from any sense");
  }
  double magnitude = p.rope_attn_factor > 0 ? p.rope_attn_factor : 1.0;
  if (scaling == "yarn") {
    QUERN_TRY_VOID(check_yarn(file, p, rope));
    magnitude *= yarn_magnitude(1.0 / rope.scale, std::max(p.yarn_log_multiplier, 0.0));
  }
  rope.magnitude = static_cast<float>(magnitude);
  if (!std::isfinite(rope.magnitude)) return bad(file, "rope.scaling.attn_factor is not finite");
  return rope;
}

void yarn_divisors(const Yarn& yarn, const float* factors, float* divisors) {
  // The pair, as a real number, that turns so many times within the original context.
  const auto pair_of = [&](double turns) {
    return yarn.n_dims * std::log(static_cast<double>(yarn.original_ctx) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(yarn.base));
  };
  const double first = std::max(0.0, std::floor(pair_of(yarn.beta_fast)));
  const double last = std::min(yarn.n_dims - 1.0, std::ceil(pair_of(yarn.beta_slow)));
  for (int i = 0; i < yarn.n_dims / 2; ++i) {
    const double kept = 1.0 - std::clamp((i - first) / std::max(0.001, last - first), 0.0, 1.0);
    const double factor = factors != nullptr ? static_cast<double>(factors[i]) : 1.0;
    divisors[i] = static_cast<float>(factor / (yarn.scale * (1.0 - kept) + kept));
  }
}

double yarn_magnitude(double factor, double log_multiplier) {
  const auto grown = [factor](double by) { return factor <= 1 ? 1.0 : 1.0 + 0.1 * by * std::log(factor); };
  return grown(1.0) / (log_multiplier > 0 ? grown(log_multiplier) : 1.0);
}

Result<void> attach_rope_divisors(Model& model, const Params& p, int n_ctx) {
  const int64_t original = original_context(p, model.spec.n_ctx_train);
  const int used = n_ctx > 0 ? n_ctx : model.spec.n_ctx_train;
  const Role chosen = used > original ? Role::rope_factors_long : Role::rope_factors_short;
  const Weight* weight = model.globals.get(chosen);
  if (weight == nullptr) weight = model.globals.get(Role::rope_freqs);
  const float* factors = weight != nullptr ? weight->f32() : nullptr;
  std::vector<std::pair<RopeSpec, RopeSpec>> mixed;  // layers of one rotation share one table
  for (LayerSpec& layer : model.spec.layers) {
    RopeSpec& rope = layer.rope;
    if (rope.kind == RopeKind::none) continue;
    if (p.rope_scaling != "yarn" || rope.scale == 1.0) {
      rope.divisors = factors;
      continue;
    }
    auto it = std::find_if(mixed.begin(), mixed.end(), [&](const auto& known) { return known.first == rope; });
    if (it == mixed.end()) {
      const size_t bytes = static_cast<size_t>(rope.n_dims / 2) * sizeof(float);
      QUERN_TRY(Buffer buffer, Buffer::allocate(bytes, "rope divisors"));
      yarn_divisors({rope.n_dims, rope.base, rope.scale, p.yarn_beta_fast > 0 ? p.yarn_beta_fast : kYarnBetaFast,
                     p.yarn_beta_slow > 0 ? p.yarn_beta_slow : kYarnBetaSlow, original},
                    factors, buffer.as<float>());
      RopeSpec done = rope;
      done.scale = 1.0;
      done.divisors = buffer.as<float>();
      model.computed.push_back(std::move(buffer));
      it = mixed.insert(mixed.end(), {rope, done});
    }
    rope = it->second;
  }
  return {};
}

}  // namespace quern::model
