// Graph -> Plan: fusions, kernels by registry query, arena offsets by lifetime, final addresses.
#include <algorithm>
#include <set>

#include "base/arena.h"
#include "base/check.h"
#include "kernels/layout.h"
#include "plan/plan.h"

namespace quern::plan {
namespace {

using kernels::Kernel;
using kernels::Layout;
using kernels::RowClass;
using kernels::RowSet;

RowClass class_of_rows(int max_rows) {
  return max_rows == 1 ? RowClass::decode : max_rows <= kernels::kFewRows ? RowClass::few : RowClass::prefill;
}

size_t matrix_bytes(const model::Weight& weight, Layout layout) {
  return layout == Layout::disk ? weight.row_bytes() * static_cast<size_t>(weight.rows)
                                : kernels::x16_bytes(weight.format, weight.rows, weight.cols);
}

// Roles of what is added to a matmul's result: read as it lies.
bool is_added(model::Role role) {
  const std::string_view name = model::role_name(role);
  return name == "exp_probs_b" || (name.size() > 5 && name.substr(name.size() - 5) == "_bias");
}

bool left_out(const std::vector<std::string>& no_fuse, const std::string& name) {
  return std::any_of(no_fuse.begin(), no_fuse.end(), [&](const std::string& n) { return n == "all" || n == name; });
}

// Offsets such that values whose lifetimes (whole steps) overlap do not share bytes. First fit by first use. Values
// with private copies lie in a part of their own, of which each thread has one behind the shared part.
struct ArenaMap {
  std::vector<size_t> offsets;  // by value
  size_t shared_bytes = 0, private_bytes = 0;
  size_t bytes(int n_threads) const { return shared_bytes + private_bytes * static_cast<size_t>(n_threads); }
};

struct Life {
  int first = -1, last = -1;
  size_t bytes = 0;
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Life> lives_of(const Graph& graph, const Steps& steps) {
  std::vector<Life> lives(graph.values.size());
  const auto touch = [&](ValueId id, int step) {
    if (id == kNone) return;
    Life& life = lives[static_cast<size_t>(id)];
    if (life.first < 0) life.first = step;
    life.last = step;
  };
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const int n : steps[s]) {
      const Node& node = graph.nodes[static_cast<size_t>(n)];
      for (const ValueId id : node.in) touch(id, static_cast<int>(s));
      touch(node.residual, static_cast<int>(s));
      touch(node.out, static_cast<int>(s));
    }
  }
  lives[static_cast<size_t>(graph.output)].last = static_cast<int>(steps.size());
  return lives;
}

ArenaMap place_values(const Graph& graph, const Steps& steps, const PlanOptions& options) {
  std::vector<Life> lives = lives_of(graph, steps);
  ArenaMap map;
  map.offsets.assign(graph.values.size(), 0);
  std::vector<size_t> placed;
  for (size_t v = 0; v < lives.size(); ++v) {
    if (lives[v].first < 0) continue;
    const bool is_private = graph.values[v].private_copies;
    lives[v].bytes = align_up(graph.values[v].bytes(options.rows_of(graph.values[v].rows)), kCacheLine);
    size_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const size_t p : placed) {
        if (graph.values[p].private_copies != is_private || !lives[p].meets(lives[v])) continue;
        if (offset < map.offsets[p] + lives[p].bytes && map.offsets[p] < offset + lives[v].bytes) {
          offset = map.offsets[p] + lives[p].bytes;
          moved = true;
        }
      }
    }
    map.offsets[v] = offset;
    size_t& bytes = is_private ? map.private_bytes : map.shared_bytes;
    bytes = std::max(bytes, offset + lives[v].bytes);
    placed.push_back(v);
  }
  return map;
}

// Fills the pointers of one node's arguments, as one thread sees them.
class Bind {
 public:
  Bind(const Graph& graph, const Node& node, const ArenaMap& map, std::byte* arena, const PackedWeights& weights,
       Layout layout, int thread)
      : graph_(graph), node_(node), map_(map), arena_(arena), weights_(weights), layout_(layout), thread_(thread) {}

  void operator()(kernels::EmbedArgs& a) const {
    a.table = node_.weight->data;
    a.out = f32(node_.out);
  }
  void operator()(kernels::RopeTableArgs& a) const { a.out = f32(node_.out); }
  void operator()(kernels::RmsNormArgs& a) const {
    a.in = f32(node_.in[0]);
    a.weight = node_.weight->f32();
    a.out = f32(node_.out);
  }
  void operator()(kernels::QuantizeArgs& a) const {
    a.in = f32(node_.in[0]);
    a.out = at(node_.out);
    a.out_stride = value(node_.out).stride();
  }
  void operator()(kernels::MatmulArgs& a) const {
    a.w = weights_.find(*node_.weight, layout_);
    a.x = at(node_.in[0]);
    a.x_stride = value(node_.in[0]).stride();
    a.bias = node_.bias != nullptr ? node_.bias->f32() : nullptr;
    a.residual = node_.residual != kNone ? f32(node_.residual) : nullptr;
    a.y = f32(node_.out);
    a.y_stride = static_cast<int64_t>(value(node_.out).stride() / sizeof(float));
  }
  void operator()(kernels::GatedMatmulArgs& a) const {
    (*this)(a.gate);
    a.up = weights_.find(*node_.up, layout_);
    a.up_bias = node_.up_bias != nullptr ? node_.up_bias->f32() : nullptr;
  }
  void operator()(kernels::RouteArgs& a) const {
    a.logits = f32(node_.in[0]);
    a.out = as<kernels::ExpertChoice>(node_.out);
  }
  void operator()(kernels::ReadAheadArgs& a) const {
    a.choices = as<kernels::ExpertChoice>(node_.in[0]);
    a.stack = weights_.find(*node_.weight, layout_);
    a.expert_bytes = matrix_bytes(*node_.weight, layout_);
  }
  void operator()(kernels::BucketArgs& a) const {
    a.choices = as<kernels::ExpertChoice>(node_.in[0]);
    a.out = as<int32_t>(node_.out);
  }
  void operator()(kernels::GatherArgs& a) const {
    a.in = at(node_.in[0]);
    a.in_stride = value(node_.in[0]).stride();
    a.buckets = as<int32_t>(node_.in[1]);
    a.out = at(node_.out);
    a.out_stride = value(node_.out).stride();
  }
  void operator()(kernels::ExpertMatmulArgs& a) const {
    (*this)(a.of);
    bind(a.routed);
  }
  void operator()(kernels::ExpertGatedArgs& a) const {
    (*this)(a.of);
    bind(a.routed);
  }
  void operator()(kernels::ExpertSumArgs& a) const {
    (*this)(a.of);
    bind(a.routed);
  }
  void operator()(kernels::CombineArgs& a) const {
    a.in = f32(node_.in[0]);
    a.choices = as<kernels::ExpertChoice>(node_.in[1]);
    a.buckets = node_.in[2] != kNone ? as<int32_t>(node_.in[2]) : nullptr;
    a.out = f32(node_.out);
  }
  void operator()(kernels::RowGateArgs& a) const {
    a.x = f32(node_.in[0]);
    a.weight = node_.weight->f32();
    a.y = f32(node_.in[1]);
    a.out = f32(node_.out);
  }
  void operator()(kernels::TemperatureArgs& a) const { a.x = f32(node_.out); }
  void operator()(kernels::AddArgs& a) const {
    a.a = f32(node_.in[0]);
    a.b = f32(node_.in[1]);
    a.out = f32(node_.out);
  }
  void operator()(kernels::HeadNormArgs& a) const {
    a.x = f32(node_.out);
    a.weight = node_.weight->f32();
  }
  void operator()(kernels::RopeArgs& a) const {
    a.x = f32(node_.out);
    a.table = f32(node_.in[1]);
  }
  void operator()(kernels::KvStoreArgs& a) const {
    a.k = f32(node_.in[0]);
    a.v = f32(node_.in[1]);
  }
  void operator()(kernels::AttentionArgs& a) const {
    a.q = f32(node_.in[0]);
    a.out = f32(node_.out);
  }
  void operator()(kernels::AttentionPartsArgs& a) const {
    a.of.q = f32(node_.in[0]);
    a.parts = f32(node_.out);
  }
  void operator()(kernels::AttentionMergeArgs& a) const {
    a.parts = f32(node_.in[0]);
    a.of.out = f32(node_.out);
  }
  void operator()(kernels::ActMulArgs& a) const {
    a.gate = f32(node_.in[0]);
    a.up = f32(node_.in[1]);
    a.out = f32(node_.out);
  }
  void operator()(kernels::SoftcapArgs& a) const { a.x = f32(node_.out); }
  void operator()(kernels::RepackArgs&) const { QUERN_CHECK(false); }

 private:
  const Value& value(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }
  std::byte* at(ValueId id) const {
    const size_t offset = map_.offsets[static_cast<size_t>(id)];
    return arena_ + (value(id).private_copies ? map_.bytes(thread_) + offset : offset);
  }
  template <class T>
  T* as(ValueId id) const {
    return reinterpret_cast<T*>(at(id));
  }
  float* f32(ValueId id) const { return as<float>(id); }
  // in: x, choices, buckets
  void bind(kernels::Routed& r) const {
    r.expert_bytes = matrix_bytes(*node_.weight, layout_);
    r.choices = as<kernels::ExpertChoice>(node_.in[1]);
    r.buckets = node_.in[2] != kNone ? as<int32_t>(node_.in[2]) : nullptr;
  }

  const Graph& graph_;
  const Node& node_;
  const ArenaMap& map_;
  std::byte* arena_;
  const PackedWeights& weights_;
  Layout layout_;
  int thread_;
};

bool has_private_copies(const Graph& graph, const Node& node) {
  const auto is_private = [&](ValueId id) {
    return id != kNone && graph.values[static_cast<size_t>(id)].private_copies;
  };
  return is_private(node.out) || is_private(node.residual) || std::any_of(node.in.begin(), node.in.end(), is_private);
}

void bind_call(Call& call, const Graph& graph, const Node& node, const ArenaMap& map, std::byte* arena,
               const PackedWeights& weights, Layout layout, int n_threads) {
  if (has_private_copies(graph, node)) call.others.assign(static_cast<size_t>(n_threads) - 1, call.args);
  std::visit(Bind(graph, node, map, arena, weights, layout, 0), call.args);
  for (int t = 1; t <= static_cast<int>(call.others.size()); ++t) {
    std::visit(Bind(graph, node, map, arena, weights, layout, t), call.others[static_cast<size_t>(t) - 1]);
  }
}

const kernels::Routed* routed_of(const kernels::OpArgs& args) {
  if (const auto* m = std::get_if<kernels::ExpertMatmulArgs>(&args)) return &m->routed;
  if (const auto* m = std::get_if<kernels::ExpertSumArgs>(&args)) return &m->routed;
  return nullptr;
}

// Tells each matmul of few rows what the next one will read; the last, what the first will in the next run.
void link_reads(Plan& plan) {
  std::vector<Call*> calls;
  for (Step& step : plan.steps) {
    for (Call& call : step.calls) {
      const auto* m = kernels::matmul_of(call.args);
      if (m != nullptr && call.kernel->key.layout == Layout::x16 && !format::is_tiled(m->act)) calls.push_back(&call);
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& after = *calls[(i + 1) % calls.size()];
    const kernels::MatmulArgs& next = *kernels::matmul_of(after.args);
    kernels::NextRead read{next.w, kernels::panel_count(next.n_out), kernels::panel_bytes(next.format, next.n_in)};
    // Which expert is next, only a matmul over the same choices can tell.
    if (const auto* routed = routed_of(after.args)) {
      const auto* mine = routed_of(calls[i]->args);
      if (mine == nullptr || mine->choices != routed->choices) read.data = nullptr;
      read.expert_bytes = routed->expert_bytes;
      read.across_experts = std::holds_alternative<kernels::ExpertMatmulArgs>(after.args);
    }
    kernels::matmul_of(calls[i]->args)->next = read;
    for (kernels::OpArgs& other : calls[i]->others) kernels::matmul_of(other)->next = read;
  }
}

kernels::Query query_of(const Graph& graph, const Node& node, const PlanOptions& options) {
  kernels::Query query{.op = node.op()};
  const RowSet rows = graph.row_set(node);
  query.row_class = options.row_class(rows);
  if (const auto* embed = std::get_if<kernels::EmbedArgs>(&node.args)) {
    query.weight = embed->format;
    query.shape.n_in = embed->n_dim;
  } else if (const auto* quantize = std::get_if<kernels::QuantizeArgs>(&node.args)) {
    query.act = quantize->format;
    query.shape.n_in = quantize->n;
  } else if (is_matmul(node.op())) {
    const kernels::MatmulArgs* matmul = kernels::matmul_of(node.args);
    if (const auto* gated = std::get_if<kernels::GatedMatmulArgs>(&node.args)) matmul = &gated->gate;
    if (const auto* gated = std::get_if<kernels::ExpertGatedArgs>(&node.args)) matmul = &gated->of.gate;
    query.weight = matmul->format;
    query.act = matmul->act;
    query.shape = matmul_shape(*node.weight);
    query.layout = layout_of(*node.weight, options.isa_mask);
  } else if (const auto* gather = std::get_if<kernels::GatherArgs>(&node.args)) {
    query.act = gather->format;
    query.shape.n_in = gather->n;
  } else if (const auto* route = std::get_if<kernels::RouteArgs>(&node.args)) {
    query.shape = {route->n_experts, route->n_used};
  } else if (const auto* attention = std::get_if<kernels::AttentionArgs>(&node.args)) {
    query.shape = {attention->n_heads / attention->place.n_kv_heads, attention->place.head_dim};
  } else if (const auto* parts = std::get_if<kernels::AttentionPartsArgs>(&node.args)) {
    query.shape = {parts->of.n_heads / parts->of.place.n_kv_heads, parts->of.place.head_dim};
  } else if (const auto* merge = std::get_if<kernels::AttentionMergeArgs>(&node.args)) {
    query.shape.n_in = merge->of.place.head_dim;
  } else if (const auto* store = std::get_if<kernels::KvStoreArgs>(&node.args)) {
    query.shape.n_in = store->place.head_dim;
  } else if (node.out != kNone) {
    query.shape.n_in = graph.values[static_cast<size_t>(node.out)].width;
  }
  return query;
}

// A thread's rows of all values of a row-wise step stay within so many bytes.
constexpr size_t kBlockBytes = size_t{32} << 10;
// Rows whose keys share a cache line: positions of one dimension lie side by side (kernels/ops.h).
constexpr size_t kKeyLine = kCacheLine / 2;

// No two threads write to one cache line: blocks are whole tiles of activations, or whole lines of keys.
int block_rows(const Graph& graph, const std::vector<int>& nodes) {
  std::set<ValueId> values;
  size_t unit = 1;
  for (const int n : nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (!is_row_wise(node.op()) || node.replicated) return 0;
    for (const ValueId id : node.in) {
      if (id != kNone) values.insert(id);
    }
    if (node.op() == kernels::Op::kv_store) unit = std::max(unit, kKeyLine);
    if (node.out == kNone) continue;
    values.insert(node.out);
    if (format::is_tiled(graph.values[static_cast<size_t>(node.out)].format))
      unit = std::max(unit, size_t{format::kTileRows});
  }
  size_t bytes = 1;
  for (const ValueId id : values) bytes += graph.values[static_cast<size_t>(id)].stride();
  return static_cast<int>(std::max<size_t>(1, kBlockBytes / bytes / unit) * unit);
}

}  // namespace

Layout layout_of(const model::Weight& weight, uint32_t isa_mask) {
  if (weight.depth > 1 && weight.rows % kernels::kPanelRows != 0) return Layout::disk;
  return kernels::choose_matmul(weight.format, matmul_shape(weight), isa_mask).layout;
}

RowClass PlanOptions::row_class(RowSet rows) const {
  return class_of_rows(rows == RowSet::outputs ? max_outputs : max_rows);
}

int PlanOptions::routed_rows(int n_rows) const {
  const int64_t n_entries = int64_t{n_rows} * n_used;
  return static_cast<int>(row_class(RowSet::routed) == RowClass::prefill ? kernels::place_count(n_entries, n_experts)
                                                                         : n_entries);
}

int PlanOptions::rows_of(RowSet rows) const {
  return rows == RowSet::tokens ? max_rows : rows == RowSet::outputs ? max_outputs : routed_rows(max_rows);
}

std::vector<PackRequest> pack_requests(const model::Model& model, uint32_t isa_mask) {
  std::vector<PackRequest> requests;
  std::set<const std::byte*> seen;  // tied weights are packed once
  const auto consider = [&](const model::Weight* weight) {
    if (weight == nullptr || weight->rows <= 1) return;
    const kernels::Shape shape = matmul_shape(*weight);
    const Layout layout = layout_of(*weight, isa_mask);
    if (layout == Layout::disk || !seen.insert(weight->data).second) return;
    const Kernel* kernel = kernels::find_kernel(
        {kernels::Op::repack, weight->format, format::ActivationFormat::f32, layout, RowClass::prefill, shape},
        isa_mask);
    QUERN_CHECK(kernel != nullptr);
    requests.push_back(
        {weight, layout, kernel, kernels::x16_bytes(weight->format, weight->rows * weight->depth, weight->cols)});
  };
  for (const model::WeightSet& layer : model.layers) {
    for (size_t i = 0; i < model::kRoleCount; ++i) {
      const auto role = static_cast<model::Role>(i);
      if (!is_added(role)) consider(layer.get(role));
    }
  }
  using model::Role;
  consider(model.globals.has(Role::output) ? model.globals.get(Role::output) : model.globals.get(Role::token_embd));
  return requests;
}

KvLayout make_kv_layout(const model::Spec& spec) {
  KvLayout layout;
  for (const model::LayerSpec& layer : spec.layers) {
    const auto same = [&](const KvKind& kind) {
      return kind.n_kv_heads == layer.n_kv_heads && kind.head_dim == layer.head_dim && kind.window == layer.window;
    };
    auto it = std::find_if(layout.kinds.begin(), layout.kinds.end(), same);
    if (it == layout.kinds.end())
      it = layout.kinds.insert(layout.kinds.end(), {layer.n_kv_heads, layer.head_dim, layer.window});
    kernels::KvPlace place{static_cast<int>(it - layout.kinds.begin()), it->page_bytes, 0, layer.n_kv_heads,
                           layer.head_dim};
    const size_t half = place.head_bytes() * static_cast<size_t>(layer.n_kv_heads);
    place.v_offset = place.k_offset + half;
    it->page_bytes += 2 * half;
    layout.layers.push_back(place);
  }
  return layout;
}

Result<Plan> compile(const model::Model& model, const KvLayout& kv, const PackedWeights& weights,
                     const PlanOptions& given, std::byte* arena) {
  QUERN_TRY_VOID(check_fusion_names(given.no_fuse));
  PlanOptions options = given;
  for (const model::LayerSpec& layer : model.spec.layers) {
    options.n_used = std::max(options.n_used, layer.experts.n_used);
    options.n_experts = std::max(options.n_experts, layer.experts.n_experts);
  }
  const auto act_of = [&](const model::Weight& weight, RowSet rows) {
    return kernels::act_for(kernels::choose_matmul(weight.format, matmul_shape(weight), options.isa_mask).act,
                            options.row_class(rows));
  };
  QUERN_TRY(Graph graph, build_graph(model, kv.layers, options, act_of));
  Steps steps;
  for (size_t n = 0; n < graph.nodes.size(); ++n) steps.push_back({static_cast<int>(n)});
  Plan plan;
  for (const Fusion& fusion : all_fusions()) {
    if (!left_out(options.no_fuse, fusion.name)) fusion.apply(graph, steps, options, plan.declines);
  }
  const ArenaMap map = place_values(graph, steps, options);
  plan.row_class = options.row_class(RowSet::tokens);
  plan.options = options;
  plan.arena_bytes = map.bytes(options.n_threads);
  plan.output = reinterpret_cast<float*>(arena + map.offsets[static_cast<size_t>(graph.output)]);
  for (const std::vector<int>& nodes : steps) {
    Step step;
    step.block_rows = block_rows(graph, nodes);
    step.rows = graph.row_set(graph.nodes[static_cast<size_t>(nodes[0])]);
    for (const int n : nodes) {
      const Node& node = graph.nodes[static_cast<size_t>(n)];
      const kernels::Query query = query_of(graph, node, options);
      Call call{kernels::find_kernel(query, options.isa_mask, options.choices),
                node.args,
                {},
                node.replicated,
                graph.row_set(node),
                node.name,
                query};
      call.tuned = options.choices != nullptr && options.choices->find(query) != nullptr;
      QUERN_CHECK(call.kernel != nullptr);
      if (arena != nullptr) {
        const Layout layout = node.weight != nullptr ? layout_of(*node.weight, options.isa_mask) : query.layout;
        bind_call(call, graph, node, map, arena, weights, layout, options.n_threads);
      }
      if (call.kernel->scratch_bytes != nullptr)
        plan.scratch_bytes = std::max(plan.scratch_bytes, call.kernel->scratch_bytes(query.shape));
      step.calls.push_back(std::move(call));
    }
    plan.steps.push_back(std::move(step));
  }
  if (arena != nullptr) link_reads(plan);
  return plan;
}

}  // namespace quern::plan
