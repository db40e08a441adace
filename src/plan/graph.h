// Graph: the network as typed nodes in order of evaluation, before anything is fused, placed or chosen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "kernels/registry.h"
#include "model/model.h"

namespace quern::plan {

struct PlanOptions;

using ValueId = int;
inline constexpr ValueId kNone = -1;

// A buffer of rows.
struct Value {
  std::string name;
  kernels::RowSet rows = kernels::RowSet::tokens;
  int64_t width = 0;  // numbers per row
  kernels::ActivationFormat format = kernels::ActivationFormat::f32;
  bool private_copies = false;  // each thread has its own: the node that writes it is replicated
  size_t more_bytes = 0;        // beside those of the rows
  // Bytes from one row, or tile of rows, to the next; bytes of n rows.
  // Floats lie close: ops read row r of width w at r * w.
  size_t stride() const {
    const auto n = static_cast<size_t>(width);
    return format == kernels::ActivationFormat::f32 ? n * sizeof(float) : format::activation_stride(format, n);
  }
  size_t bytes(int n) const {
    const auto n_rows = static_cast<size_t>(n);
    return more_bytes + (format == kernels::ActivationFormat::f32
                             ? n_rows * stride()
                             : format::activation_bytes(format, static_cast<size_t>(width), n_rows));
  }
};

// One op. `args` is complete but for pointers. In-place ops name their value both in `in` and as `out`.
struct Node {
  std::string name;  // "blk.3.attn_q"
  kernels::OpArgs args;
  std::vector<ValueId> in;
  ValueId out = kNone;                    // kNone: keys and values into pages
  const model::Weight* weight = nullptr;  // embed, matmul: the matrix; norms: the vector
  const model::Weight* bias = nullptr;    // matmul
  const model::Weight* up = nullptr;      // gated: the gate's partner, and its bias
  const model::Weight* up_bias = nullptr;
  ValueId residual = kNone;  // matmul: added to the result
  bool replicated = false;   // every thread works on all rows
  kernels::Op op() const {
    return std::visit([](const auto& a) { return std::decay_t<decltype(a)>::kOp; }, args);
  }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  ValueId output = kNone;  // what PlanOptions::output names, of RowSet::outputs

  // The rows that a node works on.
  kernels::RowSet row_set(const Node& node) const {
    return node.out == kNone ? kernels::RowSet::tokens : values[static_cast<size_t>(node.out)].rows;
  }
};

// Whether each row of the result depends on that row alone, and a thread takes its share of the rows.
bool is_row_wise(kernels::Op op);
// Whether it multiplies rows with a matrix, each thread its share of the outputs.
bool is_matmul(kernels::Op op);

// How a matrix lies for the kernels of isa_mask. Matrices of a stack are packed as one: whole panels of 16 rows each,
// or they stay as they are.
kernels::Layout layout_of(const model::Weight& weight, uint32_t isa_mask);
inline kernels::Shape matmul_shape(const model::Weight& weight) {
  return {weight.rows, weight.cols};
}

// Which nodes run together: each inner list is a step. Fusions rewrite both graph and steps.
using Steps = std::vector<std::vector<int>>;

// The one-plane activation format in which a matmul with this weight reads rows of this set.
using ActOf = std::function<kernels::ActivationFormat(const model::Weight&, kernels::RowSet)>;

// kv_places: [n_layers]. Errors: unsupported, naming what no op computes.
Result<Graph> build_graph(const model::Model& model, const std::vector<kernels::KvPlace>& kv_places,
                          const PlanOptions& options, const ActOf& act_of);

}  // namespace quern::plan
