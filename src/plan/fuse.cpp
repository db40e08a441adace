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
    case Op::route:
    case Op::combine:
    case Op::row_gate:
    case Op::temperature:
      return true;
    default:
      return false;
  }
}

bool is_matmul(kernels::Op op) {
  using kernels::Op;
  switch (op) {
    case Op::matmul:
    case Op::gated_matmul:
    case Op::expert_matmul:
    case Op::expert_gated:
    case Op::expert_sum:
      return true;
    default:
      return false;
  }
}

namespace {

using kernels::Op;

int uses(const Graph& graph, ValueId value) {
  int n = value == graph.output ? 1 : 0;
  for (const Node& node : graph.nodes) {
    n += static_cast<int>(std::count(node.in.begin(), node.in.end(), value)) + (node.residual == value ? 1 : 0);
  }
  return n;
}

using Declines = std::vector<Decline>;

// The node of a step that is one node; null otherwise.
Node* only(Graph& graph, const std::vector<int>& step) {
  return step.size() == 1 ? &graph.nodes[static_cast<size_t>(step[0])] : nullptr;
}

void erase(Steps& steps, size_t first, size_t n) {
  const auto at = steps.begin() + static_cast<std::ptrdiff_t>(first);
  steps.erase(at, at + static_cast<std::ptrdiff_t>(n));
}

// Of the value's last writer.
size_t step_of(const Graph& graph, const Steps& steps, ValueId value) {
  size_t found = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const int n : steps[s]) {
      if (graph.nodes[static_cast<size_t>(n)].out == value) found = s;
    }
  }
  return found;
}

bool has_kernel(kernels::Op op, const Node& matmul, const kernels::MatmulArgs& m, kernels::RowClass row_class,
                const PlanOptions& options) {
  const kernels::Layout layout = layout_of(*matmul.weight, options.isa_mask);
  const kernels::Query query{op, m.format, m.act, layout, row_class, matmul_shape(*matmul.weight)};
  return layout != kernels::Layout::disk && kernels::find_kernel(query, options.isa_mask) != nullptr;
}

// gate = x W, up = x V, out = act(gate) * up: one walk over both matrices, nothing in between is written. Many rows.
void fuse_gate_up(Graph& graph, Steps& steps, const PlanOptions& options, Declines& declines) {
  const auto row_class = options.row_class(kernels::RowSet::tokens);
  if (row_class != kernels::RowClass::prefill) return;
  for (size_t s = 0; s < steps.size(); ++s) {
    const Node* act = only(graph, steps[s]);
    if (act == nullptr || act->op() != Op::act_mul) continue;
    const size_t gate_step = step_of(graph, steps, act->in[0]), up_step = step_of(graph, steps, act->in[1]);
    Node *gate = only(graph, steps[gate_step]), *up = only(graph, steps[up_step]);
    if (gate == nullptr || up == nullptr || kernels::matmul_of(gate->args) == nullptr || up->op() != gate->op() ||
        gate->in != up->in || uses(graph, gate->out) != 1 || uses(graph, up->out) != 1)
      continue;
    const kernels::MatmulArgs* m = kernels::matmul_of(gate->args);
    const bool routed = gate->op() == Op::expert_matmul;
    const auto decline = [&](const char* reason) { declines.push_back({"gate_up", gate->name, reason}); };
    if (gate->weight->format != up->weight->format) {
      decline("gate and up differ in format");
      continue;
    }
    if (routed && std::get<kernels::ExpertMatmulArgs>(gate->args).routed.weigh) {
      decline("experts weigh their input");
      continue;
    }
    if (!has_kernel(routed ? Op::expert_gated : Op::gated_matmul, *gate, *m, row_class, options)) {
      decline("no kernel for this format");
      continue;
    }
    const kernels::GatedMatmulArgs pair{*m, nullptr, nullptr, std::get<kernels::ActMulArgs>(act->args).fn};
    gate->up = up->weight;
    gate->up_bias = up->bias;
    gate->out = act->out;
    if (routed) {
      const kernels::Routed r = std::get<kernels::ExpertMatmulArgs>(gate->args).routed;
      gate->args = kernels::ExpertGatedArgs{pair, r};
    } else {
      gate->args = pair;
    }
    erase(steps, s, 1);
    erase(steps, up_step, 1);
    s -= 2;
  }
}

// y_e = x W_e for each chosen expert, then their weighted sum: the matmul adds up itself, expert by expert. One row:
// with more, a row's experts do not come in its own order.
void fuse_expert_sum(Graph& graph, Steps& steps, const PlanOptions& options, Declines& declines) {
  for (size_t s = 1; s < steps.size(); ++s) {
    Node *matmul = only(graph, steps[s - 1]), *combine = only(graph, steps[s]);
    if (matmul == nullptr || combine == nullptr || matmul->op() != Op::expert_matmul || combine->op() != Op::combine ||
        combine->in[0] != matmul->out)
      continue;
    const auto args = std::get<kernels::ExpertMatmulArgs>(matmul->args);
    const auto row_class = options.row_class(kernels::RowSet::tokens);
    if (row_class != kernels::RowClass::decode) {
      declines.push_back({"expert_sum", matmul->name, "more than one row"});
      continue;
    }
    if (!has_kernel(Op::expert_sum, *matmul, args.of, row_class, options)) {
      declines.push_back({"expert_sum", matmul->name, "no kernel for this format"});
      continue;
    }
    kernels::ExpertSumArgs sum{args.of, args.routed, std::get<kernels::CombineArgs>(combine->args).weigh};
    sum.of.rows = kernels::RowSet::tokens;
    matmul->args = sum;
    matmul->out = combine->out;
    erase(steps, s, 1);
  }
}

// y = x W, then out = r + y: the matmul adds r itself. Only where nothing else reads y.
void fuse_matmul_add(Graph& graph, Steps& steps, const PlanOptions&, Declines&) {
  for (size_t s = 1; s < steps.size(); ++s) {
    if (steps[s].size() != 1 || steps[s - 1].size() != 1) continue;
    Node& matmul = graph.nodes[static_cast<size_t>(steps[s - 1][0])];
    const Node& add = graph.nodes[static_cast<size_t>(steps[s][0])];
    const bool adds = matmul.op() == Op::matmul || matmul.op() == Op::expert_sum;
    if (!adds || matmul.residual != kNone || add.op() != Op::add || add.in[1] != matmul.out ||
        uses(graph, matmul.out) != 1)
      continue;
    matmul.residual = add.in[0];
    matmul.out = add.out;
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s));
  }
}

// Matmuls of the same rows, none reading what another writes, run as one step.
void fuse_matmul_group(Graph& graph, Steps& steps, const PlanOptions&, Declines&) {
  for (size_t s = 1; s < steps.size();) {
    const Node& node = graph.nodes[static_cast<size_t>(steps[s][0])];
    const bool joins = is_matmul(node.op()) && std::all_of(steps[s - 1].begin(), steps[s - 1].end(), [&](int i) {
                         const Node& before = graph.nodes[static_cast<size_t>(i)];
                         return is_matmul(before.op()) && node.in[0] != before.out && node.residual != before.out;
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
void fuse_row_chain(Graph& graph, Steps& steps, const PlanOptions&, Declines&) {
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
  if (node.op() == Op::read_ahead) return true;
  return is_row_wise(node.op()) && node.op() != Op::kv_store &&
         std::find(node.in.begin(), node.in.end(), node.out) == node.in.end();
}

// With one row, a row-wise chain is the work of one thread while the others wait. Each thread does it for itself, into
// its own memory, and goes on to the matmuls that read it with no barrier between.
void fuse_replicate(Graph& graph, Steps& steps, const PlanOptions& options, Declines&) {
  for (size_t s = steps.size() - 1; s-- > 0;) {
    const Node& next = graph.nodes[static_cast<size_t>(steps[s + 1][0])];
    const bool joins =
        (is_matmul(next.op()) || next.replicated) && std::all_of(steps[s].begin(), steps[s].end(), [&](int n) {
          const Node& node = graph.nodes[static_cast<size_t>(n)];
          return can_replicate(node) && options.row_class(graph.row_set(node)) == kernels::RowClass::decode;
        });
    if (!joins) continue;
    for (const int n : steps[s]) {
      Node& node = graph.nodes[static_cast<size_t>(n)];
      node.replicated = true;
      if (node.out == kNone) continue;
      graph.values[static_cast<size_t>(node.out)].private_copies = true;
    }
    steps[s].insert(steps[s].end(), steps[s + 1].begin(), steps[s + 1].end());
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s) + 1);
  }
}

// With one row, attention is spread over pages of positions instead of heads, and the pages' parts are merged by the
// thread that needs them.
void fuse_split_kv(Graph& graph, Steps& steps, const PlanOptions& options, Declines&) {
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
    {"gate_up", "many rows: gate, up and activation as one walk over both matrices", &fuse_gate_up},
    {"expert_sum", "one row: the experts' last matmul adds up their results itself", &fuse_expert_sum},
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
