// Sets of shards: any one opens all; what is missing, foreign or doubled is named.
#include <gtest/gtest.h>

#include <filesystem>

#include "file/gguf.h"
#include "file/gguf_writer.h"
#include "file/shard_name.h"

namespace quern::file {
namespace {

TEST(ShardName, TakesApartAndPutsTogether) {
  const auto name = parse_shard_name("dir/m-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "dir/m");
  EXPECT_EQ(name->number, 2U);
  EXPECT_EQ(name->count, 3U);
  EXPECT_EQ(shard_path(name->prefix, 3, 3), "dir/m-00003-of-00003.gguf");
  for (const char* other : {"m.gguf", "m-2-of-3.gguf", "m-00002-of-00003.bin", "m-0000x-of-00003.gguf",
                            "00002-of-00003.gguf", "m_00002-of-00003.gguf", "m-00002_of-00003.gguf", ""}) {
    EXPECT_FALSE(parse_shard_name(other).has_value()) << other;
  }
}

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "quern_shards_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    write(0, 0, 3, 6, {"a0", "b0"});
    write(1, 1, 3, 6, {"a1", "b1"});
    write(2, 2, 3, 6, {"a2", "b2"});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(int i) const { return shard_path(folder_ + "/m", static_cast<uint64_t>(i) + 1, 3); }

  // Shard i of the set; every tensor is [8] f32 whose first value is 10 * i + its place.
  void write(int i, int no, int count, int total, const std::vector<std::string>& names) const {
    write_file(path(i), no, count, total, i, names);
  }
  static void write_file(const std::string& to, int no, int count, int total, int base,
                         const std::vector<std::string>& names) {
    auto writer = GgufWriter::create(to);
    ASSERT_TRUE(writer.ok());
    if (no == 0) {
      ASSERT_TRUE(writer->add("general.name", OwnedValue::of("sharded")).ok());
    }
    ASSERT_TRUE(writer->add("split.no", OwnedValue::of(static_cast<uint16_t>(no))).ok());
    ASSERT_TRUE(writer->add("split.count", OwnedValue::of(static_cast<uint16_t>(count))).ok());
    ASSERT_TRUE(writer->add("split.tensors.count", OwnedValue::of(int32_t{total})).ok());
    const uint64_t shape[] = {8};
    for (const std::string& name : names) ASSERT_TRUE(writer->declare(name, 0, shape).ok());
    ASSERT_TRUE(writer->begin().ok());
    for (size_t t = 0; t < names.size(); ++t) {
      const std::array<float, 8> row{static_cast<float>(10 * base) + static_cast<float>(t)};
      ASSERT_TRUE(writer->write(std::as_bytes(std::span(row))).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }

  void expect_error(int opened, Status status, const std::vector<std::string>& named) const {
    const auto file = GgufFile::open(path(opened));
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().status, status) << file.error().message;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
    for (const std::string& part : named) {
      EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
    }
  }

  std::string folder_;
};

TEST_F(Shards, AnyShardOpensAll) {
  for (int opened = 0; opened < 3; ++opened) {
    const auto file = GgufFile::open(path(opened));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->shard_paths(), (std::vector<std::string>{path(0), path(1), path(2)}));
    EXPECT_EQ(file->path(), path(0));
    EXPECT_EQ(*file->require<std::string_view>("general.name"), "sharded");
    ASSERT_EQ(file->tensors().size(), 6U);
    for (uint32_t i = 0; i < 6; ++i) {
      const Tensor& tensor = file->tensors()[i];
      EXPECT_EQ(tensor.shard, i / 2);
      EXPECT_EQ(file->find_tensor(tensor.name), &tensor);
      file->release(tensor);
      const auto expected = 10 * (i / 2) + i % 2;
      EXPECT_EQ(load<float>(tensor.data), static_cast<float>(expected));
    }
    EXPECT_EQ(file->bytes(), std::filesystem::file_size(path(0)) + std::filesystem::file_size(path(1)) +
                                 std::filesystem::file_size(path(2)));
  }
}

TEST_F(Shards, FirstShardMayHoldNoTensors) {
  write(0, 0, 3, 4, {});
  write(1, 1, 3, 4, {"c", "d"});
  write(2, 2, 3, 4, {"e", "f"});
  const auto file = GgufFile::open(path(1));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 4U);
}

TEST_F(Shards, MissingShardIsNamed) {
  std::filesystem::remove(path(1));
  for (const int opened : {0, 2}) expect_error(opened, Status::not_found, {path(1) + ": missing: shard 2 of 3"});
}

TEST_F(Shards, DamagedShardIsNamed) {
  std::filesystem::resize_file(path(2), std::filesystem::file_size(path(2)) - 64);
  expect_error(0, Status::invalid_file, {path(2) + ": tensor 'a2'", "truncated"});
}

TEST_F(Shards, DuplicateTensorAcrossShards) {
  write(2, 2, 3, 6, {"a2", "b0"});
  expect_error(1, Status::invalid_file, {path(2) + ": tensor 'b0'", "earlier shard"});
}

TEST_F(Shards, WrongNumbers) {
  write(1, 2, 3, 6, {"a1", "b1"});
  expect_error(0, Status::invalid_file, {path(1) + ": key 'split.no' is 2", "should be 1"});
  expect_error(1, Status::invalid_file, {path(1) + ": key 'split.no' is 2"});
  write(1, 1, 4, 6, {"a1", "b1"});
  expect_error(0, Status::invalid_file, {path(1) + ": key 'split.count' is 4", "should be 3"});
  expect_error(1, Status::invalid_file, {path(1) + ": key 'split.count' is 4"});
  write(1, 1, 3, 7, {"a1", "b1"});
  expect_error(0, Status::invalid_file, {path(1) + ": key 'split.tensors.count' is 7", "6 tensors"});
  write(1, 1, 0, 6, {"a1", "b1"});  // a count of 0 is a file of its own
  expect_error(0, Status::invalid_file, {path(1) + ": key 'split.count' is 0"});
}

TEST_F(Shards, RenamedShard) {
  const std::string renamed = folder_ + "/other.gguf";
  std::filesystem::rename(path(0), renamed);
  const auto file = GgufFile::open(renamed);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().status, Status::invalid_file);
  EXPECT_NE(file.error().message.find(renamed + ": is one of 3 shards"), std::string::npos) << file.error().message;
}

TEST_F(Shards, CountsOfZeroAndOneAreSingleFiles) {
  for (const int count : {0, 1}) {
    const std::string single = folder_ + "/single.gguf";
    write_file(single, 0, count, 1, 0, {"a"});
    const auto file = GgufFile::open(single);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->tensors().size(), 1U);
  }
}

}  // namespace
}  // namespace quern::file
