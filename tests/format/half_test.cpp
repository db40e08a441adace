// 16-bit floats: against numpy and the `gguf` package (generated files), and against this processor's own conversions.
#include "format/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testdata.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern::format {
namespace {

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}
bool f16_is_nan(uint16_t half) {
  return (half & 0x7fff) > 0x7c00;
}

// numpy leaves signalling NaNs alone in software and quiets them in hardware; ours are always quiet.
TEST(Half, AllF16AgainstNumpy) {
  const std::vector<float> expected = read_testdata<float>("F16.f32");
  ASSERT_EQ(expected.size(), 65536u);
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const uint32_t want = bits_of(expected[i]) | (f16_is_nan(half) ? 0x400000u : 0u);
    ASSERT_EQ(bits_of(f16_to_f32(half)), want) << "f16 bits " << i;
    ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half | (f16_is_nan(half) ? 0x200 : 0)) << "round trip of " << i;
  }
}

TEST(Half, AllBf16AgainstThePackage) {
  const std::vector<uint32_t> expected = read_testdata<uint32_t>("BF16.f32");
  ASSERT_EQ(expected.size(), 65536u);
  for (uint32_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(bits_of(bf16_to_f32(static_cast<uint16_t>(i))), expected[i]) << "bf16 bits " << i;
  }
}

TEST(Half, NarrowingAgainstNumpyAndThePackage) {
  const std::vector<float> x = read_testdata<float>("half_in.f32");
  const std::vector<uint16_t> f16 = read_testdata<uint16_t>("half_f16.bin");
  const std::vector<uint16_t> bf16 = read_testdata<uint16_t>("half_bf16.bin");
  ASSERT_GT(x.size(), 500000u);
  ASSERT_EQ(x.size(), f16.size());
  ASSERT_EQ(x.size(), bf16.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      ASSERT_TRUE(f16_is_nan(f32_to_f16(x[i])) && (f32_to_f16(x[i]) & 0x200) != 0) << std::hex << bits_of(x[i]);
    } else {
      ASSERT_EQ(f32_to_f16(x[i]), f16[i]) << std::hex << bits_of(x[i]);
    }
    ASSERT_EQ(f32_to_bf16(x[i]), bf16[i]) << std::hex << bits_of(x[i]);
  }
}

TEST(Half, Landmarks) {
  static_assert(f32_to_f16(1.0f) == 0x3c00 && f16_to_f32(0xc000) == -2.0f);  // usable in constant expressions
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // a tie between zero and the smallest denormal
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);  // NaN, not infinity
}

TEST(Half, E8m0) {
  for (int e = 0; e < 256; ++e) EXPECT_EQ(e8m0_half_to_f32(static_cast<uint8_t>(e)), std::ldexp(1.0f, e - 128)) << e;
}

// The processor's conversions of one value.
#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t native_f32_to_f16(float value) {
  return static_cast<uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT), 0));
}
__attribute__((target("f16c"))) float native_f16_to_f32(uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}
// Every processor with AVX2 has F16C, which not all compilers can ask for.
bool have_native() {
  return __builtin_cpu_supports("avx2") != 0;
}
#elif defined(__aarch64__)
uint16_t native_f32_to_f16(float value) {
  return std::bit_cast<uint16_t>(static_cast<__fp16>(value));
}
float native_f16_to_f32(uint16_t half) {
  return static_cast<float>(std::bit_cast<__fp16>(half));
}
bool have_native() {
  return true;
}
#endif

TEST(Half, SameBitsAsTheProcessor) {
  if (!have_native()) GTEST_SKIP() << "SKIPPED: this processor has no AVX2, so perhaps no F16C";
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    ASSERT_EQ(bits_of(f16_to_f32(half)), bits_of(native_f16_to_f32(half))) << i;
  }
  for (uint64_t bits = 0; bits < 1ull << 32; bits += 3571) {  // a prime: all exponents, both signs, NaNs
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(f32_to_f16(value), native_f32_to_f16(value)) << std::hex << bits;
  }
  for (const float value : read_testdata<float>("half_in.f32")) {
    ASSERT_EQ(f32_to_f16(value), native_f32_to_f16(value)) << std::hex << bits_of(value);
  }
}

}  // namespace
}  // namespace quern::format
