// Scalar quantizers: bounded error per format, no worse than the `gguf` package's own, and calm on odd input.
#include "format/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "testdata.h"

namespace quern::format {
namespace {

// Root mean square of the error over that of the values.
double relative_error(const std::vector<float>& x, const std::vector<float>& back) {
  double error = 0.0, power = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - back[i]) * (double{x[i]} - back[i]);
    power += double{x[i]} * x[i];
  }
  return std::sqrt(error / power);
}

std::vector<float> dequantize(Format format, const std::vector<std::byte>& packed, size_t n) {
  std::vector<float> out(n);
  dequantize_row(format, packed.data(), out.data(), n);
  return out;
}

std::vector<std::byte> quantize(Format format, const std::vector<float>& x) {
  std::vector<std::byte> packed(row_bytes(format, x.size()));
  quantize_row(format, x.data(), x.size(), packed.data());
  return packed;
}

class Quantize : public testing::TestWithParam<Format> {
 protected:
  std::string name() const { return format_info(GetParam()).name; }
};
INSTANTIATE_TEST_SUITE_P(All, Quantize, testing::ValuesIn(formats_from(Format::f32)),
                         [](const auto& param) { return std::string(format_info(param.param).name); });

// Relative error on weight-like values, in the order of enum class Format: measured, plus about a tenth.
constexpr double kMaxError[kFormatCount] = {0,     0.0002, 0.0016, 0.0045, 0.071,  0.063,  0.0345, 0.032,
                                            0.245, 0.134,  0.0645, 0.033,  0.0148, 0.0705, 0.071,  0.11};

TEST_P(Quantize, RoundTripErrorIsBounded) {
  const std::vector<float> x = read_testdata<float>("quantize_in.f32");
  ASSERT_FALSE(x.empty());
  const double error = relative_error(x, dequantize(GetParam(), quantize(GetParam(), x), x.size()));
  const double bound = kMaxError[static_cast<int>(GetParam())];
  EXPECT_LE(error, bound);
  EXPECT_GE(error, bound * 0.8) << "the bound has become too loose to catch anything";
}

TEST_P(Quantize, NoWorseThanThePackage) {
  const std::vector<std::string> offered = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"};
  if (std::find(offered.begin(), offered.end(), name()) == offered.end()) return;  // it has no quantizer for the others
  const std::vector<float> x = read_testdata<float>("quantize_in.f32");
  const std::vector<std::byte> theirs = read_testdata<std::byte>("quantize_" + name() + ".bin");
  ASSERT_EQ(theirs.size(), row_bytes(GetParam(), x.size()));
  EXPECT_LE(relative_error(x, dequantize(GetParam(), quantize(GetParam(), x), x.size())),
            relative_error(x, dequantize(GetParam(), theirs, x.size())));
}

// Quantizing what a format can hold exactly changes nothing worth mentioning.
TEST_P(Quantize, ZerosAndConstantsSurvive) {
  const size_t n = 512;
  for (float value : {0.0f, -0.0f, 0.5f, -0.5f}) {
    const std::vector<float> back = dequantize(GetParam(), quantize(GetParam(), std::vector<float>(n, value)), n);
    for (float w : back) ASSERT_NEAR(w, value, std::fabs(value) * 0.01) << name() << " " << value;
  }
}

// No undefined behaviour and no end of the process on input that no weight should have (run under the sanitizers).
TEST_P(Quantize, OddInput) {
  const float big = std::numeric_limits<float>::max();
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float odd : {big, -big, infinity, -infinity, nan, 1e-45f, 1e-38f}) {
    std::vector<float> x(256, odd);
    EXPECT_EQ(quantize(GetParam(), x).size(), row_bytes(GetParam(), 256));
    std::fill(x.begin() + 7, x.end(), 0.25f);
    EXPECT_EQ(quantize(GetParam(), x).size(), row_bytes(GetParam(), 256));
  }
}

}  // namespace
}  // namespace quern::format
