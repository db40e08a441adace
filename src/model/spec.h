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

// Of a gated feed-forward: what happens to the gate, and then to its product with up.
enum class Activation : uint8_t {
  silu,       // silu(gate) * up
  gelu_tanh,  // gelu(gate) * up
  // g * sigmoid(1.702 g) * (u + 1), where g = min(gate, 7) and u = up clamped to [-7, 7] (gpt-oss; biases are added
  // before)
  swiglu_oai,
};

// Rotary position embedding of one layer. Two layers with equal RopeSpecs share one table.
struct RopeSpec {
  RopeKind kind = RopeKind::none;
  int n_dims = 0;  // rotated dimensions of a head, even
  double base = 10000.0;
  double scale = 1.0;               // multiplies the angle: 1 / linear scaling factor
  float magnitude = 1.0F;           // multiplies cos and sin (YaRN, LongRoPE)
  const float* divisors = nullptr;  // [n_dims / 2] frequency divisors: the file's, YaRN's or both, or null
  bool operator==(const RopeSpec&) const = default;
};

// A query's factor by its position: 1 + scale * ln(1 + floor((position + offset) / period)); no period: 1. It
// multiplies the query after rotation, whose absolute position counts, not its distance to a key (Llama 4, Mistral 3).
struct AttnTemperature {
  double scale = 0.0;
  int period = 0;  // tokens; 0: off
  int offset = 0;  // tokens
  bool operator==(const AttnTemperature&) const = default;
};

// How a router's logits become scores. Without a bias for the choice and without groups, all of them choose as the
// logits themselves do.
enum class Gating : uint8_t {
  softmax,         // over all experts
  sigmoid,         // each expert by itself
  softmax_chosen,  // logits are the scores; weights are the softmax over the chosen ones only
};

// A layer's experts and how a token finds its own:
//   logits = ffn_gate_inp x (+ ffn_gate_inp_bias);  scores by `gating`;  choice = scores (+ exp_probs_b)
//   groups, where there are: experts in file order in n_groups equal runs; a run counts as the sum of its two largest
//     choices; experts outside the n_groups_used largest runs are out
//   chosen: the n_used largest choices; weights: their scores (softmax_chosen: softmax over them), divided by
//     max(sum, 2^-14) where `renormalize`, times `scale`
//   y = sum over chosen e, largest choice first, of weight_e * expert_e(x), or of expert_e(weight_e * x) where
//   `weigh_input`
// A shared expert (n_ff_shared > 0) is a feed-forward of its own on x, times sigmoid(ffn_gate_inp_shexp . x) where that
// weight is there, added to y. All activations are the layer's.
struct ExpertSpec {
  int n_experts = 0;  // 0: a dense layer, and everything below is at its default
  int n_used = 0;     // 1 to n_experts
  int n_ff = 0;       // width of one expert
  Gating gating = Gating::softmax;
  bool renormalize = false;
  float scale = 1.0F;
  int n_groups = 0;       // 0: none; else at least 2, divides n_experts into runs of at least 2
  int n_groups_used = 0;  // 1 to n_groups; their experts are at least n_used
  bool weigh_input = false;
  int n_ff_shared = 0;  // width of the shared expert; 0: none
  bool operator==(const ExpertSpec&) const = default;
};

struct LayerSpec {
  // Attention
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int window = 0;             // a token sees itself and window - 1 before it; 0: all before it
  int chunk = 0;              // a token sees only its own run of so many positions, counted from 0; 0: no such bound
  float attn_scale = 1.0F;    // multiplies q.k
  float attn_softcap = 0.0F;  // 0: none
  RopeSpec rope;
  AttnTemperature temperature;
  // Feed-forward: dense, or experts where there are any
  int n_ff = 0;  // of the dense one; 0 in a layer of experts
  Activation activation = Activation::silu;
  ExpertSpec experts;
  bool operator==(const LayerSpec&) const = default;
};

// How the normed states of a text's tokens become one vector, by GGUF's numbers.
enum class Pooling : int8_t {
  unstated = -1,
  none,  // they do not: a vector for each token
  mean,
  cls,   // the first token's
  last,  // the last token's
  rank,  // a score, by tensors of its own: a reranker
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
  Pooling pooling = Pooling::unstated;
  int n_next_token_blocks = 0;  // blocks of the file after these, which predict further tokens: not in `layers`
};

}  // namespace quern::model
