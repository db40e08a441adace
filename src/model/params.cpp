// Metadata -> Params -> Spec. Every number that sizes anything is bounded here.
#include "model/params.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/experts.h"
#include "model/rope.h"

namespace quern::model {
namespace {

using file::GgufFile;

constexpr int64_t kMaxLayers = 2048, kMaxHeads = 4096, kMaxVocab = 1 << 24;

// One row's value into its field.
struct Reader {
  const GgufFile& file;
  std::string key;
  Params& params;

  template <class T>
  Result<bool> read(T& to) const {
    QUERN_TRY(const std::optional<T> value, file.get<T>(key));
    // No key of any architecture means something below 0, so that can stand for what a file does not say.
    if (value && !(*value >= 0 && *value <= std::numeric_limits<T>::max()))
      return bad(file, "key '" + key + "' is " + std::to_string(*value) + ", expected a number of 0 or more");
    if (value) to = *value;
    return value.has_value();
  }
  Result<bool> operator()(int64_t Params::*field) const { return read(params.*field); }
  Result<bool> operator()(double Params::*field) const { return read(params.*field); }
  Result<bool> operator()(std::optional<bool> Params::*field) const {
    QUERN_TRY(params.*field, file.get<bool>(key));
    return (params.*field).has_value();
  }
  Result<bool> operator()(std::string Params::*field) const {
    QUERN_TRY(const std::optional<std::string_view> value, file.get<std::string_view>(key));
    if (value) params.*field = std::string(*value);
    return value.has_value();
  }
  Result<bool> operator()(PerLayer Params::*field) const {
    const file::Value* value = file.find(key);
    if (value == nullptr) return false;
    if (value->is_array()) {
      for (const file::Value element : value->elements()) {
        std::optional<int64_t> number = element.as<int64_t>();
        if (const auto flag = element.as<bool>(); !number && flag) number = *flag ? 1 : 0;
        if (!number) return bad(file, "key '" + key + "' is " + value->type_text() + ", expected integers or booleans");
        (params.*field).values.push_back(*number);
      }
      if ((params.*field).values.empty()) return bad(file, "key '" + key + "' is an empty array");
      return true;
    }
    QUERN_TRY(const int64_t single, file.require<int64_t>(key));
    (params.*field).values = {single};
    return true;
  }
};

bool windowed(const PerLayer& stated, WindowPattern pattern, size_t layer) {
  if (stated.values.size() > 1) return layer < stated.values.size() && stated.values[layer] != 0;
  if (stated.set()) {
    const int64_t period = stated.values[0];
    return period <= 0 || static_cast<int64_t>(layer) % period < period - 1;
  }
  switch (pattern) {
    case WindowPattern::none:
      return false;
    case WindowPattern::all:
      return true;
    case WindowPattern::even:
      return layer % 2 == 0;
    case WindowPattern::but_every_6th:
      return (layer + 1) % 6 != 0;
  }
  return false;
}

// Layers with a chunk rotate; the others scale their queries by position instead.
Result<void> set_chunked(const GgufFile& file, const Arch& arch, const Params& p, size_t i, LayerSpec& layer) {
  if (p.window == 0)
    return Error{Status::unsupported, file.path() + ": attention.sliding_window 0 (no chunks) is not supported"};
  const bool global = (i + 1) % static_cast<size_t>(arch.chunked.every) == 0;
  if (p.window_pattern.set() ? windowed(p.window_pattern, arch.windows, i) : !global) {
    const int64_t chunk = p.window > 0 ? p.window : arch.chunked.default_chunk;
    QUERN_TRY(layer.chunk, bounded(file, "attention.sliding_window", chunk, 1, INT32_MAX));
  }
  if (global) {
    layer.rope = {};
    layer.temperature = arch.chunked.temperature;
  }
  return {};
}

Result<AttnTemperature> make_temperature(const GgufFile& file, const Params& p) {
  if (p.attn_temperature <= 0) return AttnTemperature{};
  const int64_t period = p.rope_original_ctx == -1 ? p.n_ctx_train : p.rope_original_ctx;
  AttnTemperature t{p.attn_temperature, 0, 0};
  QUERN_TRY(t.period, bounded(file, "rope.scaling.original_context_length", period, 1, INT32_MAX));
  return t;
}

Result<void> set_feed_forward(const GgufFile& file, const Arch& arch, const Params& p, size_t i, LayerSpec& layer) {
  layer.activation = arch.activation;
  QUERN_TRY(layer.experts, make_experts(file, arch, p, i));
  if (layer.experts.n_experts > 0) return {};
  if (!p.n_ff.set()) return bad(file, "key '" + std::string(arch.name) + ".feed_forward_length' is missing");
  QUERN_TRY(layer.n_ff, layer_value(file, "feed_forward_length", p.n_ff, i, 1, kMaxWidth));
  return {};
}

Result<LayerSpec> make_layer(const GgufFile& file, const Arch& arch, const Params& p, size_t i) {
  LayerSpec layer;
  const PerLayer& kv_heads = p.n_kv_heads.set() ? p.n_kv_heads : p.n_heads;
  QUERN_TRY(layer.n_heads, layer_value(file, "attention.head_count", p.n_heads, i, 1, kMaxHeads));
  QUERN_TRY(layer.n_kv_heads, layer_value(file, "attention.head_count_kv", kv_heads, i, 1, kMaxHeads));
  if (layer.n_heads % layer.n_kv_heads != 0)
    return bad(file, "attention.head_count is no multiple of attention.head_count_kv");
  const int64_t head_dim = p.key_length > 0 ? p.key_length : p.n_dim / layer.n_heads;
  QUERN_TRY(layer.head_dim, bounded(file, "attention.key_length", head_dim, 2, 4096));
  if (p.value_length > 0 && p.value_length != head_dim) {
    return Error{Status::unsupported,
                 file.path() + ": attention.value_length differs from key_length: not supported yet"};
  }
  if (layer.head_dim % 2 != 0) return bad(file, "attention.key_length is odd");
  const int64_t window = p.window > 0 ? p.window : arch.default_window;
  if (arch.chunked.every == 0 && windowed(p.window_pattern, arch.windows, i) && window > 0) {
    QUERN_TRY(layer.window, bounded(file, "attention.sliding_window", window, 1, INT32_MAX));
  }
  const bool by_dim = arch.dim_per_head_scale_at_layers == p.n_layers;
  layer.attn_scale = p.attn_scale > 0
                         ? static_cast<float>(p.attn_scale)
                         : 1.0F / std::sqrt(static_cast<float>(by_dim ? p.n_dim / layer.n_heads : layer.head_dim));
  layer.attn_softcap = static_cast<float>(p.attn_softcap >= 0 ? p.attn_softcap : arch.default_attn_softcap);
  QUERN_TRY(layer.rope, make_rope(file, arch, p, layer));
  QUERN_TRY(layer.temperature, make_temperature(file, p));
  if (arch.chunked.every > 0) QUERN_TRY_VOID(set_chunked(file, arch, p, i, layer));
  QUERN_TRY_VOID(set_feed_forward(file, arch, p, i, layer));
  return layer;
}

}  // namespace

Error bad(const GgufFile& file, const std::string& text) {
  return {Status::invalid_file, file.path() + ": " + text};
}

Result<int> bounded(const GgufFile& file, const char* what, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return bad(file, std::string(what) + " is " + std::to_string(value) + ", outside " + std::to_string(low) + " to " +
                         std::to_string(high));
  }
  return static_cast<int>(value);
}

Result<int> layer_value(const GgufFile& file, const char* what, const PerLayer& values, size_t layer, int64_t low,
                        int64_t high) {
  if (values.values.size() != 1 && layer >= values.values.size()) {
    return bad(file,
               std::string(what) + " has " + std::to_string(values.values.size()) + " entries, fewer than the layers");
  }
  return bounded(file, what, values.at(layer), low, high);
}

Result<Params> read_params(const GgufFile& file, const Arch& arch) {
  Params params;
  for (const KeyRow& row : arch.keys) {
    const std::string key = std::string(arch.name) + "." + std::string(row.suffix);
    QUERN_TRY(const bool found, std::visit(Reader{file, key, params}, row.field));
    if (!found && row.need == Need::required) return bad(file, "key '" + key + "' is missing");
  }
  return params;
}

Result<Spec> make_spec(const GgufFile& file, const Arch& arch, const Params& p) {
  Spec spec;
  spec.arch = arch.name;
  QUERN_TRY(const std::string_view name, file.get_or<std::string_view>("general.name", ""));
  spec.name = name;
  QUERN_TRY(const int n_blocks, bounded(file, "block_count", p.n_layers, 1, kMaxLayers));
  const int64_t n_extra = std::max<int64_t>(p.n_next_token_blocks, 0);
  QUERN_TRY(spec.n_next_token_blocks, bounded(file, "nextn_predict_layers", n_extra, 0, n_blocks - 1));
  const int n_layers = n_blocks - spec.n_next_token_blocks;
  QUERN_TRY(spec.n_dim, bounded(file, "embedding_length", p.n_dim, 1, kMaxWidth));
  QUERN_TRY(spec.n_ctx_train, bounded(file, "context_length", p.n_ctx_train, 1, INT32_MAX));
  if (!(p.norm_eps >= 0 && p.norm_eps < 1)) return bad(file, "attention.layer_norm_rms_epsilon is not in [0, 1)");
  spec.norm_eps = static_cast<float>(p.norm_eps);
  if (!p.causal.value_or(true))
    return Error{Status::unsupported,
                 file.path() + ": attention.causal is false, and attention to later tokens is not supported"};
  constexpr auto kLastPooling = static_cast<int64_t>(Pooling::rank);
  QUERN_TRY(const int pooling, bounded(file, "pooling_type", p.pooling, -1, kLastPooling));
  spec.pooling = static_cast<Pooling>(pooling);
  int64_t n_vocab = p.n_vocab;
  if (const file::Tensor* embd = file.find_tensor("token_embd.weight")) n_vocab = static_cast<int64_t>(embd->shape[1]);
  QUERN_TRY(spec.n_vocab, bounded(file, "vocab_size", n_vocab, 1, kMaxVocab));
  if (arch.embed_scale == EmbedScale::sqrt_dim) spec.embed_scale = std::sqrt(static_cast<float>(spec.n_dim));
  spec.logit_softcap = static_cast<float>(p.logit_softcap >= 0 ? p.logit_softcap : arch.default_logit_softcap);
  for (int i = 0; i < n_layers; ++i) {
    QUERN_TRY(LayerSpec layer, make_layer(file, arch, p, static_cast<size_t>(i)));
    spec.layers.push_back(layer);
  }
  return spec;
}

}  // namespace quern::model
