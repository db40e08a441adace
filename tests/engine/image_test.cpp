// Engines with prepared images: the same bits as without, whatever is wrong with an image or its folder.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "engine/images.h"
#include "exec/image.h"
#include "tiny.h"

namespace quern::engine {
namespace {

namespace fs = std::filesystem;

class ImageFolder {
 public:
  ImageFolder() {
    char name[] = "/tmp/quern-images-XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path = name;
  }
  ~ImageFolder() { fs::remove_all(path); }
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(path)) all.push_back(entry.path().string());
    return all;
  }
  std::string path;
};

EngineOptions options_for(const std::string& image_dir) {
  EngineOptions options;
  options.n_threads = 2;
  options.n_ctx = 128;
  options.image_dir = image_dir;
  return options;
}

struct Outcome {
  std::vector<float> logits;
  bool from_image = false, mapped = false;
  std::string warnings;
};

Outcome run(const std::string& model, const EngineOptions& options) {
  static const auto tokens = some_tokens(20, 3);
  Outcome result;
  ::testing::internal::CaptureStderr();
  {
    const auto engine = Engine::load(model, options);
    if (!engine.ok()) {
      ADD_FAILURE() << engine.error().message;
    } else {
      result.from_image = (*engine)->weights_from_image();
      result.mapped = (*engine)->weights_mapped();
      auto session = (*engine)->new_session();
      const auto done = (*session)->logits_of_all(tokens, [&](int, int, std::span<const float> rows) -> Result<void> {
        result.logits.insert(result.logits.end(), rows.begin(), rows.end());
        return {};
      });
      EXPECT_TRUE(done.ok()) << done.error().message;
      (*engine)->wait_for_image();
    }
  }
  result.warnings = ::testing::internal::GetCapturedStderr();
  return result;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string model_path(const char* name) {
  return tiny_dir() + "/" + name + ".gguf";
}

// Models of which nothing is packed on this processor (all in plain floats, say) have no image.
TEST(Image, EveryModelSaysTheSameWithAndWithout) {
  size_t with_image = 0;
  for (const std::string& model : tiny_models()) {
    SCOPED_TRACE(model);
    const ImageFolder folder;
    const Outcome without = run(model, options_for(""));
    const Outcome first = run(model, options_for(folder.path));
    EXPECT_TRUE(same(without.logits, first.logits));
    EXPECT_FALSE(without.from_image || first.from_image);
    EXPECT_EQ(first.warnings, without.warnings);
    const bool made = !folder.files().empty();
    const Outcome second = run(model, options_for(folder.path));
    EXPECT_TRUE(same(without.logits, second.logits));
    EXPECT_EQ(second.from_image, made);
    EXPECT_EQ(second.warnings, without.warnings);
    EXPECT_EQ(folder.files().size(), made ? 1U : 0U);
    with_image += made ? 1 : 0;
    EngineOptions map = options_for(folder.path);
    map.image_mode = ImageMode::map;
    const Outcome mapped = run(model, map);
    EXPECT_TRUE(same(without.logits, mapped.logits));
    EXPECT_EQ(mapped.mapped, made);
    EXPECT_FALSE(second.mapped);
    EngineOptions off = options_for(folder.path);
    off.image_mode = ImageMode::off;
    EXPECT_FALSE(run(model, off).from_image);
  }
  EXPECT_GT(with_image, 10U);
}

class BadImage : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = model_path("llama-q-q4_1");
    expected_ = run(model_, options_for("")).logits;
    const auto made = prepare_image(model_, options_for(folder_.path));
    ASSERT_TRUE(made.ok()) << made.error().message;
    if (made->path.empty()) GTEST_SKIP() << "this processor's kernels read weights as they are stored";
    EXPECT_FALSE(made->was_there);
    image_ = made->path;
    EXPECT_TRUE(prepare_image(model_, options_for(folder_.path))->was_there);
    ASSERT_TRUE(run(model_, options_for(folder_.path)).from_image);
  }
  void flip(uint64_t at) const {
    std::fstream f(image_, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    const int byte = f.get();
    f.seekp(static_cast<std::streamoff>(at));
    f.put(static_cast<char>(byte ^ 0x11));
  }
  // Noticed, named in one line, the answer right, and a good image there afterwards.
  void expect_rebuilt(const std::string& why) const {
    const Outcome bad = run(model_, options_for(folder_.path));
    EXPECT_FALSE(bad.from_image);
    EXPECT_TRUE(same(bad.logits, expected_));
    EXPECT_NE(bad.warnings.find(image_), std::string::npos) << bad.warnings;
    EXPECT_NE(bad.warnings.find(why), std::string::npos) << bad.warnings;
    EXPECT_EQ(std::count(bad.warnings.begin(), bad.warnings.end(), '\n'), 1) << bad.warnings;
    const Outcome good = run(model_, options_for(folder_.path));
    EXPECT_TRUE(good.from_image);
    EXPECT_EQ(good.warnings, "");
    EXPECT_TRUE(same(good.logits, expected_));
    EXPECT_TRUE(verify_image(image_, {}).ok());
    EXPECT_EQ(folder_.files().size(), 1U);
  }

  ImageFolder folder_;
  std::string model_, image_;
  std::vector<float> expected_;
};

TEST_F(BadImage, Header) {
  flip(40);
  expect_rebuilt("header");
}
TEST_F(BadImage, HeaderPadding) {
  flip(3000);
  expect_rebuilt("header");
}
TEST_F(BadImage, Table) {
  flip(4096 + 17);
  expect_rebuilt("table");
}
TEST_F(BadImage, NotAnImage) {
  flip(0);
  expect_rebuilt("not an image");
}
TEST_F(BadImage, OtherVersion) {
  flip(8);
  expect_rebuilt("version");
}
TEST_F(BadImage, Truncated) {
  fs::resize_file(image_, fs::file_size(image_) - 4096);
  expect_rebuilt("bytes instead of");
}
TEST_F(BadImage, Empty) {
  fs::resize_file(image_, 0);
  expect_rebuilt("only 0 bytes");
}
TEST_F(BadImage, HoleWhereTheLastPlaneWas) {
  const auto bytes = fs::file_size(image_);
  fs::resize_file(image_, bytes - 8192);
  fs::resize_file(image_, bytes);
  expect_rebuilt("wrong bytes in");
}
TEST_F(BadImage, OfAnotherModel) {
  const ImageFolder other;
  const auto made = prepare_image(model_path("llama-q-q4_0"), options_for(other.path));
  ASSERT_TRUE(made.ok() && !made->path.empty());
  fs::copy_file(made->path, image_, fs::copy_options::overwrite_existing);
  expect_rebuilt("another model file");
}

TEST_F(BadImage, OfTheModelFileBeforeItWasReplaced) {
  const ImageFolder models, images;
  const std::string model = models.path + "/m.gguf";
  fs::copy_file(model_, model);
  ASSERT_FALSE(run(model, options_for(images.path)).from_image);
  ASSERT_EQ(images.files().size(), 1U);
  const std::string first = images.files()[0];
  ASSERT_EQ(images_of(model, images.path).size(), 1U);
  EXPECT_EQ(images_of(model, images.path)[0].path, first);
  EXPECT_TRUE(images_of(model_, images.path).empty());
  fs::copy_file(model_path("llama-q-q4_0"), model, fs::copy_options::overwrite_existing);
  const Outcome other = run(model, options_for(images.path));
  EXPECT_FALSE(other.from_image);
  EXPECT_TRUE(same(other.logits, run(model_path("llama-q-q4_0"), options_for("")).logits));
  ASSERT_EQ(images.files().size(), 1U) << "old images pile up";
  EXPECT_NE(images.files()[0], first);
  EXPECT_TRUE(run(model, options_for(images.path)).from_image);
}

// The quick check cannot see it; that the answer changes shows that the image is what is computed with.
TEST_F(BadImage, DamageInTheMiddleChangesTheAnswer) {
  const auto image = exec::Image::open(image_);
  ASSERT_TRUE(image.ok());
  std::fstream f(image_, std::ios::in | std::ios::out | std::ios::binary);
  for (const exec::ImageEntry& entry : image->entries()) {
    if (entry.bytes <= 8192) continue;
    const auto middle = image->file().subspan(entry.offset + 4096, entry.bytes - 8192);
    std::string changed(middle.size(), '\0');
    std::transform(middle.begin(), middle.end(), changed.begin(),
                   [](std::byte b) { return static_cast<char>(std::to_integer<int>(b) ^ 0x11); });
    f.seekp(static_cast<std::streamoff>(entry.offset + 4096)).write(changed.data(), std::ssize(changed));
  }
  f.close();
  const Outcome bad = run(model_, options_for(folder_.path));
  EXPECT_TRUE(bad.from_image);
  EXPECT_EQ(bad.warnings, "");
  EXPECT_FALSE(same(bad.logits, expected_));
  EXPECT_FALSE(verify_image(image_, {}).ok());
}

TEST_F(BadImage, OneByteInTheMiddle) {
  flip(fs::file_size(image_) / 2);
  const auto verified = verify_image(image_, {});
  ASSERT_FALSE(verified.ok());
  EXPECT_NE(verified.error().message.find(image_), std::string::npos);
}

TEST_F(BadImage, TheModelFileChangedInPlace) {
  const ImageFolder models;
  const std::string model = models.path + "/m.gguf";
  fs::copy_file(model_, model);
  const auto made = prepare_image(model, options_for(folder_.path));
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(run(model, options_for(folder_.path)).from_image);
  fs::last_write_time(model, fs::last_write_time(model) + std::chrono::seconds(2));
  const Outcome changed = run(model, options_for(folder_.path));
  EXPECT_FALSE(changed.from_image);
  EXPECT_NE(changed.warnings.find("has changed"), std::string::npos) << changed.warnings;
  EXPECT_TRUE(run(model, options_for(folder_.path)).from_image);
}

TEST_F(BadImage, ListNamesStates) {
  const ImageFolder models;
  const std::string model = models.path + "/m.gguf";
  fs::copy_file(model_, model);
  ASSERT_TRUE(prepare_image(model, options_for(folder_.path)).ok());
  auto all = list_images(options_for(folder_.path));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].path, image_);
  EXPECT_EQ(all[0].model, fs::absolute(model_).lexically_normal().string());
  EXPECT_EQ(all[0].bytes, fs::file_size(image_));
  EXPECT_EQ(all[0].why_not, "");
  EXPECT_EQ(all[1].why_not, "");
  fs::remove(model);
  flip(40);
  all = list_images(options_for(folder_.path));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NE(all[0].why_not.find("damaged"), std::string::npos) << all[0].why_not;
  EXPECT_NE(all[1].why_not.find(model), std::string::npos) << all[1].why_not;
  EXPECT_TRUE(remove_image(all[1].path).ok());
  EXPECT_TRUE(remove_image(all[1].path).ok()) << "gone already";
  EXPECT_EQ(folder_.files().size(), 1U);
}

TEST_F(BadImage, AFullDiskLosesNothing) {
  fs::remove(image_);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{8192, before.rlim_max};
  ImageFolder scratch;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto engine = Engine::load(model_, options_for(folder_.path));
  ASSERT_TRUE(engine.ok());
  (*engine)->wait_for_image();
  const auto refused = prepare_image(model_, options_for(folder_.path));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(image_), std::string::npos) << refused.error().message;
  EXPECT_TRUE(folder_.files().empty());
  EXPECT_TRUE(same(run(model_, options_for(folder_.path)).logits, expected_));
  EXPECT_TRUE(run(model_, options_for(folder_.path)).from_image) << "the disk has room again";
}

TEST_F(BadImage, AFolderThatCannotBeWrittenIsOneWarning) {
  const std::string blocked = folder_.path + "/file/images";
  std::ofstream(folder_.path + "/file") << "in the way";
  const Outcome blocked_run = run(model_, options_for(blocked));
  EXPECT_TRUE(same(blocked_run.logits, expected_));
  EXPECT_FALSE(blocked_run.from_image);
  EXPECT_NE(blocked_run.warnings.find(blocked), std::string::npos) << blocked_run.warnings;
  EXPECT_EQ(std::count(blocked_run.warnings.begin(), blocked_run.warnings.end(), '\n'), 1) << blocked_run.warnings;
}

TEST_F(BadImage, TwoAtOnce) {
  fs::remove(image_);
  std::vector<float> logits[4];
  std::vector<std::thread> threads;
  for (auto& out : logits) {
    threads.emplace_back([&] { out = all_logits(model_, options_for(folder_.path), some_tokens(20, 3)); });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& out : logits) EXPECT_TRUE(same(out, expected_));
  ASSERT_EQ(folder_.files(), std::vector<std::string>{image_});
  EXPECT_TRUE(verify_image(image_, {}).ok());
  EXPECT_TRUE(run(model_, options_for(folder_.path)).from_image);
}

// An engine keeps its mapping while its image is deleted and made anew.
TEST_F(BadImage, DeletedUnderARunningEngine) {
  EngineOptions options = options_for(folder_.path);
  options.image_mode = ImageMode::map;
  const auto engine = Engine::load(model_, options);
  ASSERT_TRUE(engine.ok() && (*engine)->weights_mapped());
  ASSERT_TRUE(remove_image(image_).ok());
  auto session = (*engine)->new_session();
  std::vector<float> logits;
  const auto done = (*session)->logits_of_all(some_tokens(20, 3), [&](int, int, auto rows) -> Result<void> {
    logits.insert(logits.end(), rows.begin(), rows.end());
    return {};
  });
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(same(logits, expected_));
}

// A model that is larger than memory runs from an image that is made first; its experts are asked for early.
TEST(EngineImage, AModelLargerThanMemoryRunsFromDisk) {
  for (const char* name : {"gpt-oss-q-mxfp4", "llama"}) {
    const Outcome plain = run(model_path(name), options_for(""));
    const ImageFolder folder;
    EngineOptions options = options_for(folder.path);
    options.memory_bytes = 1000;
    const Outcome first = run(model_path(name), options);
    EXPECT_TRUE(same(plain.logits, first.logits));
    EXPECT_TRUE(first.from_image && first.mapped);
    EXPECT_NE(first.warnings.find("do not fit into memory"), std::string::npos) << first.warnings;
    const Outcome second = run(model_path(name), options);
    EXPECT_TRUE(same(plain.logits, second.logits));
    EXPECT_TRUE(second.mapped);
    EXPECT_EQ(second.warnings.find("do not fit"), std::string::npos) << second.warnings;

    const auto engine = Engine::load(model_path(name), options);
    ASSERT_TRUE(engine.ok());
    const bool asks = (*engine)->plan_text().find("read_ahead") != std::string::npos;
    EXPECT_EQ(asks, std::string(name) != "llama");
    options.memory_bytes = 0;
    const auto with_room = Engine::load(model_path(name), options);
    ASSERT_TRUE(with_room.ok());
    EXPECT_EQ((*with_room)->plan_text().find("read_ahead"), std::string::npos);
  }
}

TEST(EngineImage, AModelLargerThanMemoryWithoutImagesIsAnError) {
  EngineOptions options = options_for("");
  options.memory_bytes = 1000;
  const auto engine = Engine::load(model_path("llama"), options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().status, Status::out_of_memory);
  EXPECT_NE(engine.error().message.find("--image auto"), std::string::npos) << engine.error().message;
}

// Nowhere to write the image to: an error that says so, and nothing left behind.
TEST(EngineImage, AModelLargerThanMemoryWithNoRoomForAnImageIsAnError) {
  const ImageFolder folder;
  EngineOptions options = options_for(folder.path + "/file/images");
  std::ofstream(folder.path + "/file") << "no folder";
  options.memory_bytes = 1000;
  ::testing::internal::CaptureStderr();
  const auto engine = Engine::load(model_path("llama"), options);
  (void)::testing::internal::GetCapturedStderr();
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find(folder.path), std::string::npos) << engine.error().message;
}

}  // namespace
}  // namespace quern::engine
