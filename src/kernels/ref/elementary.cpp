#include "kernels/ref/elementary.h"

#define QUERN_ISA generic
#include "lattice/lattice.h"
#include "lattice/math.h"

namespace quern::kernels::ref {

using Lanes = quern::lattice::generic::lattice<float, 4>;

float exp_f32(float x) {
  return exp(Lanes::broadcast(x)).lane(0);
}
float tanh_f32(float x) {
  return tanh(Lanes::broadcast(x)).lane(0);
}
float silu(float x) {
  return quern::lattice::generic::silu(Lanes::broadcast(x)).lane(0);
}
float gelu_quick(float x) {
  return quern::lattice::generic::gelu_quick(Lanes::broadcast(x)).lane(0);
}
float sigmoid(float x) {
  return quern::lattice::generic::sigmoid(Lanes::broadcast(x)).lane(0);
}
float gelu_tanh(float x) {
  return gelu(Lanes::broadcast(x)).lane(0);
}

}  // namespace quern::kernels::ref
