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

RowClass class_of(int max_rows) {
  return max_rows == 1 ? RowClass::decode : max_rows <= kernels::kFewRows ? RowClass::few : RowClass::prefill;
}

kernels::Shape matmul_shape(const model::Weight& weight) {
  return {weight.rows, weight.cols};
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
  lives[static_cast<size_t>(graph.logits)].last = static_cast<int>(steps.size());
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
  float* f32(ValueId id) const { return reinterpret_cast<float*>(at(id)); }

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

// Tells each matmul of few rows what the next one will read; the last, what the first will in the next run.
void link_reads(Plan& plan) {
  std::vector<Call*> calls;
  for (Step& step : plan.steps) {
    for (Call& call : step.calls) {
      const auto* m = std::get_if<kernels::MatmulArgs>(&call.args);
      if (m != nullptr && call.kernel->key.layout == Layout::x16 && !format::is_tiled(m->act)) calls.push_back(&call);
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& next = std::get<kernels::MatmulArgs>(calls[(i + 1) % calls.size()]->args);
    const kernels::NextRead read{next.w, kernels::panel_count(next.n_out),
                                 kernels::panel_bytes(next.format, next.n_in)};
    std::get<kernels::MatmulArgs>(calls[i]->args).next = read;
    for (kernels::OpArgs& other : calls[i]->others) std::get<kernels::MatmulArgs>(other).next = read;
  }
}

kernels::Query query_of(const Graph& graph, const Node& node, const PlanOptions& options) {
  kernels::Query query{.op = node.op()};
  const RowSet rows = graph.row_set(node);
  query.row_class = class_of(options.rows_of(rows));
  if (const auto* embed = std::get_if<kernels::EmbedArgs>(&node.args)) {
    query.weight = embed->format;
    query.shape.n_in = embed->n_dim;
  } else if (const auto* quantize = std::get_if<kernels::QuantizeArgs>(&node.args)) {
    query.act = quantize->format;
    query.shape.n_in = quantize->n;
  } else if (const auto* matmul = std::get_if<kernels::MatmulArgs>(&node.args)) {
    query.weight = matmul->format;
    query.act = matmul->act;
    query.shape = matmul_shape(*node.weight);
    query.layout = kernels::choose_matmul(matmul->format, query.shape, options.isa_mask).layout;
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
    values.insert(node.in.begin(), node.in.end());
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

std::vector<PackRequest> pack_requests(const model::Model& model, uint32_t isa_mask) {
  std::vector<PackRequest> requests;
  std::set<const std::byte*> seen;  // tied weights are packed once
  const auto consider = [&](const model::Weight* weight) {
    if (weight == nullptr || weight->rows <= 1) return;
    const kernels::Shape shape = matmul_shape(*weight);
    const Layout layout = kernels::choose_matmul(weight->format, shape, isa_mask).layout;
    if (layout == Layout::disk || !seen.insert(weight->data).second) return;
    const Kernel* kernel = kernels::find_kernel(
        {kernels::Op::repack, weight->format, format::ActivationFormat::f32, layout, RowClass::prefill, shape},
        isa_mask);
    QUERN_CHECK(kernel != nullptr);
    requests.push_back({weight, layout, kernel, kernels::x16_bytes(weight->format, weight->rows, weight->cols)});
  };
  for (const model::WeightSet& layer : model.layers) {
    for (size_t role = 0; role < model::kRoleCount; ++role) consider(layer.get(static_cast<model::Role>(role)));
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
                     const PlanOptions& options, std::byte* arena) {
  QUERN_TRY_VOID(check_fusion_names(options.no_fuse));
  const auto act_of = [&](const model::Weight& weight, RowSet rows) {
    return kernels::act_for(kernels::choose_matmul(weight.format, matmul_shape(weight), options.isa_mask).act,
                            class_of(options.rows_of(rows)));
  };
  Graph graph = build_graph(model, kv.layers, act_of);
  Steps steps;
  for (size_t n = 0; n < graph.nodes.size(); ++n) steps.push_back({static_cast<int>(n)});
  for (const Fusion& fusion : all_fusions()) {
    if (!left_out(options.no_fuse, fusion.name)) fusion.apply(graph, steps, options);
  }
  const ArenaMap map = place_values(graph, steps, options);
  Plan plan;
  plan.row_class = class_of(options.max_rows);
  plan.options = options;
  plan.arena_bytes = map.bytes(options.n_threads);
  plan.logits = reinterpret_cast<float*>(arena + map.offsets[static_cast<size_t>(graph.logits)]);
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
                node.name,
                query};
      call.tuned = options.choices != nullptr && options.choices->find(query) != nullptr;
      QUERN_CHECK(call.kernel != nullptr);
      if (arena != nullptr) bind_call(call, graph, node, map, arena, weights, query.layout, options.n_threads);
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
