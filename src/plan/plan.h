// plan: from what the network is to what is run.
//
// Owns: Graph (typed nodes over values), fusions (named rewrite rules in one table), the choice of kernels, buffer
//       offsets, the compiled Plan and its text form.
// Never: running anything, allocating what a run needs, a device's or a thread's own state.
// In -> out: model::Model + kernel registry + row class -> Plan.
//
// model ──build_graph──► Graph ──fuse──► steps ──compile──► Plan (kernel pointers, arguments, arena offsets)
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/choices.h"
#include "kernels/registry.h"
#include "model/model.h"
#include "plan/graph.h"

namespace quern::plan {

// One kernel call of a step. Its arguments hold final addresses.
struct Call {
  const kernels::Kernel* kernel = nullptr;
  kernels::OpArgs args;                 // of thread 0, and of all where others is empty
  std::vector<kernels::OpArgs> others;  // of threads 1 and up, where private copies of values are read or written
  bool replicated = false;              // every thread works on all rows
  kernels::RowSet rows = kernels::RowSet::tokens;
  std::string name;  // the node's
  const void* raw_args(int thread) const {
    const kernels::OpArgs& mine = thread == 0 || others.empty() ? args : others[static_cast<size_t>(thread) - 1];
    return std::visit([](const auto& a) { return static_cast<const void*>(&a); }, mine);
  }
  kernels::Query query;
  bool tuned = false;  // PlanOptions::choices named the kernel
};

// Calls that every thread makes in order with no barrier between them; a barrier follows the step.
struct Step {
  std::vector<Call> calls;
  // Where all calls are row-wise over one set of rows: a thread takes so many rows at a time through all calls, while
  // they are in its nearest cache. 0: each call takes the thread's whole share.
  int block_rows = 0;
  kernels::RowSet rows = kernels::RowSet::tokens;
};

// What a run hands out of the rows that are wanted. The network before it is the same, bit for bit.
enum class Output : uint8_t {
  logits,  // [n_vocab]
  hidden,  // [n_dim]: the normed state that the output matrix would read
};

struct PlanOptions {
  int max_rows = 1;     // token rows a run may have
  int max_outputs = 1;  // of them, rows whose output may be wanted
  uint32_t isa_mask = 1;
  std::vector<std::string> no_fuse;           // names of fusions to leave out; "all": every one
  int n_threads = 1;                          // of the team that will run it
  const kernels::Choices* choices = nullptr;  // what was tuned; outlives the plan. Null: priority decides
  int n_ctx = 0;                              // positions of a sequence at most; 0: unknown, nothing relies on it

  bool read_ahead = false;  // weights are mapped and larger than memory: ask for the chosen experts early
  Output output = Output::logits;
  // What experts ask of memory, from the model (compile fills them in); 0: no experts.
  int n_used = 0, n_experts = 0;

  kernels::RowClass row_class(kernels::RowSet rows) const;
  // Rows of RowSet::routed when there are n_rows tokens.
  int routed_rows(int n_rows) const;
  int rows_of(kernels::RowSet rows) const;
};

// Weights in their chosen layouts, filled by exec; plans point into them.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
  // The matrix in that layout (Layout::disk: its own bytes).
  virtual const std::byte* find(const model::Weight& weight, kernels::Layout layout) const = 0;
};

// A repacking that plans for this model will want.
struct PackRequest {
  const model::Weight* weight;
  kernels::Layout layout;
  const kernels::Kernel* kernel;  // a repack entry
  size_t bytes;
};
std::vector<PackRequest> pack_requests(const model::Model& model, uint32_t isa_mask);

// Keys and values: layers of one kind share pages. Independent of row class.
struct KvKind {
  int n_kv_heads, head_dim, window;
  size_t page_bytes = 0;
};
struct KvLayout {
  std::vector<KvKind> kinds;
  std::vector<kernels::KvPlace> layers;  // [n_layers]
};
KvLayout make_kv_layout(const model::Spec& spec);

// A fusion that found its pattern and left it alone.
struct Decline {
  std::string fusion, node, reason;
};

struct Plan {
  kernels::RowClass row_class = kernels::RowClass::decode;
  PlanOptions options;
  std::vector<Step> steps;
  std::vector<Decline> declines;
  size_t arena_bytes = 0;
  size_t scratch_bytes = 0;  // per thread
  float* output = nullptr;   // [n_out, as wide as options.output says] f32, valid after a run

  // As the plan's kernels and work counts want it: with the rows of RowSet::routed.
  kernels::RunContext complete(kernels::RunContext ctx) const {
    ctx.n_routed = options.routed_rows(ctx.n_rows);
    return ctx;
  }
};

// Compiles for memory at `arena` (arena_bytes of a plan compiled with arena == nullptr tell how much).
// Errors: invalid_argument for an unknown fusion name; unsupported for what no op computes, by name.
Result<Plan> compile(const model::Model& model, const KvLayout& kv, const PackedWeights& weights,
                     const PlanOptions& options, std::byte* arena);

// What was declined, one line for each fusion and reason: how often, and the first node. Empty: nothing.
std::string declines_text(const Plan& plan);

// One step a line: calls, kernels, shapes, formats. Then what was declined. Addresses and thread counts do not appear.
std::string to_text(const Plan& plan);

struct Fusion {
  const char* name;
  const char* help;
  void (*apply)(Graph& graph, Steps& steps, const PlanOptions& options, std::vector<Decline>& declines);
};
std::span<const Fusion> all_fusions();
// invalid_argument naming the known ones, where a name of `no_fuse` is not among them.
Result<void> check_fusion_names(const std::vector<std::string>& no_fuse);

}  // namespace quern::plan
