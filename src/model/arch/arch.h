// Arch: an architecture as rows. Its metadata keys, its tensors, and the few enums that no key states.
// An arch file starts from std_decoder() and states differences; it has no loops and no maths.
#pragma once

#include <optional>
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
  int64_t n_layers = -1;  // the next-token blocks at the end included
  int64_t n_next_token_blocks = -1;
  int64_t n_ctx_train = -1, n_dim = -1, n_vocab = -1, pooling = -1;
  PerLayer n_heads, n_kv_heads, n_ff;
  int64_t key_length = -1, value_length = -1;
  double norm_eps = -1;
  // Rotary embedding
  int64_t rope_dims = -1, rope_original_ctx = -1;
  double rope_base = -1, rope_base_swa = -1, rope_scale_factor = -1, rope_attn_factor = -1, rope_scale_linear = -1;
  std::string rope_scaling;  // "", "none", "linear", "yarn", "longrope"
  double yarn_beta_fast = -1, yarn_beta_slow = -1, yarn_log_multiplier = -1;
  // Attention
  int64_t window = -1;
  std::optional<bool> causal;
  PerLayer window_pattern;  // per layer: windowed or not; one number n: every n-th layer is not
  double attn_softcap = -1, logit_softcap = -1, attn_scale = -1, attn_temperature = -1;
  // Experts
  int64_t n_experts = -1, n_groups = -1, n_groups_used = -1, n_shared = -1, n_ff_shared = -1;
  int64_t dense_lead = -1, expert_layer_step = -1, gating = -1;
  PerLayer n_experts_used, n_ff_expert;
  std::optional<bool> renormalize;
  double expert_scale = -1;
};

using ParamField = std::variant<int64_t Params::*, double Params::*, PerLayer Params::*, std::string Params::*,
                                std::optional<bool> Params::*>;

enum class Need : uint8_t { required, optional };

struct KeyRow {
  std::string_view suffix;  // after "<arch>."
  ParamField field;
  Need need;
};

// Named dimensions of tensors; the loader knows their numbers per layer.
enum class Dim : uint8_t {
  one,
  dim,
  vocab,
  q_rows,
  kv_rows,
  heads,
  head_dim,
  ff,
  half_rope,
  experts,
  ff_expert,
  ff_shared,
};

// The layers that have a tensor at all.
enum class Layers : uint8_t { all, dense, experts, shared_expert };

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
  Layers where = Layers::all;
  Dim depth = Dim::one;       // matrices stacked
  bool stacked_bias = false;  // a vector per row: used as f32, as vectors are
};

// Which layers see only a window.
enum class WindowPattern : uint8_t {
  none,           // no layer
  all,            // every layer, when the file states a window
  even,           // layers 0, 2, 4, ...
  but_every_6th,  // all but layers 5, 11, 17, ...
};

enum class EmbedScale : uint8_t { none, sqrt_dim };

// How wide one expert, and how wide the shared one, is where no key says so.
enum class ExpertWidth : uint8_t { ff, ff_over_used };
enum class SharedWidth : uint8_t { none, ff, ff_expert };

struct ExpertRules {
  Gating gating = Gating::softmax;  // gating and renormalize: where no key says otherwise
  bool renormalize = false;
  bool weigh_input = false;
  ExpertWidth width = ExpertWidth::ff_over_used;
  SharedWidth shared = SharedWidth::none;
};

// Attention of two kinds of layers: each `every`-th has no rotation and scales its queries by position, the others see
// only their chunk and normalize rotated queries and keys without weights.
struct ChunkedAttention {
  int every = 0;  // 0: not so
  int default_chunk = 0;
  AttnTemperature temperature;
  int no_head_norm_at_experts = -1;  // in the variant of so many experts nothing is normalized
};

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
  bool yarn_rounded = true;           // YaRN mixes from whole pair to whole pair
  bool scale_windowed_rope = false;   // rope scaling counts also in layers with a base of their own
  double default_attn_softcap = 0, default_logit_softcap = 0;
  bool requires_experts = false;
  ExpertRules experts;
  ChunkedAttention chunked;
};

// The rows that decoder-only transformers share: pre-norm, rotary attention with grouped heads, gated feed-forward.
Arch std_decoder(std::string_view name);

// Changing rows of a base. A row replaces one of the same role, or of the same key.
void remove_tensor(Arch& arch, Role role);
void add_tensors(Arch& arch, std::vector<TensorRow> rows);
void add_keys(Arch& arch, const std::vector<KeyRow>& rows);
// Rows of experts beside those of the dense feed-forward: each layer has one or the other. need: whether a file may
// leave its experts out and be dense.
void add_experts(Arch& arch, Need need);
// Rows of a shared expert, in the layers that have experts and a width for it.
void add_shared_expert(Arch& arch);

// The architecture of that name, or null.
const Arch* find_arch(std::string_view name);

}  // namespace quern::model
