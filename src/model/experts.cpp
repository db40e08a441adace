#include "model/experts.h"

#include <algorithm>
#include <cmath>

namespace quern::model {
namespace {

using file::GgufFile;

constexpr int64_t kMaxExperts = 1024;

bool has_experts(const Params& p, size_t layer) {
  if (static_cast<int64_t>(layer) < p.dense_lead) return false;
  if (p.expert_layer_step < 0) return true;
  return p.expert_layer_step > 0 && (static_cast<int64_t>(layer) + 1) % p.expert_layer_step == 0;
}

// Numbers are those of the key expert_gating_func.
Result<Gating> gating_of(const GgufFile& file, const Arch& arch, const Params& p) {
  switch (p.gating) {
    case -1:
    case 0:
      return arch.experts.gating;
    case 1:
      return Gating::softmax;
    case 2:
      return Gating::sigmoid;
    case 3:
      return Gating::softmax_chosen;
    default:
      return Error{Status::unsupported,
                   file.path() + ": expert_gating_func " + std::to_string(p.gating) + " is not supported"};
  }
}

Result<void> set_widths(const GgufFile& file, const Arch& arch, const Params& p, size_t i, ExpertSpec& e) {
  int n_ff = 0;
  if (p.n_ff.set()) {
    QUERN_TRY(n_ff, layer_value(file, "feed_forward_length", p.n_ff, i, 0, kMaxWidth));
  }
  if (p.n_ff_expert.set()) {
    QUERN_TRY(e.n_ff, layer_value(file, "expert_feed_forward_length", p.n_ff_expert, i, 0, kMaxWidth));
  }
  if (e.n_ff == 0) e.n_ff = arch.experts.width == ExpertWidth::ff ? n_ff : n_ff / e.n_used;
  if (e.n_ff == 0)
    return bad(file, "neither expert_feed_forward_length nor feed_forward_length says how wide experts are");
  int64_t shared = std::max<int64_t>(p.n_ff_shared, 0);
  if (shared == 0 && p.n_shared > 0) {
    QUERN_TRY(const int n_shared, bounded(file, "expert_shared_count", p.n_shared, 0, kMaxExperts));
    shared = int64_t{n_shared} * e.n_ff;
  }
  if (shared == 0 && arch.experts.shared == SharedWidth::ff) shared = n_ff;
  if (shared == 0 && arch.experts.shared == SharedWidth::ff_expert) shared = e.n_ff;
  QUERN_TRY(e.n_ff_shared, bounded(file, "expert_shared_feed_forward_length", shared, 0, kMaxWidth));
  return {};
}

Result<void> set_groups(const GgufFile& file, const Params& p, ExpertSpec& e) {
  if (p.n_groups <= 1) return {};
  QUERN_TRY(e.n_groups, bounded(file, "expert_group_count", p.n_groups, 2, e.n_experts));
  if (e.n_experts % e.n_groups != 0)
    return bad(file, "expert_group_count " + std::to_string(e.n_groups) + " does not divide expert_count " +
                         std::to_string(e.n_experts));
  const int size = e.n_experts / e.n_groups;
  if (size < 2)
    return bad(file, "expert_group_count leaves groups of one expert, fewer than the two that rank a group");
  QUERN_TRY(e.n_groups_used, bounded(file, "expert_group_used_count", p.n_groups_used, 1, e.n_groups));
  if (e.n_used > e.n_groups_used * size)
    return bad(file, "expert_used_count is " + std::to_string(e.n_used) + ", more than the " +
                         std::to_string(e.n_groups_used * size) + " experts of expert_group_used_count groups");
  return {};
}

}  // namespace

Result<ExpertSpec> make_experts(const GgufFile& file, const Arch& arch, const Params& p, size_t i) {
  if (p.n_experts <= 0) {
    if (arch.requires_experts) return bad(file, "expert_count is 0 in a network of experts");
    if (p.n_experts_used.set() && p.n_experts_used.at(0) != 0)
      return bad(file, "expert_used_count is stated and expert_count is not");
    return ExpertSpec{};
  }
  if (!has_experts(p, i)) return ExpertSpec{};
  ExpertSpec e;
  QUERN_TRY(e.n_experts, bounded(file, "expert_count", p.n_experts, 1, kMaxExperts));
  QUERN_TRY(e.n_used, layer_value(file, "expert_used_count", p.n_experts_used, i, 1, e.n_experts));
  QUERN_TRY(e.gating, gating_of(file, arch, p));
  e.renormalize = p.renormalize.value_or(arch.experts.renormalize);
  e.weigh_input = arch.experts.weigh_input;
  if (p.expert_scale > 0) e.scale = static_cast<float>(p.expert_scale);
  if (!std::isfinite(e.scale)) return bad(file, "expert_weights_scale is too large");
  QUERN_TRY_VOID(set_widths(file, arch, p, i, e));
  QUERN_TRY_VOID(set_groups(file, p, e));
  return e;
}

}  // namespace quern::model
