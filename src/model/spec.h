// Spec: what the network is, as numbers and enums, layer by layer. Nothing here says how it is computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::model {

enum class RopeKind : uint8_t {
  none,
  norm,  // rotates neighbours: (x[2i], x[2i+1])
  neox,  // rotates halves: (x[i], x[i + n/2])
};

enum class Activation : uint8_t { silu, gelu_tanh };

// Rotary position embedding of one layer. Two layers with equal RopeSpecs share one table.
struct RopeSpec {
  RopeKind kind = RopeKind::none;
  int n_dims = 0;  // rotated dimensions of a head, even
  double base = 10000.0;
  double scale = 1.0;               // multiplies the angle: 1 / linear scaling factor
  float magnitude = 1.0F;           // multiplies cos and sin (YaRN, LongRoPE)
  const float* divisors = nullptr;  // [n_dims / 2] frequency divisors of the file, or null
  bool operator==(const RopeSpec&) const = default;
};

struct LayerSpec {
  // Attention
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int window = 0;             // a token sees itself and window - 1 before it; 0: all before it
  float attn_scale = 1.0F;    // multiplies q.k
  float attn_softcap = 0.0F;  // 0: none
  RopeSpec rope;
  // Feed-forward
  int n_ff = 0;
  Activation activation = Activation::silu;
  bool operator==(const LayerSpec&) const = default;
};

struct Spec {
  std::string arch;
  std::string name;
  int n_vocab = 0;
  int n_dim = 0;
  int n_ctx_train = 0;
  float norm_eps = 1e-5F;
  float embed_scale = 1.0F;    // multiplies the token embedding
  float logit_softcap = 0.0F;  // 0: none
  std::vector<LayerSpec> layers;
};

}  // namespace quern::model
