// What a Spec may say that no plan can be built for yet. Each refusal names what is missing.
#include "plan/plan.h"

namespace quern::plan {
namespace {

Error missing(const model::Model& model, size_t layer, const std::string& what) {
  return {Status::unsupported,
          "architecture " + model.spec.arch + ", layer " + std::to_string(layer) + ": " + what + " not supported yet"};
}

}  // namespace

Result<void> check_support(const model::Model& model, int n_ctx) {
  for (size_t i = 0; i < model.spec.layers.size(); ++i) {
    const model::LayerSpec& layer = model.spec.layers[i];
    if (layer.experts.n_experts > 0) return missing(model, i, "experts are");
    if (layer.activation == model::Activation::swiglu_oai) return missing(model, i, "the clamped SwiGLU is");
    if (layer.temperature.period > 0) return missing(model, i, "scaling queries by position is");
    if (layer.chunk > 0 && n_ctx > layer.chunk) {
      return missing(model, i,
                     "attention in chunks of " + std::to_string(layer.chunk) + " tokens, which a context of " +
                         std::to_string(n_ctx) + " needs, is");
    }
  }
  return {};
}

}  // namespace quern::plan
