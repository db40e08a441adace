// The lists of types and formats, against the `gguf` package's table.
#include "format/format.h"

#include <gtest/gtest.h>

#include <sstream>

#include "format/blocks.h"
#include "format/codec.h"
#include "testdata.h"

namespace quern::format {
namespace {

TEST(Format, TypeTableEqualsThePackages) {
  const std::vector<char> text = read_testdata<char>("types.txt");
  std::istringstream lines(std::string(text.begin(), text.end()));
  uint32_t number, bytes, weights;
  std::string name;
  int n_types = 0;
  for (; lines >> number >> name >> bytes >> weights; ++n_types) {
    EXPECT_EQ(ggml_type_name(number), name);
    const std::optional<GgmlBlock> block = ggml_block(number);
    if (name == "Q8_1") {  // sized differently by ggml and the package
      EXPECT_FALSE(block.has_value());
      continue;
    }
    ASSERT_TRUE(block.has_value()) << name;
    EXPECT_EQ(block->block_bytes, bytes) << name;
    EXPECT_EQ(block->block_weights, weights) << name;
  }
  EXPECT_GE(n_types, 34);
}

TEST(Format, UnknownNumbers) {
  for (uint32_t number : {43u, 77u, 1u << 31, 0xffffffffu}) {
    EXPECT_FALSE(ggml_block(number).has_value());
    EXPECT_FALSE(format_from_ggml(number).has_value());
    EXPECT_EQ(ggml_type_name(number), "type " + std::to_string(number));
  }
  EXPECT_FALSE(format_from_ggml(16).has_value());
  EXPECT_EQ(ggml_type_name(16), "IQ2_XXS");
  EXPECT_EQ(ggml_type_name(31), "Q4_0_4_4");
  EXPECT_FALSE(ggml_block(31).has_value());
}

TEST(Format, InfosAgreeWithNumbersAndBlocks) {
  const size_t sizes[kFormatCount] = {4,
                                      2,
                                      2,
                                      sizeof(BlockQ8_0),
                                      sizeof(BlockQ4_0),
                                      sizeof(BlockQ4_1),
                                      sizeof(BlockQ5_0),
                                      sizeof(BlockQ5_1),
                                      sizeof(BlockQ2K),
                                      sizeof(BlockQ3K),
                                      sizeof(BlockQ4K),
                                      sizeof(BlockQ5K),
                                      sizeof(BlockQ6K),
                                      sizeof(BlockIq4Nl),
                                      sizeof(BlockIq4Xs),
                                      sizeof(BlockMxfp4)};
  const char* names[kFormatCount] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",   "Q5_0",   "Q5_1",
                                     "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
  for (Format format : formats_from(Format::f32)) {
    const FormatInfo& info = format_info(format);
    EXPECT_STREQ(info.name, names[static_cast<int>(format)]);
    EXPECT_EQ(info.block_bytes, sizes[static_cast<int>(format)]) << info.name;
    EXPECT_EQ(format_from_ggml(info.ggml_type), format);
    EXPECT_EQ(row_bytes(format, 3 * info.block_weights), 3 * info.block_bytes);
    EXPECT_EQ(has_codes(format), info.block_weights > 1) << info.name;
    if (has_codes(format)) {
      EXPECT_EQ(static_cast<uint32_t>(code_traits(format).weights), info.block_weights) << info.name;
    }
  }
}

}  // namespace
}  // namespace quern::format
