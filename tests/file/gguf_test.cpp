// file/gguf.h and gguf_writer.h: round trips, truncation, damage, speed.
#include "file/gguf.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "allocations.h"
#include "file/gguf_writer.h"
#include "raw_gguf.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr int kSlowdown = 20;
#else
constexpr int kSlowdown = 1;
#endif

namespace quern::file {
namespace {

using namespace std::string_view_literals;

std::string temporary(const std::string& name) {
  return ::testing::TempDir() + "quern_gguf_" + name;
}

// Touches every byte that a GgufFile hands out.
uint64_t walk(const Value& value) {
  uint64_t sum = 0;
  if (value.is_array()) {
    for (const Value element : value.elements()) sum += walk(element);
  } else {
    for (const std::byte b : value.encoded()) sum += std::to_integer<uint64_t>(b);
  }
  return sum + value.as<uint64_t>().value_or(0) + value.type_text().size();
}

uint64_t walk(const GgufFile& file) {
  uint64_t sum = 0;
  for (const MetaEntry& entry : file.metadata().entries()) sum += walk(entry.value) + entry.key.size();
  for (const Tensor& tensor : file.tensors()) {
    for (uint64_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<uint64_t>(tensor.data[i]);
  }
  return sum;
}

// A small file with every metadata type, an array of each, nested arrays, and a tensor in every format.
struct Sample {
  std::vector<std::pair<std::string, OwnedValue>> values;
  std::vector<std::vector<std::byte>> data;  // [kFormatCount], two blocks per row, three rows
};

Sample make_sample() {
  Sample sample;
  const auto add = [&](const char* key, OwnedValue value) { sample.values.emplace_back(key, std::move(value)); };
  add("s.u8", OwnedValue::of(uint8_t{200}));
  add("s.i8", OwnedValue::of(int8_t{-100}));
  add("s.u16", OwnedValue::of(uint16_t{60000}));
  add("s.i16", OwnedValue::of(int16_t{-30000}));
  add("s.u32", OwnedValue::of(uint32_t{4000000000}));
  add("s.i32", OwnedValue::of(int32_t{-2000000000}));
  add("s.f32", OwnedValue::of(1.5F));
  add("s.bool", OwnedValue::of(true));
  add("s.string", OwnedValue::of("grind \xc3\xa4\n"sv));
  add("s.u64", OwnedValue::of(UINT64_MAX));
  add("s.i64", OwnedValue::of(INT64_MIN));
  add("s.f64", OwnedValue::of(0.1));
  add("a.u8", OwnedValue::array<uint8_t>({1, 2}));
  add("a.i8", OwnedValue::array<int8_t>({-1, 2}));
  add("a.u16", OwnedValue::array<uint16_t>({1, 2}));
  add("a.i16", OwnedValue::array<int16_t>({-1, 2}));
  add("a.u32", OwnedValue::array<uint32_t>({1, 2}));
  add("a.i32", OwnedValue::array<int32_t>({-1, 2}));
  add("a.f32", OwnedValue::array<float>({1, 2}));
  add("a.bool", OwnedValue::array<bool>({true, false, true}));
  add("a.string", OwnedValue::array<std::string_view>({"a", "", "ccc"}));
  add("a.u64", OwnedValue::array<uint64_t>({1, 2}));
  add("a.i64", OwnedValue::array<int64_t>({-1, 2}));
  add("a.f64", OwnedValue::array<double>({1, 2}));
  add("a.empty", OwnedValue::array<std::string_view>({}));
  const OwnedValue rows[] = {OwnedValue::array<int32_t>({1, 2, 3}), OwnedValue::array<std::string_view>({"x", "yy"})};
  add("a.array", *OwnedValue::array_of(ValueType::array, rows));
  std::mt19937 random(1);
  for (int f = 0; f < format::kFormatCount; ++f) {
    std::vector<std::byte> bytes(6 * format::format_info(static_cast<format::Format>(f)).block_bytes);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    sample.data.push_back(std::move(bytes));
  }
  return sample;
}

Result<void> write_sample(const Sample& sample, const std::string& path) {
  QUERN_TRY(GgufWriter writer, GgufWriter::create(path));
  for (const auto& [key, value] : sample.values) QUERN_TRY_VOID(writer.add(key, value));
  for (int f = 0; f < format::kFormatCount; ++f) {
    const format::FormatInfo& info = format::format_info(static_cast<format::Format>(f));
    const uint64_t shape[] = {2 * info.block_weights, 3};
    QUERN_TRY_VOID(writer.declare(std::string("t.") + info.name, info.ggml_type, shape));
  }
  QUERN_TRY_VOID(writer.begin());
  for (const auto& bytes : sample.data) {  // in two pieces
    QUERN_TRY_VOID(writer.write(std::span(bytes).first(5)));
    QUERN_TRY_VOID(writer.write(std::span(bytes).subspan(5)));
  }
  return writer.finish();
}

class SampleFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = temporary(::testing::UnitTest::GetInstance()->current_test_info()->name());
    const auto written = write_sample(sample_, path_);
    ASSERT_TRUE(written.ok()) << written.error().message;
  }
  void TearDown() override { std::remove(path_.c_str()); }

  Sample sample_ = make_sample();
  std::string path_;
};

TEST_F(SampleFile, RoundTripsEveryTypeAndFormat) {
  const auto file = GgufFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 3U);
  EXPECT_EQ(file->alignment(), 32U);
  EXPECT_EQ(file->shard_paths(), std::vector<std::string>{path_});
  const auto entries = file->metadata().entries();
  ASSERT_EQ(entries.size(), sample_.values.size());
  std::vector<bool> seen(kValueTypeCount);
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].key, sample_.values[i].first);
    const Value wrote = sample_.values[i].second.view();
    EXPECT_EQ(entries[i].value.type(), wrote.type());
    EXPECT_TRUE(std::ranges::equal(entries[i].value.encoded(), wrote.encoded())) << entries[i].key;
    seen[static_cast<size_t>(wrote.type())] = true;
  }
  EXPECT_EQ(std::ranges::count(seen, true), kValueTypeCount);
  ASSERT_EQ(file->tensors().size(), static_cast<size_t>(format::kFormatCount));
  for (size_t f = 0; f < sample_.data.size(); ++f) {
    const Tensor& tensor = file->tensors()[f];
    const format::FormatInfo& info = format::format_info(static_cast<format::Format>(f));
    EXPECT_EQ(*file->require_format(tensor), static_cast<format::Format>(f));
    EXPECT_EQ(file->find_tensor(std::string("t.") + info.name), &tensor);
    EXPECT_EQ(tensor.n_dims, 2U);
    EXPECT_EQ(tensor.shape, (std::array<uint64_t, 4>{2 * info.block_weights, 3, 1, 1}));
    EXPECT_EQ(tensor.rows(), 3U);
    EXPECT_EQ(tensor.file_offset % 32, 0U);
    ASSERT_EQ(tensor.bytes, sample_.data[f].size());
    file->release(tensor);  // must not change what is read next
    EXPECT_EQ(std::memcmp(tensor.data, sample_.data[f].data(), tensor.bytes), 0) << info.name;
  }
  EXPECT_EQ(file->find_tensor("t.none"), nullptr);
  EXPECT_EQ(file->require_tensor("t.none").error().message, path_ + ": tensor 't.none' is missing");
}

TEST_F(SampleFile, ReadsVersion2) {
  std::string bytes = *read_file(path_);
  bytes[4] = 2;
  const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "v2");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 2U);
  EXPECT_EQ(file->tensors().size(), sample_.data.size());
}

TEST_F(SampleFile, TruncationAtEveryByteIsAnError) {
  const std::string bytes = *read_file(path_);
  const auto whole = GgufFile::parse(std::as_bytes(std::span(bytes)), "whole");
  const uint64_t end = whole->tensors().back().file_offset + whole->tensors().back().bytes;  // padding follows
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    const auto file = GgufFile::parse(std::as_bytes(std::span(cut)), "cut.gguf");
    ASSERT_EQ(file.ok(), n >= end) << n;
    if (file.ok()) continue;
    EXPECT_EQ(file.error().status, Status::invalid_file) << n;
    EXPECT_EQ(file.error().message.find("cut.gguf: "), 0U) << n;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << n;
  }
}

// Any damage gives an error or a file whose every view is readable (the sanitizers see to that).
TEST_F(SampleFile, DamageAtEveryByteIsCalm) {
  const std::string bytes = *read_file(path_);
  const uint64_t head = GgufFile::parse(std::as_bytes(std::span(bytes)), "")->tensors().front().file_offset;
  int n_errors = 0;
  for (size_t at = 0; at < head; ++at) {
    for (const int change : {1, 2, 0x7f, 0x80, 0xff}) {
      std::vector<char> damaged(bytes.begin(), bytes.end());
      damaged[at] = static_cast<char>(damaged[at] + change);
      const auto file = GgufFile::parse(std::as_bytes(std::span(damaged)), "damaged");
      n_errors += !file.ok();
      if (file.ok()) walk(*file);
    }
  }
  EXPECT_GT(n_errors, 100);
}

TEST(GgufFile, ListsTensorsThatItDoesNotRead) {
  const RawGguf raw =
      RawGguf(3, 0).tensor("a", {256, 2}, 16, 0).tensor("b", {3}, 4, 160).tensor("c", {5}, 77, 160).data(160);
  const auto file = GgufFile::parse(raw.bytes(), "f.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto tensors = file->tensors();
  EXPECT_EQ(tensors[0].bytes, 132U);  // IQ2_XXS: the size is known
  EXPECT_NE(tensors[0].data, nullptr);
  EXPECT_EQ(tensors[1].bytes, 0U);
  EXPECT_EQ(tensors[1].data, nullptr);
  const auto error = [&](size_t i) { return file->require_format(tensors[i]).error(); };
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(error(i).status, Status::unsupported);
  EXPECT_EQ(error(0).message.find("f.gguf: tensor 'a': IQ2_XXS (type 16) is not a format"), 0U) << error(0).message;
  EXPECT_NE(error(1).message.find("made by Ollama"), std::string::npos) << error(1).message;
  EXPECT_NE(error(2).message.find("type 77"), std::string::npos) << error(2).message;
  file->release(tensors[1]);
}

TEST(GgufFile, TensorsMayLieInAnyOrder) {
  const RawGguf raw = RawGguf(2, 0).tensor("late", {8}, 0, 32).tensor("early", {8}, 0, 0).data(64);
  const auto file = GgufFile::parse(raw.bytes(), "f.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->find_tensor("late")->data - file->find_tensor("early")->data, 32);
}

TEST(GgufFile, LargeVocabularyParsesFastAndWithoutAllocations) {
  constexpr uint64_t kTokens = 250000;
  RawGguf raw(0, 2);
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    raw.key(key, 9).u32(8).u64(kTokens);
    for (uint64_t i = 0; i < kTokens; ++i) raw.string("token " + std::to_string(i));
  }
  double best_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = allocation_count();
    const auto start = std::chrono::steady_clock::now();
    const auto file = GgufFile::parse(raw.bytes(), "f.gguf");
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(file.ok());
    best_ms = std::min(best_ms, took.count());
    EXPECT_LT(allocation_count() - before, 100U);
  }
  EXPECT_LT(best_ms, 100.0 * kSlowdown);
  RecordProperty("parse_ms", std::to_string(best_ms));
  const auto file = GgufFile::parse(raw.bytes(), "f.gguf");
  const auto tokens = file->require_array<std::string_view>("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->size(), kTokens);
  EXPECT_EQ(tokens->back(), "token 249999");
}

TEST(GgufWriter, AlignmentKeySetsTheAlignment) {
  const std::string path = temporary("alignment");
  auto writer = GgufWriter::create(path);
  ASSERT_TRUE(writer->add("general.alignment", OwnedValue::of(uint32_t{128})).ok());
  const uint64_t shape[] = {3};
  const std::array<float, 3> data{1, 2, 3};
  ASSERT_TRUE(writer->declare("a", 0, shape).ok());
  ASSERT_TRUE(writer->declare("b", 0, shape).ok());
  ASSERT_TRUE(writer->begin().ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(writer->write(std::as_bytes(std::span(data))).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->alignment(), 128U);
  EXPECT_EQ(file->tensors()[1].data - file->tensors()[0].data, 128);
  EXPECT_EQ(load<float>(file->tensors()[1].data + 8), 3.0F);
  std::remove(path.c_str());
}

TEST(GgufWriter, RefusesWhatCannotBeReadBack) {
  const std::string path = temporary("refuse");
  const uint64_t row[] = {32};
  const uint64_t ragged[] = {33};
  const uint64_t zero[] = {4, 0};
  const uint64_t five[] = {1, 1, 1, 1, 1};
  auto writer = GgufWriter::create(path);
  EXPECT_FALSE(writer->add("", OwnedValue::of(true)).ok());
  EXPECT_FALSE(writer->add(std::string(65536, 'k'), OwnedValue::of(true)).ok());
  EXPECT_FALSE(writer->add("general.alignment", OwnedValue::of(uint32_t{24})).ok());
  EXPECT_FALSE(writer->declare("", 0, row).ok());
  EXPECT_FALSE(writer->declare("t", 2, ragged).ok());
  EXPECT_FALSE(writer->declare("t", 0, zero).ok());
  EXPECT_FALSE(writer->declare("t", 0, five).ok());
  EXPECT_FALSE(writer->declare("t", 0, {}).ok());
  EXPECT_FALSE(writer->declare("t", 4, row).ok());
  const OwnedValue mixed[] = {OwnedValue::of(true), OwnedValue::of(1.0F)};
  EXPECT_FALSE(OwnedValue::array_of(ValueType::boolean, mixed).ok());
  ASSERT_TRUE(writer->declare("t", 2, row).ok());
  ASSERT_TRUE(writer->begin().ok());
  const std::vector<std::byte> data(19);
  EXPECT_NE(writer->write(data).error().message.find("'t': more than its 18 bytes"), std::string::npos);
  ASSERT_TRUE(writer->write(std::span(data).first(10)).ok());
  EXPECT_NE(writer->finish().error().message.find("'t': only 10 of its 18"), std::string::npos);
  EXPECT_EQ(GgufFile::open(path).error().status, Status::not_found);  // nothing appears without finish()
}

TEST(GgufWriter, RefusesDuplicates) {
  const uint64_t row[] = {32};
  for (const bool keys : {true, false}) {
    auto writer = GgufWriter::create(temporary("duplicates"));
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE((keys ? writer->add("same", OwnedValue::of(true)) : writer->declare("same", 0, row)).ok());
    }
    EXPECT_NE(writer->begin().error().message.find("'same' is there twice"), std::string::npos);
  }
  EXPECT_EQ(GgufWriter::create(temporary("no/such/folder")).error().status, Status::not_found);
}

}  // namespace
}  // namespace quern::file
