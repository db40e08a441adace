// What the reference matmuls share: activation rows in row form, one output's dot, and how a gate meets its partner.
#pragma once

#include <vector>

#include "kernels/ref/ref.h"

namespace quern::kernels::ref {

class XRows {
 public:
  explicit XRows(const MatmulArgs& a);
  // Row `row` of a.x as planes in row form; valid until the next call.
  const std::byte* row(int64_t row);
  // A row of weights as in the file times such a row; of two planes, the sum of both dots.
  float dot(const std::byte* weights, const std::byte* x) const;

 private:
  const MatmulArgs& a_;
  ActivationFormat act_;
  int n_planes_;
  format::ActivationLayout layout_;
  std::vector<std::byte> planes_;
};

inline float with_bias(float value, const float* bias, int64_t o) {
  return bias != nullptr ? value + bias[o] : value;
}

// act(gate) * up
float gated(ActFn fn, float gate, float up);

}  // namespace quern::kernels::ref
