// Arch: an architecture as rows. Its metadata keys, its tensors, and the few enums that no key states.
// An arch file starts from std_decoder() and states differences; it has no loops and no maths.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/roles.h"
#include "model/spec.h"

namespace quern::model {

// A number per layer: files give one value for all layers, or an array.
struct PerLayer {
  std::vector<int64_t> values;
  bool set() const { return !values.empty(); }
  int64_t at(size_t layer) const { return values.size() == 1 ? values[0] : values.at(layer); }
};

// Everything the keys of any architecture can fill in. Negative or unset means the file did not say.
struct Params {
  int64_t n_layers = -1, n_ctx_train = -1, n_dim = -1, n_vocab = -1;
  PerLayer n_heads, n_kv_heads, n_ff;
  int64_t key_length = -1, value_length = -1;
  double norm_eps = -1;
  // Rotary embedding
  int64_t rope_dims = -1, rope_original_ctx = -1;
  double rope_base = -1, rope_base_swa = -1, rope_scale_factor = -1, rope_attn_factor = -1, rope_scale_linear = -1;
  std::string rope_scaling;  // "", "none", "linear", "yarn", "longrope"
  // Attention
  int64_t window = -1;
  PerLayer window_pattern;  // per layer: windowed or not; one number n: every n-th layer is not
  double attn_softcap = -1, logit_softcap = -1, attn_scale = -1;
};

using ParamField = std::variant<int64_t Params::*, double Params::*, PerLayer Params::*, std::string Params::*>;

enum class Need : uint8_t { required, optional };

struct KeyRow {
  std::string_view suffix;  // after "<arch>."
  ParamField field;
  Need need;
};

// Named dimensions of tensors; the loader knows their numbers per layer.
enum class Dim : uint8_t { one, dim, vocab, q_rows, kv_rows, head_dim, ff, half_rope };

// A tensor of the file. "{}" in the name is the layer number; a name without it is global. Where parts is not empty the
// tensor is a stack of row ranges and `role` is the range number `part` of it.
struct TensorRow {
  Role role;
  std::string_view name;
  Dim cols;
  Dim rows;  // Dim::one for a vector of `cols` numbers
  Need need;
  std::vector<Dim> parts = {};
  int part = 0;
};

// Which layers see only a window.
enum class WindowPattern : uint8_t {
  none,           // no layer
  all,            // every layer, when the file states a window
  even,           // layers 0, 2, 4, ...
  but_every_6th,  // all but layers 5, 11, 17, ...
};

enum class EmbedScale : uint8_t { none, sqrt_dim };
struct Arch {
  std::string_view name;
  std::vector<KeyRow> keys;
  std::vector<TensorRow> tensors;
  RopeKind rope = RopeKind::neox;
  Activation activation = Activation::silu;
  WindowPattern windows = WindowPattern::none;
  EmbedScale embed_scale = EmbedScale::none;
  int dim_per_head_scale_at_layers = -1;  // scores scale by 1/sqrt(n_dim / n_heads) in the variant of so many layers
  int default_window = 0;
  double default_rope_base_swa = -1;  // of windowed layers where no key says; negative: as the other layers
  double default_attn_softcap = 0, default_logit_softcap = 0;
};

// The rows that decoder-only transformers share: pre-norm, rotary attention with grouped heads, gated feed-forward.
Arch std_decoder(std::string_view name);

// Changing rows of a base.
void remove_tensor(Arch& arch, Role role);
void add_tensors(Arch& arch, std::vector<TensorRow> rows);
void add_keys(Arch& arch, const std::vector<KeyRow>& rows);

// The architecture of that name, or null.
const Arch* find_arch(std::string_view name);

}  // namespace quern::model
