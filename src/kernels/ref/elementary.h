// The elementary functions of the numeric contract for scalar code: one lane of lattice/math.h's generic tier.
#pragma once

namespace quern::kernels::ref {

// A score below any real one, finite so that differences of it stay numbers.
inline constexpr float kNoScore = -1e30F;

float exp_f32(float x);
float tanh_f32(float x);
float silu(float x);
float gelu_tanh(float x);
float gelu_quick(float x);
float sigmoid(float x);

}  // namespace quern::kernels::ref
