// half: scalar conversions between f32 and the 16-bit floats, and the 8-bit power-of-two scale of MXFP4.
// Integer code and exact float steps only: the same bits on every machine, whatever its flush-to-zero setting, and the
// same bits as F16C and AArch64 fcvt. Converting whole rows fast is the kernels' business.
#pragma once

#include <bit>
#include <cstdint>

namespace quern::format {

// Exact. A signalling NaN becomes quiet, its payload kept, as the hardware conversions do.
constexpr float f16_to_f32(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, a normal f32
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Round to nearest, ties to even; overflow gives infinity; a NaN stays a (quiet) NaN with its top payload bits.
constexpr uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520: half way between the largest f16 and 2^16, and what lies above
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14: a normal f16; a carry out of the mantissa raises the exponent
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  } else {  // 0.5 has steps of 2^-24, those of f16 denormals: the addition does the rounding
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  }
  return static_cast<uint16_t>(sign | half);
}

// Exact: bf16 is the upper half of an f32. NaN bits are kept as they are.
constexpr float bf16_to_f32(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

// Round to nearest, ties to even, denormals included (the AVX-512 conversion instruction flushes those to zero).
constexpr uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Half the value of an E8M0 scale: 2^(exponent - 128). MXFP4 stores twice its e2m1 values as integers, so its block
// scale is halved; exponents 0 and 1 give f32 denormals. There is no NaN: 255 gives 2^127.
constexpr float e8m0_half_to_f32(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

}  // namespace quern::format
