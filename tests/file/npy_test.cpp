// file/npy.h: what is written is read back; headers as numpy writes them; damage.
#include "file/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace quern::file {
namespace {

// Bytes at an address aligned to 4.
class NpyBytes {
 public:
  NpyBytes(const std::string& dictionary, const std::vector<int32_t>& data, uint8_t version = 1) {
    std::string text("\x93NUMPY", 6);
    text += {static_cast<char>(version), '\0'};
    std::string padded = dictionary;
    while ((padded.size() + 1 + (version == 1 ? 10 : 12)) % 16 != 0) padded += ' ';
    padded += '\n';
    text += {static_cast<char>(padded.size() & 255), static_cast<char>(padded.size() >> 8)};
    if (version > 1) text += std::string(2, '\0');
    text += padded;
    text.append(reinterpret_cast<const char*>(data.data()), data.size() * 4);
    words_.resize((text.size() + 3) / 4);
    std::memcpy(words_.data(), text.data(), text.size());
    size_ = text.size();
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)).first(size_); }

 private:
  std::vector<int32_t> words_;
  size_t size_ = 0;
};

TEST(Npy, RoundTripsRows) {
  const std::string path = ::testing::TempDir() + "quern_rows.npy";
  auto writer = NpyWriter::create(path, 3);
  ASSERT_TRUE(writer.ok());
  const std::array<float, 6> two_rows{1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(writer->append(two_rows).ok());
  EXPECT_EQ(NpyFile::open(path).error().status, Status::not_found);  // not before finish()
  ASSERT_TRUE(writer->append(std::span(two_rows).first(3)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = NpyFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->shape(), (std::vector<uint64_t>{3, 3}));
  const auto values = file->floats();
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(std::vector<float>(values->begin(), values->end()), (std::vector<float>{1, 2, 3, 4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(file->ints().error().message, path + ": holds float32, expected int32");
  std::remove(path.c_str());
}

TEST(Npy, ReadsHeadersOfNumpy) {
  const NpyBytes one("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", {7, -8, 9});
  const auto file = NpyFile::parse(one.bytes(), "one");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->shape(), std::vector<uint64_t>{3});
  EXPECT_EQ((*file->ints())[1], -8);
  EXPECT_FALSE(file->floats().ok());
  const NpyBytes scalar("{'descr': '<i4', 'fortran_order': False, 'shape': (), }", {7}, 2);
  EXPECT_TRUE(NpyFile::parse(scalar.bytes(), "scalar")->shape().empty());
  const NpyBytes none("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", {});
  EXPECT_TRUE(NpyFile::parse(none.bytes(), "none")->floats()->empty());
}

TEST(Npy, MalformedIsNamed) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  const struct {
    std::string dictionary;
    Status status;
    const char* named;
  } cases[] = {
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", Status::unsupported, "<i8"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", Status::unsupported, ">f4"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", Status::unsupported, "Fortran"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", Status::invalid_file, "needs 12 bytes, but 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", Status::invalid_file,
       "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }", Status::invalid_file, "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", Status::invalid_file, "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, ", Status::invalid_file, "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", Status::invalid_file, "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", Status::invalid_file, "shape"},
      {"{'descr': '<f4', 'fortran_order': False}", Status::invalid_file, "lacks"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", Status::invalid_file, "lacks"},
      {"", Status::invalid_file, "lacks"},
  };
  for (const auto& c : cases) {
    const NpyBytes bytes(c.dictionary, {1, 2});
    const auto file = NpyFile::parse(bytes.bytes(), "bad.npy");
    ASSERT_FALSE(file.ok()) << c.dictionary;
    EXPECT_EQ(file.error().status, c.status) << file.error().message;
    EXPECT_EQ(file.error().message.find("bad.npy: "), 0U) << file.error().message;
    EXPECT_NE(file.error().message.find(c.named), std::string::npos) << file.error().message;
  }
  const NpyBytes whole(good, {1, 2});
  ASSERT_TRUE(NpyFile::parse(whole.bytes(), "whole").ok());
  for (size_t n = 0; n < whole.bytes().size(); ++n) {
    EXPECT_EQ(NpyFile::parse(whole.bytes().first(n), "cut").error().status, Status::invalid_file) << n;
  }
  EXPECT_FALSE(NpyFile::parse(NpyBytes(good, {1, 2}, 9).bytes(), "version 9").ok());
}

}  // namespace
}  // namespace quern::file
