// Binds a file's tensors to roles by one loop over the architecture's tensor rows.
#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "format/codec.h"
#include "model/arch/arch.h"
#include "model/model.h"
#include "model/params.h"

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
    case Dim::head_dim:
      return layer.head_dim;
    case Dim::ff:
      return layer.n_ff;
    case Dim::half_rope:
      return layer.rope.n_dims / 2;
  }
  return 0;
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
    const std::string name = with_layer(row.name, i);
    const Tensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      if (row.need == Need::optional) return {};
      return Error{Status::invalid_file, file_.path() + ": tensor '" + name + "' is missing"};
    }
    used_.insert(tensor);
    const LayerSpec& layer = model_.spec.layers[i];
    const int64_t cols = dim_value(row.cols, model_.spec, layer), rows = dim_value(row.rows, model_.spec, layer);
    int64_t all_rows = rows, first_row = 0;
    if (!row.parts.empty()) {
      all_rows = 0;
      for (size_t k = 0; k < row.parts.size(); ++k) {
        const int64_t n = dim_value(row.parts[k], model_.spec, layer);
        if (k < static_cast<size_t>(row.part)) first_row += n;
        all_rows += n;
      }
    }
    QUERN_TRY_VOID(check_shape(*tensor, cols, all_rows));
    QUERN_TRY(const format::Format format, file_.require_format(*tensor));
    Weight weight;
    weight.name = name + (row.parts.empty() ? "" : "[" + std::string(role_name(row.role)) + "]");
    weight.format = format;
    weight.cols = cols;
    weight.rows = rows;
    weight.data = tensor->data + static_cast<size_t>(first_row) * weight.row_bytes();
    if (row.rows == Dim::one) QUERN_TRY_VOID(widen(weight));
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
      if (!used_.contains(&tensor)) model_.unused_tensors.emplace_back(tensor.name);
    }
  }

 private:
  Result<void> check_shape(const Tensor& tensor, int64_t cols, int64_t rows) const {
    const bool same = tensor.shape[0] == static_cast<uint64_t>(cols) &&
                      (tensor.n_dims < 2 ? rows == 1 : tensor.shape[1] == static_cast<uint64_t>(rows)) &&
                      (tensor.n_dims < 3 || tensor.shape[2] == 1) && (tensor.n_dims < 4 || tensor.shape[3] == 1);
    if (same) return {};
    return file_.tensor_error(Status::invalid_file, tensor,
                              "has shape " + shape_text(tensor) + ", expected [" + std::to_string(cols) +
                                  (rows == 1 ? "" : ", " + std::to_string(rows)) + "]");
  }

  // Vectors are used as f32: other formats are widened into memory of the model's own, and so are unaligned ones.
  Result<void> widen(Weight& weight) {
    if (weight.format == format::Format::f32 && reinterpret_cast<uintptr_t>(weight.data) % alignof(float) == 0)
      return {};
    QUERN_TRY(Buffer buffer, Buffer::allocate(static_cast<size_t>(weight.cols) * sizeof(float), "a widened vector"));
    format::dequantize_row(weight.format, weight.data, buffer.as<float>(), static_cast<size_t>(weight.cols));
    weight.format = format::Format::f32;
    weight.data = buffer.data();
    model_.widened.push_back(std::move(buffer));
    return {};
  }

  const GgufFile& file_;
  Model& model_;
  std::set<const Tensor*> used_;
};

// Rope divisors are tensors: the same for every layer, LongRoPE's chosen by the context in use.
void attach_rope_divisors(Model& model, const Params& params, int n_ctx) {
  const int64_t original = params.rope_original_ctx > 0 ? params.rope_original_ctx : model.spec.n_ctx_train;
  const int used = n_ctx > 0 ? n_ctx : model.spec.n_ctx_train;
  const Role chosen = used > original ? Role::rope_factors_long : Role::rope_factors_short;
  const Weight* weight = model.globals.get(chosen);
  if (weight == nullptr) weight = model.globals.get(Role::rope_freqs);
  if (weight == nullptr) return;
  for (LayerSpec& layer : model.spec.layers) layer.rope.divisors = weight->f32();
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
  attach_rope_divisors(*model, params, n_ctx);
  if (!model->unused_tensors.empty()) {
    log_warning(file.path() + ": " + std::to_string(model->unused_tensors.size()) +
                " tensors are not used by architecture " + std::string(arch_name) + ", the first is '" +
                model->unused_tensors.front() + "'");
  }
  return model;
}

}  // namespace quern::model
