// Binds a file's tensors to roles by one loop over the architecture's tensor rows.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/log.h"
#include "format/codec.h"
#include "model/arch/arch.h"
#include "model/model.h"
#include "model/params.h"
#include "model/rope.h"

namespace quern::model {
namespace {

using file::GgufFile;
using file::Tensor;

int64_t dim_value(Dim dim, const Spec& spec, const LayerSpec& layer) {
  switch (dim) {
    case Dim::one:
      return 1;
    case Dim::dim:
      return spec.n_dim;
    case Dim::vocab:
      return spec.n_vocab;
    case Dim::q_rows:
      return int64_t{layer.n_heads} * layer.head_dim;
    case Dim::kv_rows:
      return int64_t{layer.n_kv_heads} * layer.head_dim;
    case Dim::heads:
      return layer.n_heads;
    case Dim::head_dim:
      return layer.head_dim;
    case Dim::ff:
      return layer.n_ff;
    case Dim::half_rope:
      return layer.rope.n_dims / 2;
    case Dim::experts:
      return layer.experts.n_experts;
    case Dim::ff_expert:
      return layer.experts.n_ff;
    case Dim::ff_shared:
      return layer.experts.n_ff_shared;
  }
  return 0;
}

bool is_in(Layers where, const LayerSpec& layer) {
  switch (where) {
    case Layers::all:
      return true;
    case Layers::dense:
      return layer.experts.n_experts == 0;
    case Layers::experts:
      return layer.experts.n_experts > 0;
    case Layers::shared_expert:
      return layer.experts.n_ff_shared > 0;
  }
  return false;
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (uint32_t i = 0; i < tensor.n_dims; ++i) text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

std::string with_layer(std::string_view pattern, size_t layer) {
  std::string name(pattern);
  const size_t hole = name.find("{}");
  if (hole != std::string::npos) name.replace(hole, 2, std::to_string(layer));
  return name;
}

class Binder {
 public:
  Binder(const GgufFile& file, Model& model) : file_(file), model_(model) {}

  // Layer number `i`, or a global where `set` is model.globals (then layer 0 gives the dimensions).
  Result<void> bind(const TensorRow& row, size_t i, WeightSet& set) {
    const LayerSpec& layer = model_.spec.layers[i];
    if (!is_in(row.where, layer)) return {};
    const std::string name = with_layer(row.name, i);
    const Tensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      if (row.need == Need::optional) return {};
      return missing(row, name, i);
    }
    used_.insert(tensor);
    const int64_t cols = dim_value(row.cols, model_.spec, layer), rows = dim_value(row.rows, model_.spec, layer);
    const int64_t depth = dim_value(row.depth, model_.spec, layer);
    int64_t all_rows = rows, first_row = 0;
    if (!row.parts.empty()) {
      all_rows = 0;
      for (size_t k = 0; k < row.parts.size(); ++k) {
        const int64_t n = dim_value(row.parts[k], model_.spec, layer);
        if (k < static_cast<size_t>(row.part)) first_row += n;
        all_rows += n;
      }
    }
    QUERN_TRY_VOID(check_shape(*tensor, cols, all_rows, depth));
    QUERN_TRY(const format::Format format, file_.require_format(*tensor));
    Weight weight;
    weight.name = name + (row.parts.empty() ? "" : "[" + std::string(role_name(row.role)) + "]");
    weight.format = format;
    weight.cols = cols;
    weight.rows = rows;
    weight.depth = depth;
    weight.data = tensor->data + static_cast<size_t>(first_row) * weight.row_bytes();
    if (row.rows == Dim::one || row.stacked_bias) QUERN_TRY_VOID(widen(weight));
    set.set(row.role, std::move(weight));
    return {};
  }

  void count() {
    for (const Tensor* tensor : used_) {
      model_.weight_bytes += tensor->bytes;
      uint64_t n = 1;
      for (uint32_t d = 0; d < tensor->n_dims; ++d) n *= tensor->shape[d];
      model_.n_params += n;
    }
    for (const Tensor& tensor : file_.tensors()) {
      if (used_.contains(&tensor)) continue;
      const bool next_token = in_next_token_block(tensor.name);
      (next_token ? model_.next_token_tensors : model_.unused_tensors).emplace_back(tensor.name);
    }
  }

 private:
  Error missing(const TensorRow& row, const std::string& name, size_t i) const {
    const std::string fused = "blk." + std::to_string(i) + ".ffn_gate_up_exps.weight";
    if ((row.role == Role::ffn_gate_exps || row.role == Role::ffn_up_exps) && file_.find_tensor(fused) != nullptr) {
      return {Status::unsupported,
              file_.path() + ": tensor '" + fused + "' has gate and up of experts in one: not supported yet"};
    }
    return {Status::invalid_file, file_.path() + ": tensor '" + name + "' is missing"};
  }

  // "blk.<n>." with n among the blocks after the network's own.
  bool in_next_token_block(std::string_view name) const {
    if (model_.spec.n_next_token_blocks == 0 || !name.starts_with("blk.")) return false;
    name.remove_prefix(4);
    size_t n = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
    const size_t first = model_.spec.layers.size();
    return error == std::errc() && end != name.data() + name.size() && *end == '.' && n >= first &&
           n < first + static_cast<size_t>(model_.spec.n_next_token_blocks);
  }

  Result<void> check_shape(const Tensor& tensor, int64_t cols, int64_t rows, int64_t depth) const {
    const bool same = tensor.shape[0] == static_cast<uint64_t>(cols) &&
                      (tensor.n_dims < 2 ? rows == 1 : tensor.shape[1] == static_cast<uint64_t>(rows)) &&
                      (tensor.n_dims < 3 ? depth == 1 : tensor.shape[2] == static_cast<uint64_t>(depth)) &&
                      (tensor.n_dims < 4 || tensor.shape[3] == 1);
    if (same) return {};
    return file_.tensor_error(Status::invalid_file, tensor,
                              "has shape " + shape_text(tensor) + ", expected [" + std::to_string(cols) +
                                  (rows == 1 && depth == 1 ? "" : ", " + std::to_string(rows)) +
                                  (depth == 1 ? "" : ", " + std::to_string(depth)) + "]");
  }

  // Vectors, and biases stacked as rows, are used as f32: other formats are widened into memory of the model's own, and
  // so are unaligned ones.
  Result<void> widen(Weight& weight) {
    if (weight.format == format::Format::f32 && reinterpret_cast<uintptr_t>(weight.data) % alignof(float) == 0)
      return {};
    const size_t cols = static_cast<size_t>(weight.cols), rows = static_cast<size_t>(weight.rows);
    QUERN_TRY(Buffer buffer, Buffer::allocate(rows * cols * sizeof(float), "a widened vector"));
    for (size_t r = 0; r < rows; ++r) {
      format::dequantize_row(weight.format, weight.data + r * weight.row_bytes(), buffer.as<float>() + r * cols, cols);
    }
    weight.format = format::Format::f32;
    weight.data = buffer.data();
    model_.computed.push_back(std::move(buffer));
    return {};
  }

  const GgufFile& file_;
  Model& model_;
  std::set<const Tensor*> used_;
};

// A norm without weights is one with ones. It commutes with rotation, so it may as well come before.
Result<void> bind_unit_head_norms(Model& model, const Arch& arch, const Params& params) {
  if (arch.chunked.every == 0 || params.n_experts == arch.chunked.no_head_norm_at_experts) return {};
  const int head_dim = model.spec.layers.front().head_dim;  // of all layers: one key states it
  QUERN_TRY(Buffer buffer, Buffer::allocate(static_cast<size_t>(head_dim) * sizeof(float), "a norm of ones"));
  std::fill_n(buffer.as<float>(), head_dim, 1.0F);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    if (model.spec.layers[i].rope.kind == RopeKind::none) continue;
    for (const Role role : {Role::attn_q_norm, Role::attn_k_norm})
      model.layers[i].set(role, {"(ones)", format::Format::f32, head_dim, 1, 1, buffer.data()});
  }
  model.computed.push_back(std::move(buffer));
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const GgufFile& file, int n_ctx) {
  QUERN_TRY(const std::string_view arch_name, file.require<std::string_view>("general.architecture"));
  const Arch* arch = find_arch(arch_name);
  if (arch == nullptr) {
    std::string known;
    for (const std::string& name : architecture_names()) known += (known.empty() ? "" : ", ") + name;
    return Error{Status::unsupported, file.path() + ": architecture '" + std::string(arch_name) +
                                          "' is not supported (these are: " + known + ")"};
  }
  QUERN_TRY(const Params params, read_params(file, *arch));
  auto model = std::make_unique<Model>();
  QUERN_TRY(model->spec, make_spec(file, *arch, params));
  model->layers.resize(model->spec.layers.size());
  Binder binder(file, *model);
  for (const TensorRow& row : arch->tensors) {
    if (row.name.find("{}") == std::string_view::npos) {
      QUERN_TRY_VOID(binder.bind(row, 0, model->globals));
      continue;
    }
    for (size_t i = 0; i < model->layers.size(); ++i) QUERN_TRY_VOID(binder.bind(row, i, model->layers[i]));
  }
  binder.count();
  QUERN_TRY_VOID(bind_unit_head_norms(*model, *arch, params));
  QUERN_TRY_VOID(attach_rope_divisors(*model, params, n_ctx));
  if (!model->unused_tensors.empty()) {
    log_warning(file.path() + ": " + std::to_string(model->unused_tensors.size()) +
                " tensors are not used by architecture " + std::string(arch_name) + ", the first is '" +
                model->unused_tensors.front() + "'");
  }
  return model;
}

}  // namespace quern::model
