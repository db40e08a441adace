// Model -> Graph: the standard decoder over its Spec. Optional parts are there when their weights are.
#include <map>

#include "plan/graph.h"

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
  Builder(const Model& model, const std::vector<kernels::KvPlace>& kv_places, const ActOf& act_of)
      : model_(model), spec_(model.spec), kv_places_(kv_places), act_of_(act_of) {}

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
    const ActivationFormat format = act_format(weight, precision, graph_.values[static_cast<size_t>(in)].rows);
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
    kernels::MatmulArgs args{};
    args.format = weight.format;
    args.act = act_format(weight, precision, rows);
    args.n_out = weight.rows;
    args.n_in = weight.cols;
    args.y_stride = weight.rows;
    args.rows = rows;
    add({.name = name, .args = args, .in = {x}, .out = out, .weight = &weight, .bias = bias});
    return out;
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
    for (const Role role : {Role::ffn_gate, Role::ffn_up}) activation(h, *w.get(role));
    const ValueId gate = matmul("ffn_gate", h, *w.get(Role::ffn_gate));
    const ValueId up = matmul("ffn_up", h, *w.get(Role::ffn_up));
    const ValueId act = value("ffn_act", layer.n_ff);
    const auto fn = layer.activation == model::Activation::silu ? kernels::ActFn::silu : kernels::ActFn::gelu_tanh;
    add({.name = "ffn_act",
         .args = kernels::ActMulArgs{nullptr, nullptr, layer.n_ff, fn, nullptr},
         .in = {gate, up},
         .out = act});
    const ValueId y = matmul("ffn_down", act, *w.get(Role::ffn_down));
    return residual("ffn_residual", x, y, "ffn_post_norm", w.get(Role::ffn_post_norm));
  }

  void head(ValueId x) {
    const WeightSet& w = model_.globals;
    const ValueId h = norm("output_norm", x, *w.get(Role::output_norm), RowSet::outputs, true);
    const Weight& matrix = *(w.has(Role::output) ? w.get(Role::output) : w.get(Role::token_embd));
    // Rounding here goes straight into the logits, a quarter of all their error; two planes cost no weight traffic.
    const ValueId logits = matmul("output", h, matrix, nullptr, Precision::high);
    if (spec_.logit_softcap > 0) {
      add({.name = "output_softcap",
           .args = kernels::SoftcapArgs{nullptr, spec_.n_vocab, spec_.logit_softcap, RowSet::outputs},
           .in = {logits},
           .out = logits});
    }
    graph_.logits = logits;
  }

  const Model& model_;
  const model::Spec& spec_;
  const std::vector<kernels::KvPlace>& kv_places_;
  const ActOf& act_of_;
  Graph graph_;
  size_t layer_ = 0;
  std::string prefix_;
  std::map<std::pair<ValueId, ActivationFormat>, ValueId> quantized_;
  std::vector<std::pair<model::RopeSpec, ValueId>> tables_;
};

}  // namespace

Graph build_graph(const Model& model, const std::vector<kernels::KvPlace>& kv_places, const ActOf& act_of) {
  return Builder(model, kv_places, act_of).build();
}

}  // namespace quern::plan
