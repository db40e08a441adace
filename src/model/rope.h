// Rotary embedding: from keys to a RopeSpec, and the divisors of its frequencies (factors of the file, YaRN).
#pragma once

#include "model/arch/arch.h"
#include "model/model.h"

namespace quern::model {

// Of one layer, whose head_dim and window are set. Divisors are left null, and under YaRN the scaling is still `scale`.
Result<RopeSpec> make_rope(const file::GgufFile& file, const Arch& arch, const Params& params, const LayerSpec& layer);

// The mix of interpolated and kept frequencies that YaRN (Peng et al. 2023) makes of a rotation.
struct Yarn {
  int n_dims = 0;                        // rotated dimensions
  double base = 10000, scale = 1;        // scale: 1 / factor, of the interpolated frequencies
  double beta_fast = 32, beta_slow = 1;  // turns within the original context at which mixing ends and begins
  int64_t original_ctx = 0;              // tokens
};

// divisors[i] of pair i, [n_dims / 2]: frequencies that turn more than beta_fast times keep their place (1), those that
// turn less than beta_slow times are scaled (1 / scale), those between are mixed linearly in i. times `factors`
// [n_dims / 2] where not null.
void yarn_divisors(const Yarn& yarn, const float* factors, float* divisors);
// What YaRN multiplies cos and sin by. log_multiplier: 0 where the file has none.
double yarn_magnitude(double factor, double log_multiplier);

// Gives each layer its divisors: the file's rope factors (LongRoPE's chosen by the context in use, n_ctx; 0: the
// trained one), YaRN's, or their product. Bound tensors are in place.
Result<void> attach_rope_divisors(Model& model, const Params& params, int n_ctx);

}  // namespace quern::model
