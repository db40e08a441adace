// The table of choices, the registry's fingerprint, and names back to enumerators. What to choose is measured
// elsewhere.
#include "kernels/choices.h"

#include <algorithm>

namespace quern::kernels {
namespace {

template <class E>
Result<E> parse_name(std::string_view name, int n, const char* what, const char* (*name_of)(E)) {
  for (int i = 0; i < n; ++i) {
    if (name == name_of(static_cast<E>(i))) return static_cast<E>(i);
  }
  return Error{Status::not_found, std::string("unknown ") + what + " '" + std::string(name) + "'"};
}

const char* weight_format_name(format::Format format) {
  return format::format_info(format).name;
}

}  // namespace

Result<Choices> Choices::create(const std::vector<Choice>& choices, uint32_t isa_mask) {
  Choices made;
  for (const Choice& choice : choices) {
    const auto candidates = kernel_candidates(choice.query, isa_mask);
    const auto it =
        std::find_if(candidates.begin(), candidates.end(), [&](const Kernel* k) { return choice.kernel == k->name; });
    if (it == candidates.end())
      return Error{Status::not_found, "no kernel '" + choice.kernel + "' answers " + to_text(choice.query)};
    made.rows_.push_back({choice.query, *it});
  }
  return made;
}

const Kernel* Choices::find(const Query& query) const {
  const auto it = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.query == query; });
  return it != rows_.end() ? it->kernel : nullptr;
}

const Kernel* find_kernel(const Query& query, uint32_t isa_mask, const Choices* choices) {
  const Kernel* chosen = choices != nullptr ? choices->find(query) : nullptr;
  return chosen != nullptr ? chosen : find_kernel(query, isa_mask);
}

std::string to_text(const Query& q) {
  std::string text = op_name(q.op);
  const bool multiplies = q.op == Op::matmul || q.op == Op::gated_matmul || q.op == Op::expert_matmul ||
                          q.op == Op::expert_gated || q.op == Op::expert_sum;
  if (multiplies || q.op == Op::embed || q.op == Op::repack) text += std::string(" ") + weight_format_name(q.weight);
  if (multiplies) text += " x";
  if (multiplies || q.op == Op::quantize || q.op == Op::gather) text += std::string(" ") + act_format_name(q.act);
  if (multiplies) text += std::string(", ") + layout_name(q.layout);
  text += std::string(", ") + row_class_name(q.row_class) + ", [";
  if (q.shape.n_out > 0) text += std::to_string(q.shape.n_out) + " x ";
  return text + std::to_string(q.shape.n_in) + "]";
}

uint64_t registry_hash() {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const auto add_byte = [&](uint64_t byte) { hash = (hash ^ (byte & 0xff)) * 0x100000001b3U; };
  for (const Kernel& k : all_kernels()) {
    for (const char* c = k.name; *c != '\0'; ++c) add_byte(static_cast<uint64_t>(*c));
    for (const int field :
         {static_cast<int>(k.key.op), static_cast<int>(k.key.weight), static_cast<int>(k.key.act),
          static_cast<int>(k.key.layout), static_cast<int>(k.key.row_classes), static_cast<int>(k.isa), k.priority})
      add_byte(static_cast<uint64_t>(field));
  }
  return hash;
}

Result<Op> parse_op(std::string_view name) {
  return parse_name<Op>(name, kOpCount, "operation", op_name);
}
Result<format::Format> parse_weight_format(std::string_view name) {
  return parse_name<format::Format>(name, format::kFormatCount, "weight format", weight_format_name);
}
Result<ActivationFormat> parse_act_format(std::string_view name) {
  return parse_name<ActivationFormat>(name, kActFormatCount, "activation format", act_format_name);
}
Result<Layout> parse_layout(std::string_view name) {
  return parse_name<Layout>(name, kLayoutCount, "layout", layout_name);
}
Result<RowClass> parse_row_class(std::string_view name) {
  return parse_name<RowClass>(name, kRowClassCount, "row class", row_class_name);
}

}  // namespace quern::kernels
