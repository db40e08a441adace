// The two lists behind format.h: every GGUF type number with its name and block, and the formats that Quern computes
// with. The layouts inside a block are in blocks.h, the arithmetic in codec.cpp.
#include "format/format.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace quern::format {
namespace {

struct GgmlType {
  uint32_t number;
  const char* name;
  uint32_t block_bytes;  // 0: unknown
  uint32_t block_weights;
};

// Ascending by number. Numbers 4, 5, 31-33 and 36-38 were used by old files and have been withdrawn; what they held is
// known, so a file that uses one can be named, but its tensors are not sized.
constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 4, 1},         {1, "F16", 2, 1},         {2, "Q4_0", 18, 32},      {3, "Q4_1", 20, 32},
    {4, "Q4_2", 0, 0},        {5, "Q4_3", 0, 0},        {6, "Q5_0", 22, 32},      {7, "Q5_1", 24, 32},
    {8, "Q8_0", 34, 32},      {9, "Q8_1", 0, 0},        {10, "Q2_K", 84, 256},    {11, "Q3_K", 110, 256},
    {12, "Q4_K", 144, 256},   {13, "Q5_K", 176, 256},   {14, "Q6_K", 210, 256},   {15, "Q8_K", 292, 256},
    {16, "IQ2_XXS", 66, 256}, {17, "IQ2_XS", 74, 256},  {18, "IQ3_XXS", 98, 256}, {19, "IQ1_S", 50, 256},
    {20, "IQ4_NL", 18, 32},   {21, "IQ3_S", 110, 256},  {22, "IQ2_S", 82, 256},   {23, "IQ4_XS", 136, 256},
    {24, "I8", 1, 1},         {25, "I16", 2, 1},        {26, "I32", 4, 1},        {27, "I64", 8, 1},
    {28, "F64", 8, 1},        {29, "IQ1_M", 56, 256},   {30, "BF16", 2, 1},       {31, "Q4_0_4_4", 0, 0},
    {32, "Q4_0_4_8", 0, 0},   {33, "Q4_0_8_8", 0, 0},   {34, "TQ1_0", 54, 256},   {35, "TQ2_0", 66, 256},
    {36, "IQ4_NL_4_4", 0, 0}, {37, "IQ4_NL_4_8", 0, 0}, {38, "IQ4_NL_8_8", 0, 0}, {39, "MXFP4", 17, 32},
    {40, "NVFP4", 36, 64},    {41, "Q1_0", 18, 128},    {42, "Q2_0", 18, 64},
};

const GgmlType* find_type(uint32_t number) {
  return number < std::size(kGgmlTypes) ? &kGgmlTypes[number] : nullptr;  // the list has no gaps: see numbers_in_order
}

constexpr bool numbers_in_order() {
  for (uint32_t i = 0; i < std::size(kGgmlTypes); ++i) {
    if (kGgmlTypes[i].number != i) return false;
  }
  return true;
}
static_assert(numbers_in_order());

// In the order of enum class Format.
constexpr uint32_t kFormatNumbers[kFormatCount] = {0, 1, 30, 8, 2, 3, 6, 7, 10, 11, 12, 13, 14, 20, 23, 39};

constexpr std::array<FormatInfo, kFormatCount> make_infos() {
  std::array<FormatInfo, kFormatCount> infos{};
  for (size_t i = 0; i < infos.size(); ++i) {
    const GgmlType& type = kGgmlTypes[kFormatNumbers[i]];
    infos[i] = {type.name, type.number, type.block_bytes, type.block_weights};
  }
  return infos;
}
constexpr std::array<FormatInfo, kFormatCount> kInfos = make_infos();

}  // namespace

const FormatInfo& format_info(Format format) {
  const auto index = static_cast<size_t>(format);
  QUERN_CHECK(index < kInfos.size());
  return kInfos[index];
}

std::optional<Format> format_from_ggml(uint32_t ggml_type) {
  const auto* found = std::find(std::begin(kFormatNumbers), std::end(kFormatNumbers), ggml_type);
  if (found == std::end(kFormatNumbers)) return std::nullopt;
  return static_cast<Format>(found - std::begin(kFormatNumbers));
}

std::optional<GgmlBlock> ggml_block(uint32_t ggml_type) {
  const GgmlType* type = find_type(ggml_type);
  if (type == nullptr || type->block_bytes == 0) return std::nullopt;
  return GgmlBlock{type->block_bytes, type->block_weights};
}

std::string ggml_type_name(uint32_t ggml_type) {
  const GgmlType* type = find_type(ggml_type);
  return type != nullptr ? type->name : "type " + std::to_string(ggml_type);
}

}  // namespace quern::format
