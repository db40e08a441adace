// Fusions: named rewrite rules over (graph, steps). None changes a bit of any result, which a test shows for each.
#include <algorithm>

#include "plan/plan.h"

namespace quern::plan {

bool is_row_wise(kernels::Op op) {
  using kernels::Op;
  switch (op) {
    case Op::embed:
    case Op::rope_table:
    case Op::rms_norm:
    case Op::quantize:
    case Op::add:
    case Op::head_norm:
    case Op::rope:
    case Op::kv_store:
    case Op::attention_merge:
    case Op::act_mul:
      return true;
    default:
      return false;
  }
}

namespace {

using kernels::Op;

int uses(const Graph& graph, ValueId value) {
  int n = value == graph.logits ? 1 : 0;
  for (const Node& node : graph.nodes) {
    n += static_cast<int>(std::count(node.in.begin(), node.in.end(), value)) + (node.residual == value ? 1 : 0);
  }
  return n;
}

// y = x W, then out = r + y: the matmul adds r itself. Only where nothing else reads y.
void fuse_matmul_add(Graph& graph, Steps& steps, const PlanOptions&) {
  for (size_t s = 1; s < steps.size(); ++s) {
    if (steps[s].size() != 1 || steps[s - 1].size() != 1) continue;
    Node& matmul = graph.nodes[static_cast<size_t>(steps[s - 1][0])];
    const Node& add = graph.nodes[static_cast<size_t>(steps[s][0])];
    if (matmul.op() != Op::matmul || add.op() != Op::add || add.in[1] != matmul.out || uses(graph, matmul.out) != 1)
      continue;
    matmul.residual = add.in[0];
    matmul.out = add.out;
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s));
  }
}

// Matmuls of the same rows, none reading what another writes, run as one step.
void fuse_matmul_group(Graph& graph, Steps& steps, const PlanOptions&) {
  for (size_t s = 1; s < steps.size();) {
    const Node& node = graph.nodes[static_cast<size_t>(steps[s][0])];
    const bool joins = node.op() == Op::matmul && std::all_of(steps[s - 1].begin(), steps[s - 1].end(), [&](int i) {
                         const Node& before = graph.nodes[static_cast<size_t>(i)];
                         return before.op() == Op::matmul && node.in[0] != before.out && node.residual != before.out;
                       });
    if (!joins) {
      ++s;
      continue;
    }
    steps[s - 1].insert(steps[s - 1].end(), steps[s].begin(), steps[s].end());
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s));
  }
}

bool gathers(const Node& node) {
  const auto* norm = std::get_if<kernels::RmsNormArgs>(&node.args);
  return norm != nullptr && norm->gather;
}

// Consecutive row-wise ops over one row set need no barrier between them: each thread reads only rows it wrote.
void fuse_row_chain(Graph& graph, Steps& steps, const PlanOptions&) {
  for (size_t s = 1; s < steps.size();) {
    const Node& node = graph.nodes[static_cast<size_t>(steps[s][0])];
    const Node& before = graph.nodes[static_cast<size_t>(steps[s - 1].back())];
    if (!is_row_wise(node.op()) || !is_row_wise(before.op()) || gathers(node) ||
        graph.row_set(node) != graph.row_set(before)) {
      ++s;
      continue;
    }
    steps[s - 1].insert(steps[s - 1].end(), steps[s].begin(), steps[s].end());
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s));
  }
}

// Ops that give each thread its own result when each does all of them: none that changes a value in place or writes
// where all threads look.
bool can_replicate(const Node& node) {
  return is_row_wise(node.op()) && node.op() != Op::kv_store &&
         std::find(node.in.begin(), node.in.end(), node.out) == node.in.end();
}

// With one row, a row-wise chain is the work of one thread while the others wait. Each thread does it for itself, into
// its own memory, and goes on to the matmuls that read it with no barrier between.
void fuse_replicate(Graph& graph, Steps& steps, const PlanOptions& options) {
  for (size_t s = 0; s + 1 < steps.size(); ++s) {
    const Node& next = graph.nodes[static_cast<size_t>(steps[s + 1][0])];
    const bool joins = next.op() == Op::matmul && std::all_of(steps[s].begin(), steps[s].end(), [&](int n) {
                         const Node& node = graph.nodes[static_cast<size_t>(n)];
                         return can_replicate(node) && options.rows_of(graph.row_set(node)) == 1;
                       });
    if (!joins) continue;
    for (const int n : steps[s]) {
      Node& node = graph.nodes[static_cast<size_t>(n)];
      node.replicated = true;
      graph.values[static_cast<size_t>(node.out)].private_copies = true;
    }
    steps[s].insert(steps[s].end(), steps[s + 1].begin(), steps[s + 1].end());
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s) + 1);
  }
}

// With one row, attention is spread over pages of positions instead of heads, and the pages' parts are merged by the
// thread that needs them.
void fuse_split_kv(Graph& graph, Steps& steps, const PlanOptions& options) {
  if (options.n_ctx <= 0 || options.rows_of(kernels::RowSet::tokens) != 1) return;
  for (size_t s = 0; s < steps.size(); ++s) {
    const int whole = steps[s][0];
    const auto* args = std::get_if<kernels::AttentionArgs>(&graph.nodes[static_cast<size_t>(whole)].args);
    if (args == nullptr) continue;
    const kernels::AttentionArgs attention = *args;
    const int seen = attention.window > 0 ? std::min(attention.window, options.n_ctx) : options.n_ctx;
    const int max_pages = seen / kernels::kPagePositions + 2;
    Node& parts = graph.nodes[static_cast<size_t>(whole)];
    Node merge = parts;
    graph.values.push_back(
        {parts.name + "_parts", kernels::RowSet::tokens,
         int64_t{attention.n_heads} * max_pages * (attention.place.head_dim + kernels::AttentionPartsArgs::kRest)});
    const auto value = static_cast<ValueId>(graph.values.size()) - 1;
    parts.name += "_parts";
    parts.args = kernels::AttentionPartsArgs{attention, max_pages, nullptr};
    parts.out = value;
    merge.args = kernels::AttentionMergeArgs{attention, max_pages, nullptr};
    merge.in = {value};
    graph.nodes.push_back(std::move(merge));
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(s) + 1, {static_cast<int>(graph.nodes.size()) - 1});
  }
}

constexpr Fusion kFusions[] = {
    {"split_kv", "one row: attention spread over pages of positions, merged in order", &fuse_split_kv},
    {"matmul_add", "a matmul adds the residual itself", &fuse_matmul_add},
    {"matmul_group", "independent matmuls (q, k and v; gate and up) run as one step", &fuse_matmul_group},
    {"row_chain", "consecutive row-wise ops run as one step", &fuse_row_chain},
    {"replicate", "one row: each thread does the row-wise ops before a matmul for itself", &fuse_replicate},
};

}  // namespace

std::span<const Fusion> all_fusions() {
  return kFusions;
}

Result<void> check_fusion_names(const std::vector<std::string>& no_fuse) {
  for (const std::string& name : no_fuse) {
    const bool known = name == "all" || std::any_of(std::begin(kFusions), std::end(kFusions),
                                                    [&](const Fusion& f) { return name == f.name; });
    if (known) continue;
    std::string names = "all";
    for (const Fusion& fusion : kFusions) names += std::string(", ") + fusion.name;
    return Error{Status::invalid_argument, "unknown fusion '" + name + "' (known: " + names + ")"};
  }
  return {};
}

}  // namespace quern::plan
