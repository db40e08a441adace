// Model -> Graph: the standard decoder over its Spec. Optional parts are there when their weights are.
#include <map>

#include "plan/plan.h"

namespace quern::plan {
namespace {

using kernels::ActivationFormat;
using kernels::RowSet;
using model::LayerSpec;
using model::Model;
using model::Role;
using model::Weight;
using model::WeightSet;

// How exactly a matmul's input is represented: one plane of int8, or two.
enum class Precision : uint8_t { standard, high };

class Builder {
 public:
  Builder(const Model& model, const std::vector<kernels::KvPlace>& kv_places, const PlanOptions& options,
          const ActOf& act_of)
      : model_(model), spec_(model.spec), kv_places_(kv_places), options_(options), act_of_(act_of) {}

  Graph build() {
    const Weight& embd = *model_.globals.get(Role::token_embd);
    ValueId x = value("x", spec_.n_dim);
    add({.name = "token_embd",
         .args = kernels::EmbedArgs{embd.format, nullptr, embd.row_bytes(), spec_.n_dim, spec_.embed_scale, nullptr},
         .in = {},
         .out = x,
         .weight = &embd});
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      layer_ = i;
      prefix_ = "blk." + std::to_string(i) + ".";
      x = attention_half(x, spec_.layers[i], model_.layers[i]);
      x = ffn_half(x, spec_.layers[i], model_.layers[i]);
    }
    prefix_.clear();
    head(x);
    return std::move(graph_);
  }

 private:
  ValueId value(const std::string& name, int64_t width, ActivationFormat format = ActivationFormat::f32,
                RowSet rows = RowSet::tokens) {
    graph_.values.push_back({prefix_ + name, rows, width, format});
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  void add(Node node) {
    node.name = prefix_ + node.name;
    graph_.nodes.push_back(std::move(node));
  }

  ValueId norm(const char* name, ValueId in, const Weight& weight, RowSet rows = RowSet::tokens, bool gather = false) {
    const ValueId out = value(name, weight.cols, ActivationFormat::f32, rows);
    add({.name = name,
         .args = kernels::RmsNormArgs{nullptr, nullptr, static_cast<int>(weight.cols), spec_.norm_eps, rows, gather,
                                      nullptr},
         .in = {in},
         .out = out,
         .weight = &weight});
    return out;
  }

  // `in` as matmuls with this weight want it: quantized once per format, shared by all consumers.
  ValueId activation(ValueId in, const Weight& weight, Precision precision = Precision::standard) {
    return quantized(in, act_format(weight, precision, graph_.values[static_cast<size_t>(in)].rows));
  }

  ValueId quantized(ValueId in, ActivationFormat format) {
    if (format == ActivationFormat::f32) return in;
    const auto [it, fresh] = quantized_.try_emplace({in, format}, kNone);
    if (!fresh) return it->second;
    const Value source = graph_.values[static_cast<size_t>(in)];
    const std::string name = source.name.substr(prefix_.size());
    const ValueId out = value(name + "_q", source.width, format, source.rows);
    add({.name = name + "_quant",
         .args = kernels::QuantizeArgs{nullptr, static_cast<int>(source.width), format, source.rows, nullptr, 0},
         .in = {in},
         .out = out});
    it->second = out;
    return out;
  }

  ActivationFormat act_format(const Weight& weight, Precision precision, RowSet rows) const {
    const ActivationFormat format = act_of_(weight, rows);
    return precision == Precision::high ? format::two_planes(format) : format;
  }

  ValueId matmul(const char* name, ValueId in, const Weight& weight, const Weight* bias = nullptr,
                 Precision precision = Precision::standard) {
    const ValueId x = activation(in, weight, precision);
    const RowSet rows = graph_.values[static_cast<size_t>(in)].rows;
    const ValueId out = value(name, weight.rows, ActivationFormat::f32, rows);
    add({.name = name,
         .args = matmul_args(weight, act_format(weight, precision, rows), rows),
         .in = {x},
         .out = out,
         .weight = &weight,
         .bias = bias});
    return out;
  }

  static kernels::MatmulArgs matmul_args(const Weight& weight, ActivationFormat act, RowSet rows) {
    kernels::MatmulArgs args{};
    args.format = weight.format;
    args.act = act;
    args.n_out = weight.rows;
    args.n_in = weight.cols;
    args.y_stride = weight.rows;
    args.rows = rows;
    return args;
  }

  ValueId add_values(const char* name, ValueId a, ValueId b) {
    const ValueId out = value(name, graph_.values[static_cast<size_t>(a)].width);
    add({.name = name,
         .args =
             kernels::AddArgs{nullptr, nullptr, static_cast<int>(graph_.values[static_cast<size_t>(a)].width), nullptr},
         .in = {a, b},
         .out = out});
    return out;
  }

  // x + post_norm(y), or x + y.
  ValueId residual(const char* name, ValueId x, ValueId y, const char* norm_name, const Weight* post_norm) {
    if (post_norm != nullptr) y = norm(norm_name, y, *post_norm);
    return add_values(name, x, y);
  }

  void heads(const char* name, ValueId x, const LayerSpec& layer, int n_heads, const Weight* head_norm) {
    if (head_norm != nullptr) {
      add({.name = std::string(name) + "_norm",
           .args = kernels::HeadNormArgs{nullptr, nullptr, n_heads, layer.head_dim, spec_.norm_eps},
           .in = {x},
           .out = x,
           .weight = head_norm});
    }
    if (layer.rope.kind == model::RopeKind::none) return;
    add({.name = std::string(name) + "_rope",
         .args = kernels::RopeArgs{nullptr, nullptr, n_heads, layer.head_dim, layer.rope.n_dims / 2,
                                   layer.rope.kind == model::RopeKind::neox},
         .in = {x, rope_table(layer.rope)},
         .out = x});
  }

  // One table per distinct RopeSpec, computed at the first layer that wants it.
  ValueId rope_table(const model::RopeSpec& rope) {
    for (const auto& [spec, id] : tables_) {
      if (spec == rope) return id;
    }
    const ValueId out = value("rope_table", 2 * int64_t{rope.n_dims});
    Node node{.name = "rope_table",
              .args = kernels::RopeTableArgs{rope.n_dims / 2, rope.kind == model::RopeKind::neox, rope.base, rope.scale,
                                             rope.magnitude, rope.divisors, nullptr},
              .in = {},
              .out = out};
    add(std::move(node));
    tables_.emplace_back(rope, out);
    return out;
  }

  ValueId attention_half(ValueId x, const LayerSpec& layer, const WeightSet& w) {
    const ValueId h = norm("attn_norm", x, *w.get(Role::attn_norm));
    // Quantize for all three consumers before the first of them, so that the matmuls stand side by side.
    for (const Role role : {Role::attn_q, Role::attn_k, Role::attn_v}) activation(h, *w.get(role));
    const ValueId q = matmul("attn_q", h, *w.get(Role::attn_q), w.get(Role::attn_q_bias));
    const ValueId k = matmul("attn_k", h, *w.get(Role::attn_k), w.get(Role::attn_k_bias));
    const ValueId v = matmul("attn_v", h, *w.get(Role::attn_v), w.get(Role::attn_v_bias));
    if (layer.rope.kind != model::RopeKind::none) rope_table(layer.rope);
    heads("attn_q", q, layer, layer.n_heads, w.get(Role::attn_q_norm));
    heads("attn_k", k, layer, layer.n_kv_heads, w.get(Role::attn_k_norm));
    if (layer.temperature.period > 0) {
      add({.name = "attn_q_temperature",
           .args = kernels::TemperatureArgs{nullptr, layer.n_heads * layer.head_dim, layer.temperature.scale,
                                            layer.temperature.period, layer.temperature.offset},
           .in = {q},
           .out = q});
    }
    const kernels::KvPlace place = kv_places_[layer_];
    add({.name = "kv_store", .args = kernels::KvStoreArgs{nullptr, nullptr, place}, .in = {k, v}});
    const ValueId o = value("attn", int64_t{layer.n_heads} * layer.head_dim);
    const Weight* sinks = w.get(Role::attn_sinks);
    add({.name = "attn",
         .args = kernels::AttentionArgs{nullptr, place, layer.n_heads, layer.window, layer.attn_scale,
                                        layer.attn_softcap, sinks != nullptr ? sinks->f32() : nullptr, nullptr},
         .in = {q},
         .out = o});
    const ValueId y = matmul("attn_output", o, *w.get(Role::attn_output), w.get(Role::attn_output_bias));
    return residual("attn_residual", x, y, "attn_post_norm", w.get(Role::attn_post_norm));
  }

  ValueId ffn_half(ValueId x, const LayerSpec& layer, const WeightSet& w) {
    const ValueId h = norm("ffn_norm", x, *w.get(Role::ffn_norm));
    const ValueId y = layer.experts.n_experts > 0 ? experts(h, layer, w) : dense(h, layer, w);
    return residual("ffn_residual", x, y, "ffn_post_norm", w.get(Role::ffn_post_norm));
  }

  ValueId act_mul(const char* name, ValueId gate, ValueId up, const LayerSpec& layer) {
    static constexpr kernels::ActFn kFn[] = {kernels::ActFn::silu, kernels::ActFn::gelu_tanh,
                                             kernels::ActFn::swiglu_oai};
    const Value& in = graph_.values[static_cast<size_t>(gate)];
    const RowSet rows = in.rows;
    const auto n = static_cast<int>(in.width);
    const ValueId out = value(name, n, ActivationFormat::f32, rows);
    add({.name = name,
         .args = kernels::ActMulArgs{nullptr, nullptr, n, kFn[static_cast<int>(layer.activation)], rows, nullptr},
         .in = {gate, up},
         .out = out});
    return out;
  }

  ValueId dense(ValueId h, const LayerSpec& layer, const WeightSet& w) {
    for (const Role role : {Role::ffn_gate, Role::ffn_up}) activation(h, *w.get(role));
    const ValueId gate = matmul("ffn_gate", h, *w.get(Role::ffn_gate));
    const ValueId up = matmul("ffn_up", h, *w.get(Role::ffn_up));
    return matmul("ffn_down", act_mul("ffn_act", gate, up, layer), *w.get(Role::ffn_down));
  }

  // What the ops of a layer's experts share.
  struct Routing {
    const model::ExpertSpec& spec;
    ValueId choices;
    ValueId buckets;  // kNone with few rows
  };

  Routing route(ValueId logits, const model::ExpertSpec& e, const WeightSet& w) {
    static constexpr kernels::Gating kGating[] = {kernels::Gating::softmax, kernels::Gating::sigmoid,
                                                  kernels::Gating::softmax_chosen};
    const Weight* bias = w.get(Role::exp_probs_b);
    Routing routing{e, value("ffn_choices", 2 * int64_t{e.n_used}), kNone};
    add({.name = "ffn_route",
         .args = kernels::RouteArgs{nullptr, bias != nullptr ? bias->f32() : nullptr, e.n_experts, e.n_used,
                                    kGating[static_cast<int>(e.gating)], e.renormalize, e.scale, e.n_groups,
                                    e.n_groups_used, nullptr},
         .in = {logits},
         .out = routing.choices});
    if (options_.row_class(RowSet::tokens) != kernels::RowClass::prefill) {
      if (options_.read_ahead) read_ahead(routing, w);
      return routing;
    }
    routing.buckets = value("ffn_buckets", 2 * int64_t{e.n_used});
    graph_.values[static_cast<size_t>(routing.buckets)].more_bytes =
        static_cast<size_t>(kernels::bucket_ints(0, e.n_experts) + int64_t{e.n_experts} * format::kTileRows) * 4;
    add({.name = "ffn_buckets",
         .args = kernels::BucketArgs{nullptr, e.n_experts, e.n_used, nullptr},
         .in = {routing.choices},
         .out = routing.buckets});
    return routing;
  }

  void read_ahead(const Routing& r, const WeightSet& w) {
    for (const Role role : {Role::ffn_gate_exps, Role::ffn_up_exps, Role::ffn_down_exps}) {
      add({.name = "ffn_read_ahead",
           .args = kernels::ReadAheadArgs{nullptr, r.spec.n_used, nullptr, 0},
           .in = {r.choices},
           .weight = w.get(role)});
    }
  }

  // Rows of tokens as the experts' matmuls with this weight want them: many quantized rows go to the experts' places.
  ValueId routed_rows(ValueId h, const Weight& weight, const Routing& r) {
    const ActivationFormat format = act_format(weight, Precision::standard, RowSet::routed);
    const ValueId rows = quantized(h, format::in_rows(format));
    if (!format::is_tiled(format)) return rows;
    const auto [it, fresh] = gathered_.try_emplace({rows, format}, kNone);
    if (!fresh) return it->second;
    const Value source = graph_.values[static_cast<size_t>(rows)];
    it->second = value("ffn_gathered", source.width, format, RowSet::routed);
    add({.name = "ffn_gather",
         .args = kernels::GatherArgs{nullptr, 0, nullptr, static_cast<int>(source.width), r.spec.n_experts,
                                     r.spec.n_used, format, nullptr, 0},
         .in = {rows, r.buckets},
         .out = it->second});
    return it->second;
  }

  // h: a row for each token, or for each routed row.
  ValueId expert_matmul(const char* name, ValueId h, const Weight& weight, const Weight* bias, const Routing& r,
                        bool weigh) {
    const bool by_token = graph_.values[static_cast<size_t>(h)].rows == RowSet::tokens;
    const ValueId x = by_token ? routed_rows(h, weight, r) : activation(h, weight);
    const ActivationFormat act = graph_.values[static_cast<size_t>(x)].format;
    const ValueId out = value(name, weight.rows, ActivationFormat::f32, RowSet::routed);
    kernels::Routed routed{};
    routed.n_experts = r.spec.n_experts;
    routed.n_used = r.spec.n_used;
    routed.x_by_token = graph_.values[static_cast<size_t>(x)].rows == RowSet::tokens;
    routed.weigh = weigh;
    add({.name = name,
         .args = kernels::ExpertMatmulArgs{matmul_args(weight, act, RowSet::routed), routed},
         .in = {x, r.choices, r.buckets},
         .out = out,
         .weight = &weight,
         .bias = bias});
    return out;
  }

  ValueId combine(ValueId y, const Routing& r) {
    const int64_t n = graph_.values[static_cast<size_t>(y)].width;
    const ValueId out = value("ffn_experts", n);
    add({.name = "ffn_combine",
         .args = kernels::CombineArgs{nullptr, nullptr, nullptr, static_cast<int>(n), r.spec.n_experts, r.spec.n_used,
                                      !r.spec.weigh_input, nullptr},
         .in = {y, r.choices, r.buckets},
         .out = out});
    return out;
  }

  // The order of nodes lets the shared expert's matmuls stand beside those of the others (docs/NUMERICS.md: sums).
  ValueId experts(ValueId h, const LayerSpec& layer, const WeightSet& w) {
    const bool shared = layer.experts.n_ff_shared > 0;
    const Weight& router = *w.get(Role::ffn_gate_inp);
    activation(h, router, Precision::high);
    if (shared) {
      for (const Role role : {Role::ffn_gate_shexp, Role::ffn_up_shexp}) activation(h, *w.get(role));
    }
    // A rounded logit can choose another expert; a router is small.
    const ValueId logits = matmul("ffn_gate_inp", h, router, w.get(Role::ffn_gate_inp_bias), Precision::high);
    ValueId shared_gate = kNone, shared_up = kNone, shared_down = kNone;
    if (shared) {
      shared_gate = matmul("ffn_gate_shexp", h, *w.get(Role::ffn_gate_shexp));
      shared_up = matmul("ffn_up_shexp", h, *w.get(Role::ffn_up_shexp));
    }
    const Routing r = route(logits, layer.experts, w);
    ValueId shared_act = kNone;
    if (shared) {
      shared_act = act_mul("ffn_act_shexp", shared_gate, shared_up, layer);
      activation(shared_act, *w.get(Role::ffn_down_shexp));
    }
    const bool weigh = layer.experts.weigh_input;
    for (const Role role : {Role::ffn_gate_exps, Role::ffn_up_exps}) routed_rows(h, *w.get(role), r);
    const ValueId gate =
        expert_matmul("ffn_gate_exps", h, *w.get(Role::ffn_gate_exps), w.get(Role::ffn_gate_exps_bias), r, weigh);
    const ValueId up =
        expert_matmul("ffn_up_exps", h, *w.get(Role::ffn_up_exps), w.get(Role::ffn_up_exps_bias), r, weigh);
    const ValueId act = act_mul("ffn_act", gate, up, layer);
    if (shared) shared_down = matmul("ffn_down_shexp", shared_act, *w.get(Role::ffn_down_shexp));
    if (shared && w.has(Role::ffn_gate_inp_shexp))
      shared_down = row_gate(h, *w.get(Role::ffn_gate_inp_shexp), shared_down);
    const ValueId down =
        expert_matmul("ffn_down_exps", act, *w.get(Role::ffn_down_exps), w.get(Role::ffn_down_exps_bias), r, false);
    const ValueId y = combine(down, r);
    return shared ? add_values("ffn_shared", shared_down, y) : y;
  }

  ValueId row_gate(ValueId x, const Weight& weight, ValueId y) {
    const int64_t n = graph_.values[static_cast<size_t>(y)].width;
    const ValueId out = value("ffn_gated_shexp", n);
    add({.name = "ffn_row_gate",
         .args = kernels::RowGateArgs{nullptr, nullptr, nullptr, static_cast<int>(weight.cols), static_cast<int>(n),
                                      nullptr},
         .in = {x, y},
         .out = out,
         .weight = &weight});
    return out;
  }

  void head(ValueId x) {
    const WeightSet& w = model_.globals;
    const ValueId h = norm("output_norm", x, *w.get(Role::output_norm), RowSet::outputs, true);
    graph_.output = h;
    if (options_.output == Output::hidden) return;
    const Weight& matrix = *(w.has(Role::output) ? w.get(Role::output) : w.get(Role::token_embd));
    // Rounding here goes straight into the logits, a quarter of all their error; two planes cost no weight traffic.
    const ValueId logits = matmul("output", h, matrix, nullptr, Precision::high);
    if (spec_.logit_softcap > 0) {
      add({.name = "output_softcap",
           .args = kernels::SoftcapArgs{nullptr, spec_.n_vocab, spec_.logit_softcap, RowSet::outputs},
           .in = {logits},
           .out = logits});
    }
    graph_.output = logits;
  }

  const Model& model_;
  const model::Spec& spec_;
  const std::vector<kernels::KvPlace>& kv_places_;
  const PlanOptions& options_;
  const ActOf& act_of_;
  Graph graph_;
  size_t layer_ = 0;
  std::string prefix_;
  std::map<std::pair<ValueId, ActivationFormat>, ValueId> quantized_, gathered_;
  std::vector<std::pair<model::RopeSpec, ValueId>> tables_;
};

}  // namespace

Result<Graph> build_graph(const Model& model, const std::vector<kernels::KvPlace>& kv_places,
                          const PlanOptions& options, const ActOf& act_of) {
  for (const LayerSpec& layer : model.spec.layers) {
    if (layer.chunk > 0 && (options.n_ctx == 0 || options.n_ctx > layer.chunk)) {
      return Error{Status::unsupported, "attention in chunks of " + std::to_string(layer.chunk) +
                                            " tokens: only contexts up to that length are supported (--ctx)"};
    }
  }
  return Builder(model, kv_places, options, act_of).build();
}

}  // namespace quern::plan
