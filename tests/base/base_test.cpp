// base/: results, files, buffers, processor features.
#include <gtest/gtest.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/file_io.h"
#include "base/result.h"

namespace quern {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Status::invalid_argument, "odd"};
  return n / 2;
}

Result<int> quarter(int n) {
  QUERN_TRY(const int h, half(n));
  return half(h);
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(5).error().status, Status::invalid_argument);
}

TEST(Result, ReadingTheValueOfAnErrorEndsTheProcess) {
  EXPECT_DEATH((void)half(1).value(), "bug: ok");
}

TEST(FileIo, RoundTripAndNamedErrors) {
  const std::string path = ::testing::TempDir() + "quern_file_io";
  const std::string text = "grind";
  ASSERT_TRUE(write_file_atomic(path, std::as_bytes(std::span(text))).ok());
  EXPECT_EQ(*read_file(path), text);
  EXPECT_EQ(MappedFile::open(path)->bytes().size(), text.size());
  EXPECT_EQ(read_file(path, 2).error().status, Status::limit_exceeded);
  const Error missing = MappedFile::open(path + ".none").error();
  EXPECT_EQ(missing.status, Status::not_found);
  EXPECT_NE(missing.message.find(path + ".none"), std::string::npos);
  EXPECT_EQ(MappedFile::open(::testing::TempDir()).error().status, Status::invalid_file);
}

TEST(Buffer, IsZeroedAndAligned) {
  const auto buffer = Buffer::allocate(1000, "test");
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kCacheLine, 0U);
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(buffer->data()[i], std::byte{0});
  EXPECT_EQ(Buffer::allocate(size_t{1} << 60, "test").error().status, Status::out_of_memory);
}

TEST(Cpu, GenericIsAlwaysThereAndNamesRoundTrip) {
  const CpuInfo info = detect_cpu();
  EXPECT_TRUE(info.supports(Isa::generic));
  EXPECT_TRUE(info.supports(info.best));
  for (int i = 0; i < kIsaCount; ++i) EXPECT_EQ(*parse_isa(isa_name(static_cast<Isa>(i))), static_cast<Isa>(i));
  EXPECT_FALSE(parse_isa("sse9").ok());
}

}  // namespace
}  // namespace quern
