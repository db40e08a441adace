// model: from a GGUF file to what the network is (Spec) and where its weights lie (Weight), validated against the rows
// of its architecture.
//
// Owns: Spec, roles, weights bound to the mapped file, one loop over an architecture's declared rows.
// Never: kernels, devices, threads, maths beyond sizes.
// In -> out: file::GgufFile + Arch rows -> Model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "file/gguf.h"
#include "model/roles.h"
#include "model/spec.h"

namespace quern::model {

// A matrix (or a vector, rows == 1) in the file's own bytes. Rows are contiguous.
struct Weight {
  std::string name;  // the tensor's name in the file, with the part taken where it is only a part
  format::Format format = format::Format::f32;
  int64_t cols = 0;                 // length of a row: the input width of a matmul
  int64_t rows = 0;                 // outputs
  int64_t depth = 1;                // matrices stacked: 1, or one per expert
  const std::byte* data = nullptr;  // [depth][rows][row_bytes]
  size_t row_bytes() const { return format::row_bytes(format, static_cast<size_t>(cols)); }
  size_t bytes() const { return row_bytes() * static_cast<size_t>(rows) * static_cast<size_t>(depth); }
  // Vectors and stacked biases only: they are widened at load.
  const float* f32() const { return reinterpret_cast<const float*>(data); }
};

// The weights of one layer, or of the whole model, by role; null where the file has none.
class WeightSet {
 public:
  const Weight* get(Role role) const { return slots_[static_cast<size_t>(role)].get(); }
  bool has(Role role) const { return get(role) != nullptr; }
  void set(Role role, Weight weight) {
    slots_[static_cast<size_t>(role)] = std::make_unique<Weight>(std::move(weight));
  }

 private:
  std::array<std::unique_ptr<Weight>, kRoleCount> slots_;
};

// Immutable once loaded. The file must outlive it.
struct Model {
  Spec spec;
  WeightSet globals;
  std::vector<WeightSet> layers;
  std::vector<std::string> unused_tensors;      // in the file and bound by no row (a warning names them)
  std::vector<std::string> next_token_tensors;  // of blocks that predict further tokens: left out on purpose
  std::vector<Buffer> computed;  // what weights and rope divisors point to that is not in the file as f32
  uint64_t weight_bytes = 0;     // of all bound tensors, as stored
  uint64_t n_params = 0;
};

// Errors: unsupported (unknown architecture, a stated feature Quern lacks, a format it does not read), invalid_file
// (missing or mistyped key, missing tensor, wrong shape), each naming the file and the key or tensor.
// n_ctx: the context in use, which chooses between a file's short and long rope factors; 0: the trained context.
Result<std::unique_ptr<Model>> load_model(const file::GgufFile& file, int n_ctx);

// What a network's weights take, as stored, and what of it one token's step reads: of the experts its own, of an
// embedding that is no output matrix one row.
struct WeightSizes {
  uint64_t bytes = 0, params = 0;
  uint64_t active_bytes = 0, active_params = 0;
  uint64_t expert_bytes = 0;  // of `bytes`, the experts' own (the shared one's not)
};
WeightSizes weight_sizes(const Model& model);

// Bytes of keys and values of one sequence of n_ctx tokens, as f16; a windowed layer keeps its window.
uint64_t kv_bytes(const Spec& spec, int n_ctx);

// Names of all architectures that have rows, in list order.
std::vector<std::string> architecture_names();

}  // namespace quern::model
