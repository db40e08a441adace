// Codecs: bit for bit against the `gguf` package, against the formula in exact arithmetic, and packing as the inverse.
#include "format/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "format/blocks.h"
#include "testdata.h"

namespace quern::format {
namespace {

class Codec : public testing::TestWithParam<Format> {
 protected:
  Format format() const { return GetParam(); }
  const FormatInfo& info() const { return format_info(GetParam()); }
  std::vector<std::byte> packed() const { return read_testdata<std::byte>(std::string(info().name) + ".bin"); }

  std::vector<float> dequantize(const std::vector<std::byte>& bytes) const {
    std::vector<float> out(bytes.size() / info().block_bytes * info().block_weights);
    dequantize_row(format(), bytes.data(), out.data(), out.size());
    return out;
  }
};
class QuantizedCodec : public Codec {};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Bits equal, any NaN equal to any NaN: which payload and sign survive an addition of NaNs is the machine's choice.
bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (std::isnan(x) && std::isnan(y));
         });
}

TEST_P(Codec, EqualsThePackageBitForBit) {
  std::vector<std::byte> bytes;
  std::vector<float> expected;
  if (format() == Format::f32) {
    expected = {1.0f, -0.0f, 1e-42f, 3.4e38f, std::numeric_limits<float>::infinity()};
    bytes.resize(expected.size() * sizeof(float));
    std::memcpy(bytes.data(), expected.data(), bytes.size());
  } else {
    bytes = packed();
    expected = read_testdata<float>(std::string(info().name) + ".f32");
  }
  if (format() == Format::f16) {
    EXPECT_TRUE(same_values(dequantize(bytes), expected));  // all 65536, NaNs among them
  } else {
    EXPECT_TRUE(same_bits(dequantize(bytes), expected));
  }
  EXPECT_GE(expected.size(), 5u);

  // Negative control: one flipped bit of the input is a mismatch.
  bytes[bytes.size() / 2] ^= std::byte{1};
  EXPECT_FALSE(same_values(dequantize(bytes), expected));
}

// No bit of a block is ignored: where nothing multiplies by zero or drowns in rounding, each one changes some weight.
TEST_P(QuantizedCodec, EveryBitMatters) {
  std::vector<std::byte> block(packed());
  block.resize(info().block_bytes);
  BlockCodes codes;
  unpack_block(format(), block.data(), &codes);
  codes.d = 0.5f;
  codes.dmin = 0.25f;
  for (int8_t& scale : codes.sub_scale) scale = static_cast<int8_t>(scale == 0 ? 1 : scale);
  pack_block(format(), codes, block.data());
  const std::vector<float> before = dequantize(block);
  for (size_t bit = 0; bit < 8 * block.size(); ++bit) {
    std::vector<std::byte> flipped = block;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    // MXFP4 alone has two codes of one value: zero and minus zero differ in the top bit of a nibble.
    const bool silent = format() == Format::mxfp4 && bit >= 8 && bit % 4 == 3 && same_bits(dequantize(flipped), before);
    EXPECT_TRUE(silent || !same_values(dequantize(flipped), before)) << info().name << " ignores bit " << bit;
  }
}

TEST_P(QuantizedCodec, NonFiniteScales) {
  if (format() == Format::mxfp4) return;  // its scale is always finite
  const std::string name = std::string(info().name) + "_nonfinite";
  const std::vector<float> expected = read_testdata<float>(name + ".f32");
  const std::vector<float> got = dequantize(read_testdata<std::byte>(name + ".bin"));
  EXPECT_TRUE(same_values(got, expected));
  EXPECT_TRUE(std::any_of(got.begin(), got.end(), [](float x) { return std::isnan(x); }));
  EXPECT_TRUE(std::any_of(got.begin(), got.end(), [](float x) { return std::isinf(x); }));
}

// codec.h's second rule: a weight is the real value of the formula, rounded once. In double the formula is exact.
TEST_P(QuantizedCodec, WeightsAreTheFormulaRoundedOnce) {
  const CodeTraits& traits = code_traits(format());
  const std::vector<std::byte> bytes = packed();
  const std::vector<float> weights = dequantize(bytes);
  std::vector<float> exact(weights.size());
  BlockCodes codes;
  for (size_t b = 0; b * info().block_bytes < bytes.size(); ++b) {
    unpack_block(format(), bytes.data() + b * info().block_bytes, &codes);
    for (int i = 0; i < traits.weights; ++i) {
      const int j = i / traits.sub_width;
      const double value = double{codes.d} * codes.sub_scale[j] * codes.q[i] - double{codes.dmin} * codes.sub_min[j];
      exact[b * info().block_weights + static_cast<size_t>(i)] = static_cast<float>(value);
    }
  }
  EXPECT_TRUE(same_bits(weights, exact));
}

TEST_P(QuantizedCodec, CodesStayInTheirRanges) {
  const CodeTraits& traits = code_traits(format());
  const std::vector<std::byte> bytes = packed();
  int q_lo = 127, q_hi = -128, sub_lo = 127, sub_hi = -128, sub_min_hi = 0;
  BlockCodes codes;
  for (size_t at = 0; at < bytes.size(); at += info().block_bytes) {
    unpack_block(format(), bytes.data() + at, &codes);
    for (int i = 0; i < traits.weights; ++i) {
      q_lo = std::min<int>(q_lo, codes.q[i]);
      q_hi = std::max<int>(q_hi, codes.q[i]);
      if (traits.table != nullptr) {
        ASSERT_NE(std::find(traits.table, traits.table + 16, codes.q[i]), traits.table + 16);
      }
    }
    for (int j = 0; j < traits.weights / traits.sub_width; ++j) {
      sub_lo = std::min<int>(sub_lo, codes.sub_scale[j]);
      sub_hi = std::max<int>(sub_hi, codes.sub_scale[j]);
      sub_min_hi = std::max<int>(sub_min_hi, codes.sub_min[j]);
    }
  }
  // Not merely inside: random bytes reach both ends.
  EXPECT_EQ(q_lo, traits.q_lo);
  EXPECT_EQ(q_hi, traits.q_hi);
  EXPECT_EQ(sub_lo, traits.sub_lo);
  EXPECT_EQ(sub_hi, traits.sub_hi);
  EXPECT_EQ(sub_min_hi, traits.sub_min_hi);
}

TEST_P(QuantizedCodec, PackInvertsUnpack) {
  const std::vector<std::byte> bytes = packed();
  std::vector<std::byte> again(bytes.size());
  BlockCodes codes;
  for (size_t at = 0; at < bytes.size(); at += info().block_bytes) {
    unpack_block(format(), bytes.data() + at, &codes);
    pack_block(format(), codes, again.data() + at);
  }
  if (format() == Format::mxfp4) {
    EXPECT_NE(bytes, again);  // minus zeros became zeros, and nothing else changed:
    EXPECT_TRUE(same_bits(dequantize(bytes), dequantize(again)));
  } else {
    EXPECT_EQ(bytes, again);
  }
}

std::string format_name(const testing::TestParamInfo<Format>& param) {
  return format_info(param.param).name;
}
INSTANTIATE_TEST_SUITE_P(All, Codec, testing::ValuesIn(formats_from(Format::f32)), format_name);
INSTANTIATE_TEST_SUITE_P(All, QuantizedCodec, testing::ValuesIn(formats_from(Format::q8_0)), format_name);

}  // namespace
}  // namespace quern::format
