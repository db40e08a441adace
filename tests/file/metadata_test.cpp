// file/value.h and metadata.h: conversion of integers, floats, strings and arrays, and what errors say.
#include "file/metadata.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "file/owned_value.h"

namespace quern::file {
namespace {

template <class T, class U>
std::optional<T> converted(U value) {
  return OwnedValue::of(value).view().template as<T>();
}

TEST(Value, IntegersConvertWhereTheyFit) {
  EXPECT_EQ(converted<uint8_t>(int64_t{255}), uint8_t{255});
  EXPECT_EQ(converted<uint8_t>(int64_t{256}), std::nullopt);
  EXPECT_EQ(converted<uint64_t>(int8_t{-1}), std::nullopt);
  EXPECT_EQ(converted<int32_t>(uint32_t{2147483648}), std::nullopt);
  EXPECT_EQ(converted<int32_t>(uint16_t{65535}), 65535);
  EXPECT_EQ(converted<int64_t>(UINT64_MAX), std::nullopt);
  EXPECT_EQ(converted<int8_t>(int64_t{-128}), int8_t{-128});
  EXPECT_EQ(converted<uint32_t>(1.0F), std::nullopt);
  EXPECT_EQ(converted<uint32_t>(true), std::nullopt);
  EXPECT_EQ(converted<bool>(uint8_t{1}), std::nullopt);
  EXPECT_EQ(converted<bool>(true), true);
}

TEST(Value, FloatsConvertWhereTheyDoNotOverflow) {
  EXPECT_EQ(converted<float>(0.1), 0.1F);
  EXPECT_EQ(converted<double>(0.1F), static_cast<double>(0.1F));
  EXPECT_EQ(converted<float>(1e300), std::nullopt);
  EXPECT_EQ(converted<float>(std::numeric_limits<double>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(*converted<float>(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(converted<float>(int32_t{-10000}), -10000.0F);
  EXPECT_EQ(converted<float>(uint32_t{16777217}), std::nullopt);
  EXPECT_EQ(converted<double>(uint32_t{16777217}), 16777217.0);
  EXPECT_EQ(converted<double>(UINT64_MAX), std::nullopt);
  EXPECT_EQ(converted<float>(std::string_view("1")), std::nullopt);
}

TEST(Value, WalksNestedArrays) {
  const OwnedValue rows[] = {OwnedValue::array<int16_t>({1, 2}), OwnedValue::array<std::string_view>({"ab", ""}),
                             OwnedValue::array<int16_t>({})};
  const OwnedValue inner = *OwnedValue::array_of(ValueType::array, rows);
  const OwnedValue outer_rows[] = {inner, inner};
  const OwnedValue outer = *OwnedValue::array_of(ValueType::array, outer_rows);
  EXPECT_EQ(outer.view().type_text(), "array of array");
  std::string seen;
  for (const Value middle : outer.view().elements()) {
    EXPECT_EQ(middle.size(), 3U);
    for (const Value row : middle.elements()) {
      seen += '[';
      for (const Value item : row.elements()) {
        seen += item.type() == ValueType::string ? std::string(*item.as<std::string_view>()) + ','
                                                 : std::to_string(*item.as<int>()) + ',';
      }
      seen += ']';
    }
  }
  EXPECT_EQ(seen, "[1,2,][ab,,][][1,2,][ab,,][]");
}

class MetadataTest : public ::testing::Test {
 protected:
  static std::vector<MetaEntry> entries(const std::vector<std::pair<const char*, OwnedValue>>& values) {
    std::vector<MetaEntry> list;
    for (const auto& [key, value] : values) list.push_back({key, value.view()});
    return list;
  }
  const std::vector<std::pair<const char*, OwnedValue>> values_ = {
      {"count", OwnedValue::of(uint16_t{7})},
      {"negative", OwnedValue::of(int32_t{-5})},
      {"eps", OwnedValue::of(1e-5F)},
      {"name", OwnedValue::of("two\nlines")},
      {"flag", OwnedValue::of(false)},
      {"sizes", OwnedValue::array<int32_t>({1, 2, -3})},
      {"words", OwnedValue::array<std::string_view>({"a", "b"})},
  };
  const Metadata metadata_ = *Metadata::create("m.gguf", entries(values_));
};

TEST_F(MetadataTest, FindsAndConverts) {
  EXPECT_EQ(*metadata_.require<uint32_t>("count"), 7U);
  EXPECT_EQ(*metadata_.get<int32_t>("negative"), -5);
  EXPECT_EQ(*metadata_.require<float>("eps"), 1e-5F);
  EXPECT_EQ(*metadata_.require<std::string_view>("name"), "two\nlines");
  EXPECT_EQ(*metadata_.require<bool>("flag"), false);
  EXPECT_EQ(*metadata_.require_array<int64_t>("sizes"), (std::vector<int64_t>{1, 2, -3}));
  EXPECT_EQ(*metadata_.require_array<std::string_view>("words"), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(*metadata_.get<bool>("none"), std::nullopt);
  EXPECT_EQ(*metadata_.get_or<float>("none", 2.5F), 2.5F);
  EXPECT_EQ(*metadata_.get_array<float>("none"), std::nullopt);
  EXPECT_EQ(metadata_.find("coun"), nullptr);
  EXPECT_EQ(metadata_.find("countt"), nullptr);
}

TEST_F(MetadataTest, ErrorsNameFileKeyAndTypes) {
  EXPECT_EQ(metadata_.get<uint32_t>("negative").error().message,
            "m.gguf: key 'negative' is i32 -5, expected an integer that fits u32");
  EXPECT_EQ(metadata_.get_or<bool>("name", true).error().message,
            "m.gguf: key 'name' is string 'two\\x0alines', expected bool");
  EXPECT_EQ(metadata_.require<float>("sizes").error().message,
            "m.gguf: key 'sizes' is array of i32, expected a number that fits f32");
  EXPECT_EQ(metadata_.require_array<uint32_t>("sizes").error().message,
            "m.gguf: key 'sizes' is array of i32 with element 2 = i32 -3, expected an array of elements, each an "
            "integer that fits u32");
  EXPECT_EQ(metadata_.require_array<uint32_t>("count").error().status, Status::invalid_file);
  EXPECT_EQ(metadata_.require<uint32_t>("none").error().status, Status::not_found);
  EXPECT_EQ(metadata_.require_array<uint32_t>("none").error().message.find("m.gguf: key 'none' is missing"), 0U);
}

}  // namespace
}  // namespace quern::file
