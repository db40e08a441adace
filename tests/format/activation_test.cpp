// Activation quantization: against numpy (generated files), and the properties that activation.h promises.
#include "format/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "testdata.h"

namespace quern::format {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Row {
  ActivationLayout layout;
  std::vector<std::byte> bytes;
  std::vector<int8_t> codes;
  std::vector<float> d;
  std::vector<int32_t> sums;
};

Row quantize(ActivationFormat format, const std::vector<float>& x) {
  Row row;
  row.layout = activation_layout(format, x.size());
  row.bytes.assign(row.layout.row_bytes, std::byte{0xaa});
  quantize_activation_row(format, x.data(), x.size(), row.bytes.data());
  row.codes.resize(x.size());
  row.d.resize(x.size() / row.layout.block);
  row.sums.resize(x.size() / row.layout.sum_width);
  std::memcpy(row.codes.data(), row.bytes.data(), row.codes.size());
  std::memcpy(row.d.data(), row.bytes.data() + row.layout.d_offset, row.d.size() * sizeof(float));
  std::memcpy(row.sums.data(), row.bytes.data() + row.layout.sums_offset, row.sums.size() * sizeof(int32_t));
  return row;
}

class Activation : public testing::TestWithParam<ActivationFormat> {
 protected:
  std::string file(const char* part) const {
    return std::string("activation_") + (GetParam() == ActivationFormat::q8_32 ? "q8_32." : "q8_256.") + part;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Activation, testing::Values(ActivationFormat::q8_32, ActivationFormat::q8_256));

TEST_P(Activation, EqualsNumpyBitForBit) {
  std::vector<float> x = read_testdata<float>("activation_in.f32");
  const std::vector<int8_t> codes = read_testdata<int8_t>(file("codes"));
  const std::vector<float> d = read_testdata<float>(file("d"));
  const std::vector<int32_t> sums = read_testdata<int32_t>(file("sums"));
  const Row row = quantize(GetParam(), x);
  EXPECT_EQ(row.codes, codes);
  EXPECT_EQ(row.sums, sums);
  ASSERT_EQ(row.d.size(), d.size());
  EXPECT_TRUE(std::any_of(d.begin(), d.end(), [](float v) { return std::isnan(v); }));
  for (size_t b = 0; b < d.size(); ++b) {
    EXPECT_TRUE(row.d[b] == d[b] || (std::isnan(row.d[b]) && std::isnan(d[b]))) << b;
  }
  x[1] *= 1.5f;  // negative control
  EXPECT_NE(quantize(GetParam(), x).codes, codes);
}

TEST_P(Activation, LayoutIsAlignedAndPaddingZero) {
  const size_t block = activation_layout(GetParam(), 0).block;
  for (size_t n : {size_t{0}, block, 3 * block, 5 * block, 4096 * block}) {
    const ActivationLayout layout = activation_layout(GetParam(), n);
    EXPECT_EQ(layout.d_offset % 64, 0u);
    EXPECT_EQ(layout.sums_offset % 64, 0u);
    EXPECT_EQ(layout.row_bytes % 64, 0u);
    EXPECT_GE(layout.d_offset, n);
    EXPECT_GE(layout.sums_offset, layout.d_offset + n / block * 4);
    EXPECT_GE(layout.row_bytes, layout.sums_offset + n / layout.sum_width * 4);
    EXPECT_LE(layout.row_bytes, n + n / block * 4 + n / layout.sum_width * 4 + 3 * 63);
  }
  const Row row = quantize(GetParam(), std::vector<float>(3 * block, 1.0f));
  for (size_t i = row.layout.d_offset + 3 * sizeof(float); i < row.layout.sums_offset; ++i) {
    ASSERT_EQ(row.bytes[i], std::byte{0});
  }
}

TEST_P(Activation, ErrorStaysWithinHalfAStep) {
  const std::vector<float> x = read_testdata<float>("quantize_in.f32");
  const Row row = quantize(GetParam(), x);
  std::vector<float> back(x.size());
  dequantize_activation_row(GetParam(), row.bytes.data(), x.size(), back.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(std::fabs(x[i] - back[i]), 0.501f * row.d[i / row.layout.block]);
  }
  for (const int8_t code : row.codes) ASSERT_GE(code, -127);
  EXPECT_EQ(*std::max_element(row.codes.begin(), row.codes.end()), 127);
}

TEST_P(Activation, NonFiniteInputPoisonsItsBlockAlone) {
  const size_t block = activation_layout(GetParam(), 0).block;
  for (float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    std::vector<float> x(3 * block, 1.0f);
    x[2 * block - 1] = bad;
    const Row row = quantize(GetParam(), x);
    EXPECT_EQ(row.d[0], 1.0f / 127.0f);
    EXPECT_TRUE(std::isnan(row.d[1]));
    EXPECT_EQ(row.d[2], 1.0f / 127.0f);
    EXPECT_TRUE(std::all_of(&row.codes[block], &row.codes[2 * block], [](int8_t q) { return q == 0; }));
    EXPECT_EQ(row.sums[block / row.layout.sum_width], 0);
  }
}

TEST_P(Activation, TinyAndHugeBlocks) {
  const size_t block = activation_layout(GetParam(), 0).block;
  const float below = std::nextafter(kTinyAmax, 0.0f);
  for (float value : {0.0f, -0.0f, 1e-45f, below}) {
    const Row row = quantize(GetParam(), std::vector<float>(block, value));
    EXPECT_EQ(row.d[0], 0.0f);
    EXPECT_EQ(row.sums[0], 0);
  }
  for (float value : {kTinyAmax, 1.0f, std::numeric_limits<float>::max()}) {
    const Row row = quantize(GetParam(), std::vector<float>(block, -value));
    EXPECT_EQ(row.d[0], value / 127.0f);
    EXPECT_EQ(row.codes[0], -127);
    EXPECT_EQ(row.sums[0], -127 * static_cast<int32_t>(row.layout.sum_width));
  }
}

// The no-clamp claim: for every amax pattern of a binade, the outermost value becomes 127 exactly.
// Each of the four steps puts the largest value on a code of its own number.
TEST_P(Activation, OutermostCodeIsOneOfTheFour) {
  const size_t block = activation_layout(GetParam(), 0).block;
  std::vector<float> x(block, 0.0f);
  for (float amax = 1.0f; amax < 2.0f; amax += 0x1p-13f + 0x1p-22f) {
    x[block / 2] = amax;
    const Row row = quantize(GetParam(), x);
    ASSERT_GE(row.codes[block / 2], 124) << amax;
    ASSERT_EQ(row.d[0], amax / static_cast<float>(row.codes[block / 2]));
  }
}

// The second plane holds what the first left over: together about 16 bits.
TEST(ActivationFormats, TwoPlanesAreTwoRowsAndFarCloser) {
  for (const ActivationFormat one : {ActivationFormat::q8_32, ActivationFormat::q8_256}) {
    const ActivationFormat two = two_planes(one);
    EXPECT_EQ(one_plane(two), one);
    EXPECT_EQ(plane_count(two), 2);
    const std::vector<float> x = read_testdata<float>("quantize_in.f32");
    const ActivationLayout layout = activation_layout(two, x.size());
    EXPECT_EQ(layout.row_bytes, 2 * activation_layout(one, x.size()).row_bytes);
    std::vector<std::byte> row(layout.row_bytes), first(layout.plane_bytes);
    quantize_activation_row(two, x.data(), x.size(), row.data());
    quantize_activation_row(one, x.data(), x.size(), first.data());
    EXPECT_EQ(std::memcmp(row.data(), first.data(), first.size()), 0);
    std::vector<float> near(x.size()), nearer(x.size());
    dequantize_activation_row(one, first.data(), x.size(), near.data());
    dequantize_activation_row(two, row.data(), x.size(), nearer.data());
    double error = 0, less = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += std::fabs(static_cast<double>(near[i]) - static_cast<double>(x[i]));
      less += std::fabs(static_cast<double>(nearer[i]) - static_cast<double>(x[i]));
    }
    EXPECT_LT(less * 50, error);
  }
  EXPECT_EQ(two_planes(ActivationFormat::f32), ActivationFormat::f32);
}

TEST(ActivationFormats, FormatsChooseTheirPartner) {
  EXPECT_EQ(activation_for(Format::bf16), ActivationFormat::f32);
  EXPECT_EQ(activation_for(Format::mxfp4), ActivationFormat::q8_32);
  EXPECT_EQ(activation_for(Format::iq4_nl), ActivationFormat::q8_32);
  EXPECT_EQ(activation_for(Format::q6_k), ActivationFormat::q8_256);
  EXPECT_EQ(activation_for(Format::iq4_xs), ActivationFormat::q8_256);
}

TEST(ActivationFormats, F32RowsAreCopied) {
  const std::vector<float> x = {1.0f, -0.0f, kInfinity};
  const ActivationLayout layout = activation_layout(ActivationFormat::f32, x.size());
  EXPECT_EQ(layout.row_bytes, 64u);
  std::vector<std::byte> row(layout.row_bytes);
  quantize_activation_row(ActivationFormat::f32, x.data(), x.size(), row.data());
  EXPECT_EQ(std::memcmp(row.data(), x.data(), x.size() * sizeof(float)), 0);
  std::vector<float> back(x.size());
  dequantize_activation_row(ActivationFormat::f32, row.data(), x.size(), back.data());
  EXPECT_EQ(back, x);
}

}  // namespace
}  // namespace quern::format
