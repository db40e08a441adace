// Malformed GGUF: each case must give its status and one line that names the file and the culprit.
#include <gtest/gtest.h>

#include <chrono>

#include "allocations.h"
#include "file/gguf.h"
#include "raw_gguf.h"

namespace quern::file {
namespace {

struct Case {
  const char* name;
  RawGguf file;
  Status status;
  std::vector<const char*> named;  // parts of the message
};

constexpr uint64_t kHuge[] = {uint64_t{1} << 31, uint64_t{1} << 61, uint64_t{1} << 62, (uint64_t{1} << 63) - 1,
                              uint64_t{1} << 63, UINT64_MAX - 7,    UINT64_MAX};

void expect_error(const RawGguf& file, const char* name, Status status, const std::vector<const char*>& named) {
  take_largest_allocation();
  const auto start = std::chrono::steady_clock::now();
  const auto opened = GgufFile::parse(file.bytes(), "dir/bad.gguf");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(opened.ok()) << name;
  EXPECT_LT(take_largest_allocation(), 4096U) << name;  // never what the file asks for
  const Error& error = opened.error();
  EXPECT_EQ(error.status, status) << name << ": " << status_name(error.status) << ": " << error.message;
  EXPECT_EQ(error.message.find("dir/bad.gguf: "), 0U) << name << ": " << error.message;
  for (const char* part : named)
    EXPECT_NE(error.message.find(part), std::string::npos) << name << ": " << error.message;
  for (const char c : error.message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << name << ": " << error.message;
  EXPECT_LT(error.message.size(), 600U) << name;
  EXPECT_LT(took.count(), 1.0) << name;
}

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) expect_error(c.file, c.name, c.status, c.named);
}

RawGguf nested(int depth) {
  RawGguf raw(0, 1);
  raw.key("deep", 9);
  for (int i = 1; i < depth; ++i) raw.u32(9).u64(1);
  return raw.u32(0).u64(1).u8(1);
}

RawGguf one_tensor(std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset, size_t data) {
  return RawGguf(1, 0).tensor("w", shape, type, offset).data(data);
}

constexpr auto kBad = Status::invalid_file;

TEST(Malformed, Header) {
  expect_errors({
      {"empty", RawGguf(), kBad, {"is empty"}},
      {"other magic", RawGguf().text("GGUX").u32(3).u64(0).u64(0), kBad, {"is not a GGUF file"}},
      {"part of the magic", RawGguf().text("GGU"), kBad, {"magic", "truncated"}},
      {"version 1", RawGguf(0, 0, 1), Status::unsupported, {"version 1", "reads 2 and 3"}},
      {"version 4", RawGguf(0, 0, 4), Status::unsupported, {"version 4"}},
      {"version 0", RawGguf(0, 0, 0), Status::unsupported, {"version 0"}},
      {"big endian", RawGguf(0, 0, 0x03000000), Status::unsupported, {"big-endian", "gguf-convert-endian"}},
      {"big endian magic", RawGguf().text("FUGG").data(64), kBad, {"big-endian", "gguf-convert-endian"}},
      {"old GGML", RawGguf().text("tjgg").data(64), kBad, {"before GGUF"}},
      {"LFS pointer", RawGguf().text("version https://git-lfs.github.com/spec/v1\n"), kBad, {"git lfs pull"}},
      {"web page", RawGguf().text("<!doctype html><html>"), kBad, {"web page"}},
      {"zip", RawGguf().text("PK\x03\x04").data(64), kBad, {"PyTorch"}},
      {"safetensors", RawGguf().u64(100).text("{\"a\":{}}"), kBad, {"safetensors"}},
      {"more tensors than bytes", RawGguf(1, 0).data(8, 1), kBad, {"promises 1 tensors", "8 remaining"}},
  });
  for (const uint64_t huge : kHuge) {
    const std::string n = std::to_string(huge);
    expect_error(RawGguf(huge, 0).data(64), "n_tensors", kBad, {n.c_str(), "tensors"});
    expect_error(RawGguf(0, huge).data(64), "n_keys", kBad, {n.c_str(), "keys"});
  }
}

TEST(Malformed, Keys) {
  expect_errors({
      {"empty key", RawGguf(0, 1).key("", 0).u8(1), kBad, {"key 1 of 1", "empty name"}},
      {"long key", RawGguf(0, 1).key(std::string(65536, 'k'), 0).u8(1), kBad, {"key 1 of 1", "65536", "65535"}},
      {"duplicate key",
       RawGguf(0, 3).key("k", 0).u8(1).key("m", 0).u8(1).key("k", 1).u8(1),
       kBad,
       {"key 'k'", "twice"}},
      {"unknown type", RawGguf(0, 1).key("k", 13).u64(1), kBad, {"key 'k'", "unknown value type 13"}},
      {"unknown element type", RawGguf(0, 1).key("k", 9).u32(99).u64(0), kBad, {"key 'k'", "element type 99"}},
      {"bool 7", RawGguf(0, 1).key("k", 7).u8(7), kBad, {"key 'k'", "bool is 7", "at byte 37"}},
      {"bool 7 in an array", RawGguf(0, 1).key("k", 9).u32(7).u64(3).u8(0).u8(1).u8(7), kBad, {"key 'k'", "bool is 7"}},
      {"arrays nested 5 deep", nested(5), Status::limit_exceeded, {"key 'deep'", "deeper than 4"}},
      {"arrays nested 10000 deep", nested(10000), Status::limit_exceeded, {"key 'deep'"}},
      {"value cut off", RawGguf(0, 1).key("k", 10).u32(1), kBad, {"key 'k'", "value", "truncated"}},
      {"key of control characters", RawGguf(0, 1).key("a\n\x1b[2J\xff", 77).u8(1), kBad, {"'a\\x0a\\x1b[2J\\xff'"}},
      {"name cut off", RawGguf(0, 2).key("k", 0).u8(1).u64(9).data(8, 1), kBad, {"key 2 of 2", "name", "truncated"}},
  });
  for (const uint64_t huge : kHuge) {
    const std::string n = std::to_string(huge);
    const RawGguf start = RawGguf(0, 1).key("k", 9);
    expect_error(RawGguf(0, 1).u64(huge).data(64), "key length", kBad, {"key 1 of 1", n.c_str()});
    expect_error(RawGguf(0, 1).key("k", 8).u64(huge).data(64), "string length", kBad, {"key 'k'", n.c_str()});
    for (const uint32_t element : {0U, 5U, 7U, 8U, 9U, 12U}) {
      expect_error(RawGguf(start).u32(element).u64(huge).data(64), "array", kBad, {"key 'k'", n.c_str(), "elements"});
    }
    expect_error(RawGguf(start).u32(8).u64(2).string("a").u64(huge).data(64), "string in array", kBad,
                 {"key 'k'", n.c_str()});
    expect_error(RawGguf(start).u32(9).u64(1).u32(4).u64(huge).data(64), "array in array", kBad,
                 {"key 'k'", n.c_str()});
  }
  EXPECT_TRUE(GgufFile::parse(nested(4).bytes(), "four deep").ok());  // the bound itself is allowed
  EXPECT_TRUE(GgufFile::parse(RawGguf(0, 1).key(std::string(65535, 'k'), 0).u8(1).bytes(), "long key").ok());
}

TEST(Malformed, Alignment) {
  for (const uint32_t alignment : {0U, 1U, 4U, 24U, 33U, 131072U, 0x80000000U, 0xffffffffU}) {
    const std::string n = std::to_string(alignment);
    expect_error(RawGguf(0, 1).key("general.alignment", 4).u32(alignment), "alignment", kBad,
                 {"key 'general.alignment'", n.c_str(), "power of two"});
  }
  expect_error(RawGguf(0, 1).key("general.alignment", 8).string("32"), "type", kBad,
               {"key 'general.alignment'", "is string '32'", "expected an integer"});
  for (const uint32_t alignment : {8U, 65536U}) {
    EXPECT_TRUE(GgufFile::parse(RawGguf(0, 1).key("general.alignment", 4).u32(alignment).bytes(), "").ok());
  }
}

TEST(Malformed, TensorRecords) {
  const RawGguf long_name = RawGguf(1, 0).tensor(std::string(65536, 'n'), {8}, 0, 0).data(32);
  expect_errors({
      {"zero dimension", one_tensor({4, 0}, 0, 0, 32), kBad, {"tensor 'w'", "dimension 1 is 0", "positive"}},
      {"zero row", one_tensor({0}, 0, 0, 32), kBad, {"tensor 'w'", "dimension 0 is 0"}},
      {"no dimensions", one_tensor({}, 0, 0, 32), kBad, {"tensor 'w'", "0 dimensions"}},
      {"five dimensions", one_tensor({1, 1, 1, 1, 1}, 0, 0, 32), kBad, {"tensor 'w'", "5 dimensions"}},
      {"2^32-1 dimensions", RawGguf(1, 0).string("w").u32(UINT32_MAX).data(64), kBad, {"'w'", "4294967295 dimensions"}},
      {"ragged row", one_tensor({33, 2}, 2, 0, 64), kBad, {"tensor 'w'", "33 weights", "32", "Q4_0"}},
      {"empty name", RawGguf(1, 0).tensor("", {8}, 0, 0).data(32), kBad, {"tensor 1 of 1", "empty name"}},
      {"long name", long_name, kBad, {"tensor 1 of 1", "65536"}},
      {"duplicate", RawGguf(2, 0).tensor("w", {8}, 0, 0).tensor("w", {8}, 0, 32).data(64), kBad, {"'w'", "twice"}},
      {"record cut off", RawGguf(1, 0).string("w").u32(3).data(24, 1), kBad, {"tensor 'w'", "type", "truncated"}},
      {"elements overflow", one_tensor({uint64_t{1} << 62, 4}, 0, 0, 64), kBad, {"tensor 'w'", "overflows"}},
      {"elements above 2^63", one_tensor({uint64_t{1} << 62, 2}, 0, 0, 64), kBad, {"tensor 'w'", "overflows"}},
      {"elements wrap to 0", one_tensor({1U << 31, 1U << 31, 4, 1}, 0, 0, 64), kBad, {"tensor 'w'", "overflows"}},
      {"unknown type, elements overflow", one_tensor({UINT64_MAX}, 77, 0, 64), kBad, {"tensor 'w'", "overflows"}},
      {"bytes overflow", one_tensor({uint64_t{1} << 62}, 28, 0, 64), kBad, {"tensor 'w'", "bytes overflows"}},
      {"sum overflows",
       RawGguf(2, 0).tensor("v", {1U << 31, 1U << 30}, 0, 0).tensor("w", {1U << 31, 1U << 30}, 0, 32).data(64),
       kBad,
       {"tensor 'v'", "past the file's end"}},
  });
}

TEST(Malformed, TensorData) {
  const RawGguf overlap = RawGguf(2, 0).tensor("v", {16}, 0, 0).tensor("w", {8}, 0, 32).data(64);
  const RawGguf same = RawGguf(2, 0).tensor("v", {8}, 0, 0).tensor("w", {8}, 0, 0).data(64);
  const RawGguf inside =
      RawGguf(3, 0).tensor("v", {64}, 0, 0).tensor("u", {8}, 0, 256).tensor("w", {8}, 0, 128).data(288);
  expect_errors({
      {"misaligned offset", one_tensor({8}, 0, 16, 64), kBad, {"tensor 'w'", "offset 16", "alignment 32"}},
      {"offset past the end", one_tensor({8}, 0, uint64_t{1} << 40, 32), kBad, {"tensor 'w'", "1099511627776"}},
      {"offset overflows", one_tensor({8}, 0, UINT64_MAX - 31, 32), kBad, {"tensor 'w'", "past the file's end"}},
      {"offset of an unknown type", one_tensor({8}, 77, 1 << 20, 32), kBad, {"tensor 'w'", "past the file's end"}},
      {"cut by one byte", one_tensor({8}, 0, 0, 31), kBad, {"tensor 'w'", "32 bytes", "truncated"}},
      {"cut in half", one_tensor({4096}, 0, 0, 8192), kBad, {"tensor 'w'", "truncated"}},
      {"no data section", RawGguf(1, 0).tensor("w", {8}, 0, 0), kBad, {"tensor 'w'", "truncated"}},
      {"overlap", overlap, kBad, {"'v'", "'w'", "overlap"}},
      {"same place", same, kBad, {"'v'", "'w'", "overlap"}},
      {"one inside another", inside, kBad, {"'v'", "'w'", "overlap"}},
  });
  EXPECT_TRUE(GgufFile::parse(one_tensor({8}, 0, 0, 32).bytes(), "control").ok());
  EXPECT_TRUE(GgufFile::parse(one_tensor({8}, 0, 32, 64).bytes(), "control").ok());
}

}  // namespace
}  // namespace quern::file
