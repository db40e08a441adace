// phi3: queries, keys and values in one tensor, gate and up in another; LongRoPE factors chosen by the context in use.
#include "model/arch/arch.h"

namespace quern::model {

Arch phi3();

Arch phi3() {
  using enum Role;
  const std::vector<Dim> qkv = {Dim::q_rows, Dim::kv_rows, Dim::kv_rows};
  const std::vector<Dim> gate_up = {Dim::ff, Dim::ff};
  Arch arch = std_decoder("phi3");
  arch.windows = WindowPattern::all;
  add_keys(arch, {{"attention.sliding_window", &Params::window, Need::optional}});
  add_tensors(arch, {
                        {attn_q, "blk.{}.attn_qkv.weight", Dim::dim, Dim::q_rows, Need::required, qkv, 0},
                        {attn_k, "blk.{}.attn_qkv.weight", Dim::dim, Dim::kv_rows, Need::required, qkv, 1},
                        {attn_v, "blk.{}.attn_qkv.weight", Dim::dim, Dim::kv_rows, Need::required, qkv, 2},
                        {ffn_gate, "blk.{}.ffn_up.weight", Dim::dim, Dim::ff, Need::required, gate_up, 0},
                        {ffn_up, "blk.{}.ffn_up.weight", Dim::dim, Dim::ff, Need::required, gate_up, 1},
                        {rope_factors_long, "rope_factors_long.weight", Dim::half_rope, Dim::one, Need::optional},
                        {rope_factors_short, "rope_factors_short.weight", Dim::half_rope, Dim::one, Need::optional},
                    });
  return arch;
}

}  // namespace quern::model
