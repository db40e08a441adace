// The image's format and its writer: what is written is read back, every damage is noticed, no failure leaves a file.
// How an engine uses images: tests/engine/image_test.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/cpu.h"
#include "exec/image_memory.h"
#include "exec/image_writer.h"
#include "kernels/layout.h"

namespace quern::exec {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// The process's file size limit while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class ImageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("QUERN_TEST_DATA");
    const std::string path = std::string(data != nullptr ? data : "build/testdata") + "/tiny/llama-q-q4_1.gguf";
    auto file = file::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message << ": run tools/make_testdata.py";
    file_.emplace(std::move(*file));
    auto model = model::load_model(*file_, 0);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    requests_ = plan::pack_requests(*model_, detect_cpu().isa_mask);
    if (requests_.empty()) GTEST_SKIP() << "this processor's kernels read weights as they are stored";
    key_ = image_key(*file_, requests_).value();
    char name[] = "/tmp/quern-image-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/" + key_.file_name();
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  Result<void> build() { return build_image(path_, *file_, key_, requests_, team_, {}, {}); }
  Bytes built() {
    const auto done = build();
    EXPECT_TRUE(done.ok()) << done.error().message;
    return read_bytes(path_);
  }
  Result<void> serves(const Image& image) const { return image.check_serves(*file_, key_, requests_); }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::optional<file::GgufFile> file_;
  std::unique_ptr<model::Model> model_;
  std::vector<plan::PackRequest> requests_;
  ImageKey key_;
  Team team_{2};
  std::string folder_, path_;
};

TEST_F(ImageTest, WhatIsWrittenIsReadBack) {
  size_t reported = 0;
  const auto done = build_image(path_, *file_, key_, requests_, team_,
                                [&](uint64_t now, uint64_t total) {
                                  EXPECT_LE(now, total);
                                  ++reported;
                                },
                                {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(reported, requests_.size());
  EXPECT_EQ(n_files(), 1U);
  auto image = Image::open(path_);
  ASSERT_TRUE(image.ok()) << image.error().message;
  EXPECT_TRUE(serves(*image).ok());
  EXPECT_TRUE(image->verify({}).ok());
  EXPECT_EQ(image->source(), fs::absolute(file_->path()).lexically_normal().string());
  const auto packed = WeightStore::pack(requests_, team_, {}, {});
  ASSERT_TRUE(packed.ok());
  ASSERT_EQ(image->entries().size(), requests_.size());
  for (size_t i = 0; i < requests_.size(); ++i) {
    const auto plane = image->plane(i);
    ASSERT_EQ(plane.size(), requests_[i].bytes);
    EXPECT_EQ(std::memcmp(plane.data(), (*packed)->find(*requests_[i].weight, requests_[i].layout), plane.size()), 0);
    EXPECT_EQ(image->name(i), requests_[i].weight->name);
  }
  const auto copied = WeightStore::copy(Image::open(path_).value(), requests_, team_, {});
  ASSERT_TRUE(copied.ok());
  const auto mapped = WeightStore::map(std::move(*image), requests_);
  EXPECT_TRUE(mapped->from_image() && mapped->is_mapped());
  EXPECT_TRUE((*copied)->from_image() && !(*copied)->is_mapped());
  EXPECT_FALSE((*packed)->from_image());
  for (const auto& r : requests_) {
    EXPECT_EQ(std::memcmp(mapped->find(*r.weight, r.layout), (*packed)->find(*r.weight, r.layout), r.bytes), 0);
    EXPECT_EQ(std::memcmp((*copied)->find(*r.weight, r.layout), (*packed)->find(*r.weight, r.layout), r.bytes), 0);
  }
}

TEST_F(ImageTest, EveryByteOfHeaderAndTableCounts) {
  Bytes bytes = built();
  ASSERT_TRUE(Image::parse(bytes, "x").ok());
  ImageHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t i = 0; i < kImagePage + header.table_bytes; ++i) {
    bytes[i] ^= std::byte{1};
    const auto image = Image::parse(bytes, "x.quern");
    ASSERT_FALSE(image.ok()) << "byte " << i;
    EXPECT_EQ(image.error().message.rfind("x.quern: ", 0), 0U) << image.error().message;
    EXPECT_EQ(image.error().status, i >= 8 && i < 12 ? Status::unsupported : Status::invalid_file) << i;
    bytes[i] ^= std::byte{1};
  }
  for (const size_t n : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{9000}, bytes.size() - 1})
    EXPECT_FALSE(Image::parse(std::span(bytes).first(n), "x").ok()) << n;
  bytes.resize(bytes.size() + 1);
  EXPECT_FALSE(Image::parse(bytes, "x").ok());
}

// Checksums that fit do not help a table that points outside: as an attacker, or a bug, would write it.
TEST_F(ImageTest, ATableThatPointsOutsideIsRefused) {
  const Bytes good = built();
  const auto with = [&](auto change) {
    Bytes bytes = good;
    auto* header = reinterpret_cast<ImageHeader*>(bytes.data());
    auto* entries = reinterpret_cast<ImageEntry*>(bytes.data() + kImagePage);
    change(*header, entries);
    if (header->table_bytes <= bytes.size() - kImagePage)
      header->table_checksum = XXH3_64bits(bytes.data() + kImagePage, header->table_bytes);
    header->header_checksum = header_checksum(*header);
    return Image::parse(bytes, "x").ok();
  };
  EXPECT_TRUE(with([](ImageHeader&, ImageEntry*) {}));
  EXPECT_TRUE(with([](ImageHeader&, ImageEntry* e) { e->checksum ^= 1; })) << "the test's own checksums are wrong";
  EXPECT_FALSE(with([](ImageHeader& h, ImageEntry*) { h.n_entries = UINT32_MAX; }));
  EXPECT_FALSE(with([](ImageHeader& h, ImageEntry*) { h.table_bytes = UINT64_MAX; }));
  EXPECT_FALSE(with([](ImageHeader& h, ImageEntry*) { h.source_offset = UINT32_MAX; }));
  EXPECT_FALSE(with([](ImageHeader& h, ImageEntry*) { h.source_bytes = UINT32_MAX; }));
  EXPECT_FALSE(with([](ImageHeader&, ImageEntry* e) { e->name_bytes = UINT32_MAX; }));
  EXPECT_FALSE(with([](ImageHeader&, ImageEntry* e) { e->name_offset = UINT32_MAX; }));
  EXPECT_FALSE(with([](ImageHeader&, ImageEntry* e) { e->bytes = UINT64_MAX; }));
  EXPECT_FALSE(with([](ImageHeader&, ImageEntry* e) { e->offset = UINT64_MAX - kImagePage + 1; }));
  EXPECT_FALSE(with([](ImageHeader&, ImageEntry* e) { e->offset = 0; }));
  EXPECT_FALSE(with([](ImageHeader&, ImageEntry* e) { e->offset += 64; }));
}

TEST_F(ImageTest, DamagedPlanes) {
  Bytes bytes = built();
  const auto image = Image::parse(bytes, "x");
  ASSERT_TRUE(image.ok());
  size_t large = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const ImageEntry e = image->entries()[i];
    const auto flipped = [&](uint64_t at, auto check) {
      bytes[e.offset + at] ^= std::byte{0x10};
      check();
      bytes[e.offset + at] ^= std::byte{0x10};
    };
    for (const uint64_t at : {uint64_t{0}, e.bytes - 1}) {
      flipped(at, [&] {
        const auto result = serves(*image);
        ASSERT_FALSE(result.ok());
        EXPECT_NE(result.error().message.find(requests_[i].weight->name), std::string::npos);
        EXPECT_FALSE(image->verify({}).ok());
      });
    }
    if (e.bytes <= 2 * kImagePage + 1) continue;
    ++large;
    flipped(e.bytes / 2, [&] {
      EXPECT_TRUE(serves(*image).ok()) << "the quick check looks at the ends only";
      EXPECT_FALSE(image->verify({}).ok());
    });
  }
  EXPECT_GT(large, 0U);
  EXPECT_TRUE(serves(*image).ok() && image->verify({}).ok());
}

TEST_F(ImageTest, ServesOnlyWhatItWasMadeOf) {
  const Bytes bytes = built();
  const auto image = Image::parse(bytes, "x");
  ASSERT_TRUE(image.ok() && serves(*image).ok());
  ImageKey key = key_;
  key.identity[1] ^= 1;
  EXPECT_FALSE(image->check_serves(*file_, key, requests_).ok());
  key = key_;
  ++key.source_mtime_ns;
  EXPECT_FALSE(image->check_serves(*file_, key, requests_).ok()) << "the model file is newer";
  key.source_mtime_ns -= 2;
  EXPECT_TRUE(image->check_serves(*file_, key, requests_).ok()) << "an older copy of the same bytes";
  auto fewer = requests_;
  fewer.pop_back();
  EXPECT_FALSE(image->check_serves(*file_, key_, fewer).ok());
  EXPECT_NE(image_key(*file_, fewer).value().identity, key_.identity);
  auto swapped = requests_;
  std::swap(swapped[0], swapped[1]);
  EXPECT_FALSE(image->check_serves(*file_, key_, swapped).ok());
  EXPECT_NE(image_key(*file_, swapped).value().identity, key_.identity);
}

TEST_F(ImageTest, TheIdentityIsThatOfTheBytesNotOfTheName) {
  const std::string copy = folder_ + "/other-name.gguf";
  fs::copy_file(file_->path(), copy);
  const auto key_of = [&] {
    const auto file = file::GgufFile::open(copy);
    const auto model = model::load_model(*file, 0);
    return image_key(*file, plan::pack_requests(**model, detect_cpu().isa_mask)).value();
  };
  EXPECT_EQ(key_of().identity, key_.identity);
  EXPECT_EQ(key_of().file_name().rfind("other-name-", 0), 0U);
  const auto* tensor = file_->find_tensor(requests_.back().weight->name);
  ASSERT_NE(tensor, nullptr);
  std::fstream out(copy, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(tensor->file_offset + tensor->bytes - 1));
  out.put(static_cast<char>(std::to_integer<int>(tensor->data[tensor->bytes - 1]) ^ 1)).flush();
  EXPECT_NE(key_of().identity, key_.identity);
}

TEST_F(ImageTest, AWriterThatEndsEarlyLeavesNothing) {
  std::atomic<bool> stop{true};
  {
    auto writer = ImageWriter::create(path_, *file_, key_, requests_);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    EXPECT_EQ(n_files(), 1U);
    EXPECT_FALSE(fs::exists(path_));
    const Bytes plane(requests_[0].bytes);
    const auto stopped = writer->append(plane, &stop);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().status, Status::cancelled);
  }
  EXPECT_EQ(n_files(), 0U);
}

TEST_F(ImageTest, NoSpaceIsAnErrorBeforeAndWhileWriting) {
  {
    const FileSizeLimit limit(4096);
    const auto refused = build();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().status, Status::io_error);
    EXPECT_NE(refused.error().message.find(path_), std::string::npos);
  }
  EXPECT_EQ(n_files(), 0U);
  {
    auto writer = ImageWriter::create(path_, *file_, key_, requests_);
    ASSERT_TRUE(writer.ok());
    const FileSizeLimit limit(8192);
    Result<void> written;
    for (const auto& request : requests_) {
      if (written.ok()) written = writer->append(Bytes(request.bytes));
    }
    if (written.ok()) written = writer->commit();
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().status, Status::io_error);
  }
  EXPECT_EQ(n_files(), 0U);
  EXPECT_TRUE(build().ok()) << "the limit is gone";
}

TEST_F(ImageTest, AFolderThatCannotBeIsAnError) {
  put(folder_ + "/file", "");
  const auto refused = build_image(folder_ + "/file/x.quern", *file_, key_, requests_, team_, {}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, Status::io_error);
  EXPECT_TRUE(build_image(folder_ + "/a/b/x.quern", *file_, key_, requests_, team_, {}, {}).ok()) << "made when absent";
}

TEST_F(ImageTest, WhatOthersAbandonedIsRemovedAndWhatTheyWriteIsNot) {
  put(path_ + ".tmp1-0", "of a process that was killed");
  put(folder_ + "/other-0123456789abcdef.quern.tmp1-0", "of another image");
  put(path_ + ".tmp1-1", "being written");
  const int held = ::open((path_ + ".tmp1-1").c_str(), O_RDWR);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  ASSERT_TRUE(build().ok());
  EXPECT_FALSE(fs::exists(path_ + ".tmp1-0"));
  EXPECT_TRUE(fs::exists(path_ + ".tmp1-1"));
  const Temporaries left = remove_abandoned(folder_, "");
  EXPECT_EQ(left.removed, 1U);
  EXPECT_EQ(left.held, 1U);
  ::close(held);
  EXPECT_EQ(remove_abandoned(folder_, "").removed, 1U);
  EXPECT_EQ(n_files(), 1U);
  EXPECT_TRUE(fs::exists(path_)) << "a finished image is not touched";
}

// Of one model file there is one image per kind of processor, that of the file as it is now.
TEST_F(ImageTest, ANewImageReplacesOldOnesOfItsModelFileAndNoOthers) {
  const std::string prefix = folder_ + "/" + key_.file_name_prefix();
  const auto write = [&](const std::string& tail, auto change) {
    ImageKey key = key_;
    change(key);
    std::string path = prefix + tail + ".quern";
    EXPECT_TRUE(build_image(path, *file_, key, requests_, team_, {}, {}).ok());
    return path;
  };
  // In an order in which none deletes one before it.
  const auto other_source = write("0000000000000001", [](ImageKey& k) { k.source = "/elsewhere/" + k.source; });
  const auto other_flavour = write("0000000000000002", [](ImageKey& k) { k.flavour ^= 1; });
  const auto long_name = write("0000000000000003-longer", [](ImageKey& k) { k.flavour ^= 4; });
  const auto same_flavour = write("0000000000000004", [](ImageKey& k) { k.identity[0] ^= 1; });
  // Written by hand, since a writer would delete others: of another flavour, and of the file as it was before.
  const std::string older = prefix + "0000000000000005.quern";
  Bytes bytes = read_bytes(same_flavour);
  auto* header = reinterpret_cast<ImageHeader*>(bytes.data());
  header->flavour ^= 2;
  header->source_mtime_ns -= 1;
  header->header_checksum = header_checksum(*header);
  put(older, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  put(prefix + "0000000000000006.quern", "unreadable");
  put(folder_ + "/other-0000000000000006.quern", "unreadable, of another model");
  ASSERT_TRUE(build().ok());
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_TRUE(fs::exists(other_source));
  EXPECT_TRUE(fs::exists(other_flavour));
  EXPECT_TRUE(fs::exists(long_name)) << "not a name of ours";
  EXPECT_FALSE(fs::exists(same_flavour));
  EXPECT_FALSE(fs::exists(older));
  EXPECT_FALSE(fs::exists(prefix + "0000000000000006.quern"));
  EXPECT_TRUE(fs::exists(folder_ + "/other-0000000000000006.quern"));
}

TEST_F(ImageTest, SaverLeavesTheWritingToWhoIsAtIt) {
  const auto packed = WeightStore::pack(requests_, team_, {}, {});
  ASSERT_TRUE(packed.ok());
  {
    auto writer = ImageWriter::create(path_, *file_, key_, requests_);
    ASSERT_TRUE(writer.ok());
    ImageSaver saver(path_, *file_, key_, requests_, **packed);
    saver.wait();
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_EQ(n_files(), 1U) << "the other's";
  }
  ImageSaver saver(path_, *file_, key_, requests_, **packed);
  saver.wait();
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(ImageTest, SaverWritesWhatTheForegroundWrites) {
  const Bytes expected = built();
  fs::remove(path_);
  const auto packed = WeightStore::pack(requests_, team_, {}, {});
  ASSERT_TRUE(packed.ok());
  {
    ImageSaver saver(path_, *file_, key_, requests_, **packed);
    saver.wait();
    EXPECT_EQ(read_bytes(path_), expected);
  }
  fs::remove(path_);
  { ImageSaver saver(path_, *file_, key_, requests_, **packed); }
  EXPECT_EQ(read_bytes(path_), expected) << "the end of a short run waits a moment";
  EXPECT_EQ(n_files(), 1U);
}

TEST(ImageMemory, CopyLeavesAQuarter) {
  EXPECT_EQ(weight_room(4000), 3000U);
  EXPECT_EQ(weight_room(0), 0U);
  EXPECT_LT(weight_room(UINT64_MAX), UINT64_MAX);
  EXPECT_GT(available_memory(), 0U);
}

TEST(ImageMemory, CopyIsTheSame) {
  Team team(3);
  for (const size_t bytes : {size_t{1}, size_t{4096}, (size_t{8} << 20) + 5, (size_t{32} << 20) - 3}) {
    Bytes from(bytes);
    std::mt19937_64 rng(bytes);
    for (size_t i = 0; i + 8 <= bytes; i += 4096) {
      const uint64_t word = rng();
      std::memcpy(from.data() + i, &word, 8);
    }
    const std::string path = ::testing::TempDir() + "/copied";
    put(path, std::string(reinterpret_cast<const char*>(from.data()), bytes));
    const auto mapped = MappedFile::open(path);
    ASSERT_TRUE(mapped.ok());
    uint64_t last = 0;
    const auto copy = copy_mapping(mapped->bytes(), team, [&](uint64_t done, uint64_t total) {
      EXPECT_GT(done, last);
      EXPECT_EQ(total, bytes);
      last = done;
    });
    ASSERT_TRUE(copy.ok());
    EXPECT_EQ(last, bytes);
    EXPECT_EQ(std::memcmp(copy->data(), from.data(), bytes), 0);
    fs::remove(path);
  }
}

// Guards kLayoutVersion: packed bytes that change without it would make old images serve new kernels.
TEST(Layout, BytesAreThoseOfTheVersion) {
  constexpr int64_t kRows = 21, kCols = 512;
  uint64_t hash = kLayoutVersion;
  for (int f = 0; f < format::kFormatCount; ++f) {
    const auto which = static_cast<format::Format>(f);
    std::mt19937 rng(static_cast<uint32_t>(f));
    Bytes stored(format::row_bytes(which, kCols) * kRows);
    for (std::byte& b : stored) b = static_cast<std::byte>(rng());
    const auto* kernel = kernels::find_kernel({kernels::Op::repack,
                                               which,
                                               format::ActivationFormat::f32,
                                               kernels::Layout::x16,
                                               kernels::RowClass::prefill,
                                               {kRows, kCols}},
                                              1U << static_cast<int>(Isa::generic));
    ASSERT_NE(kernel, nullptr);
    Bytes packed(kernels::x16_bytes(which, kRows, kCols));
    const kernels::RepackArgs args{which, stored.data(), kRows, kCols, packed.data()};
    kernel->fn(&args, {}, {0, 1, nullptr});
    hash = XXH3_64bits_withSeed(packed.data(), packed.size(), hash);
  }
  EXPECT_EQ(hash, 0xefed3e7df27d7ab3ULL) << "raise kLayoutVersion and put this number here: " << std::hex << hash;
}

}  // namespace
}  // namespace quern::exec
