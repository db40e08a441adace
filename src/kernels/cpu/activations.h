// How a gate meets its partner (ActFn), 16 values at a time: the one place where vector kernels compute it.
#pragma once

#include "kernels/cpu/tier.h"

namespace quern::kernels::QUERN_ISA {

template <ActFn kFn>
QUERN_FN f32x16 gated(const f32x16& gate, const f32x16& up) {
  if constexpr (kFn == ActFn::silu) {
    return silu(gate) * up;
  } else if constexpr (kFn == ActFn::gelu_tanh) {
    return gelu(gate) * up;
  } else {
    const f32x16 limit = f32x16::broadcast(kSwigluLimit);
    const f32x16 u = min(max(up, -limit), limit);
    return gelu_quick(min(gate, limit)) * (u + f32x16::broadcast(1.0F));
  }
}

// Calls each with the function as a compile-time constant: each(Fn<ActFn::silu>()).
template <ActFn kFn>
struct Fn {
  static constexpr ActFn kValue = kFn;
};
template <class Each>
QUERN_FN void with_fn(ActFn fn, const Each& each) {
  switch (fn) {
    case ActFn::silu:
      return each(Fn<ActFn::silu>());
    case ActFn::gelu_tanh:
      return each(Fn<ActFn::gelu_tanh>());
    case ActFn::swiglu_oai:
      return each(Fn<ActFn::swiglu_oai>());
  }
}

}  // namespace quern::kernels::QUERN_ISA
