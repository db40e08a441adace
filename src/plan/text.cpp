// A plan as text: what `quern plan` prints and golden tests compare.
#include <algorithm>

#include "plan/plan.h"

namespace quern::plan {
namespace {

std::string n(int64_t value) {
  return std::to_string(value);
}

struct Describe {
  std::string operator()(const kernels::EmbedArgs& a) const {
    return std::string(format::format_info(a.format).name) + " -> " + n(a.n_dim);
  }
  std::string operator()(const kernels::RopeTableArgs& a) const {
    return "base " + n(static_cast<int64_t>(a.base)) + " pairs " + n(a.n_pairs);
  }
  std::string operator()(const kernels::RmsNormArgs& a) const {
    return n(a.n_dim) + (a.gather ? " of output rows" : "");
  }
  std::string operator()(const kernels::QuantizeArgs& a) const {
    return n(a.n) + " -> " + kernels::act_format_name(a.format);
  }
  std::string operator()(const kernels::MatmulArgs& a) const {
    return std::string(format::format_info(a.format).name) + " [" + n(a.n_out) + " x " + n(a.n_in) + "] * " +
           kernels::act_format_name(a.act) + (a.bias != nullptr ? " + bias" : "") +
           (a.residual != nullptr ? " + residual" : "");
  }
  std::string operator()(const kernels::GatedMatmulArgs& a) const { return fn_name(a.fn) + " 2 x " + (*this)(a.gate); }
  std::string operator()(const kernels::RouteArgs& a) const {
    static constexpr const char* kGating[] = {"softmax", "sigmoid", "softmax of the chosen"};
    return n(a.n_used) + " of " + n(a.n_experts) + ", " + kGating[static_cast<int>(a.gating)] +
           (a.n_groups > 1 ? ", " + n(a.n_groups_used) + " of " + n(a.n_groups) + " groups" : "") +
           (a.renormalize ? ", renormalized" : "");
  }
  std::string operator()(const kernels::ReadAheadArgs& a) const { return n(a.n_used) + " experts"; }
  std::string operator()(const kernels::BucketArgs& a) const { return n(a.n_used) + " of " + n(a.n_experts); }
  std::string operator()(const kernels::GatherArgs& a) const {
    return n(a.n) + " -> " + kernels::act_format_name(a.format);
  }
  std::string operator()(const kernels::ExpertMatmulArgs& a) const { return of_experts(a.routed) + (*this)(a.of); }
  std::string operator()(const kernels::ExpertGatedArgs& a) const { return of_experts(a.routed) + (*this)(a.of); }
  std::string operator()(const kernels::ExpertSumArgs& a) const {
    return "weighted sum of " + of_experts(a.routed) + (*this)(a.of);
  }
  std::string operator()(const kernels::CombineArgs& a) const { return n(a.n_used) + " x " + n(a.n); }
  std::string operator()(const kernels::RowGateArgs& a) const { return "sigmoid of " + n(a.n_in) + ", " + n(a.n); }
  static std::string of_experts(const kernels::Routed& r) { return n(r.n_used) + " of " + n(r.n_experts) + " "; }
  static std::string fn_name(kernels::ActFn fn) {
    static constexpr const char* kNames[] = {"silu", "gelu_tanh", "swiglu_oai"};
    return kNames[static_cast<int>(fn)];
  }
  std::string operator()(const kernels::AddArgs& a) const { return n(a.n); }
  std::string operator()(const kernels::HeadNormArgs& a) const { return n(a.n_heads) + " x " + n(a.head_dim); }
  std::string operator()(const kernels::RopeArgs& a) const {
    return n(a.n_heads) + " x " + n(a.head_dim) + (a.neox ? " halves" : " neighbours") + " " + n(2 * a.n_pairs);
  }
  std::string operator()(const kernels::TemperatureArgs& a) const {
    return n(a.n) + " every " + n(a.period) + " positions";
  }
  std::string operator()(const kernels::KvStoreArgs& a) const {
    return "f16 kind " + n(a.place.kind) + ", " + n(a.place.n_kv_heads) + " x " + n(a.place.head_dim);
  }
  std::string operator()(const kernels::AttentionArgs& a) const {
    return n(a.n_heads) + "/" + n(a.place.n_kv_heads) + " x " + n(a.place.head_dim) +
           (a.window > 0 ? " window " + n(a.window) : "") + (a.softcap > 0 ? " softcap" : "") +
           (a.sinks != nullptr ? " sinks" : "");
  }
  std::string operator()(const kernels::AttentionPartsArgs& a) const {
    return (*this)(a.of) + ", up to " + n(a.max_pages) + " pages";
  }
  std::string operator()(const kernels::AttentionMergeArgs& a) const {
    return n(a.of.n_heads) + " x " + n(a.of.place.head_dim);
  }
  std::string operator()(const kernels::ActMulArgs& a) const { return fn_name(a.fn) + " " + n(a.n); }
  std::string operator()(const kernels::SoftcapArgs& a) const { return n(a.n); }
  std::string operator()(const kernels::RepackArgs&) const { return ""; }
};

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

}  // namespace

std::string declines_text(const Plan& plan) {
  std::vector<std::pair<const Decline*, int>> kinds;
  for (const Decline& d : plan.declines) {
    const auto same = [&](const auto& kind) {
      return kind.first->fusion == d.fusion && kind.first->reason == d.reason;
    };
    const auto it = std::find_if(kinds.begin(), kinds.end(), same);
    if (it == kinds.end()) {
      kinds.emplace_back(&d, 1);
    } else {
      ++it->second;
    }
  }
  std::string text;
  for (const auto& [d, times] : kinds) {
    text += "declined " + n(times) + " times: " + d->fusion + ", first at " + d->node + ": " + d->reason + "\n";
  }
  return text;
}

std::string to_text(const Plan& plan) {
  size_t n_calls = 0;
  for (const Step& step : plan.steps) n_calls += step.calls.size();
  std::string text = std::string("plan ") + kernels::row_class_name(plan.row_class) + ": up to " +
                     n(plan.options.max_rows) + " rows, " + n(plan.options.max_outputs) +
                     (plan.options.output == Output::hidden ? " hidden states; " : " outputs; ") +
                     std::to_string(plan.steps.size()) + " steps, " + std::to_string(n_calls) + " calls; arena " +
                     std::to_string(plan.arena_bytes) + " bytes\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    bool first = true;
    for (const Call& call : plan.steps[s].calls) {
      text += padded(first ? std::to_string(s) : "", 5) + padded(call.name, 24) + padded(call.kernel->name, 30) +
              std::visit(Describe{}, call.args) + (call.replicated ? ", every thread" : "") +
              (call.tuned ? " (tuned)" : "") + "\n";
      first = false;
    }
  }
  return text + declines_text(plan);
}

}  // namespace quern::plan
