// Timelines over restarts: the same bits with and without the folder, what is kept, and what is not believed.
#include "serve/prefix_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "serve_testing.h"

namespace quern::serve {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("quern-prefix-" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path_, error)) all.push_back(entry.path().string());
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  fs::path path_;
};

SchedulerOptions options_of(const std::string& folder, uint64_t bytes = uint64_t{1} << 30) {
  SchedulerOptions options;
  options.prefix_folder = folder;
  options.prefix_folder_bytes = bytes;
  return options;
}

Request scored(std::vector<int32_t> prompt, int max_tokens = 12) {
  Request r = request(std::move(prompt), max_tokens);
  r.ignore_eog = true;
  r.n_logprobs = 3;
  return r;
}

struct Served {
  std::vector<Answer> answers;
  SchedulerStats stats;
};

// A process of its own, as far as the folder can see: an engine, requests one after another, the end.
Served serve_all(const std::string& model, const SchedulerOptions& options,
                 const std::vector<std::vector<int32_t>>& prompts, int n_ctx = 512) {
  const auto scheduler = start(load_tiny(model, n_ctx), options);
  Served all;
  for (const auto& prompt : prompts) all.answers.push_back(ask(*scheduler, scored(prompt)));
  all.stats = scheduler->stats();
  scheduler->stop();
  return all;
}

void expect_same_bits(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.scores.size(), b.scores.size());
  ASSERT_FALSE(a.scores.empty());
  for (size_t i = 0; i < a.scores.size(); ++i)
    EXPECT_EQ(std::memcmp(&a.scores[i].log_prob, &b.scores[i].log_prob, sizeof(float)), 0) << i;
}

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

void write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::byte> longer(std::vector<std::byte> bytes) {
  bytes.push_back(std::byte{0});
  return bytes;
}

// Models of one kind of pages, of two (a window), and with quantized weights.
class PrefixStoreOf : public testing::TestWithParam<const char*> {};

TEST_P(PrefixStoreOf, ARestartGivesTheSameBits) {
  const auto first = engine::some_tokens(200, 1), next = joined(first, engine::some_tokens(40, 2));
  const Served plain = serve_all(GetParam(), {}, {first, next});
  const Folder folder;
  const Served before = serve_all(GetParam(), options_of(folder.path()), {first});
  EXPECT_EQ(before.stats.n_restored, 0U);
  ASSERT_EQ(folder.files().size(), 1U);
  const Served after = serve_all(GetParam(), options_of(folder.path()), {next, first});
  EXPECT_EQ(after.stats.n_restored, 1U) << "the second finds the first one's in memory";
  EXPECT_EQ(after.answers[0].prompt.n_cached, 192) << "whole pages of what was evaluated";
  expect_same_bits(plain.answers[1], after.answers[0]);
  expect_same_bits(plain.answers[0], after.answers[1]);
  expect_same_bits(plain.answers[0], before.answers[0]);
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixStoreOf, testing::Values("llama", "gemma3", "qwen3-q-bf16", "gpt-oss"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(PrefixStore, PagesBehindAWindowMayBeMissing) {
  const auto long_one = engine::some_tokens(1500, 20), next = joined(long_one, engine::some_tokens(20, 21));
  const std::vector<int32_t> early = joined({long_one.begin(), long_one.begin() + 200}, engine::some_tokens(20, 22));
  const Served plain = serve_all("gemma3", {}, {next, early}, 2048);
  const Folder folder;
  serve_all("gemma3", options_of(folder.path()), {long_one}, 2048);
  const Served after = serve_all("gemma3", options_of(folder.path()), {next, early}, 2048);
  EXPECT_EQ(after.stats.n_restored, 1U);
  EXPECT_EQ(after.answers[0].prompt.n_cached, 1472);
  expect_same_bits(plain.answers[0], after.answers[0]);
  // What lies before the window is gone: there is nothing to go on from.
  EXPECT_EQ(after.answers[1].prompt.n_cached, 0);
  expect_same_bits(plain.answers[1], after.answers[1]);
  // Another process, which has nothing in memory.
  const Served other = serve_all("gemma3", options_of(folder.path()), {early}, 2048);
  EXPECT_EQ(other.stats.n_restored, 0U);
  expect_same_bits(plain.answers[1], other.answers[0]);
}

TEST(PrefixStore, PagesAreReallyRead) {
  const auto prompt = engine::some_tokens(150, 3);
  const Served plain = serve_all("llama", {}, {prompt});
  const Folder folder;
  serve_all("llama", options_of(folder.path()), {prompt});
  ASSERT_EQ(folder.files().size(), 1U);
  // A forger's file: other bytes, right checksums. If its answer is the same, nothing was read.
  auto bytes = read_bytes(folder.files()[0]);
  PrefixHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t records_at = sizeof header + header.n_tokens * sizeof(int32_t);
  for (uint64_t i = 0; i < header.n_pages; ++i) {
    PageRecord record{};
    std::memcpy(&record, bytes.data() + records_at + i * sizeof record, sizeof record);
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(record.offset), record.bytes, std::byte{0x2c});
    record.checksum = prefix_checksum(std::span(bytes).subspan(record.offset, record.bytes));
    std::memcpy(bytes.data() + records_at + i * sizeof record, &record, sizeof record);
  }
  header.head_checksum = prefix_head_checksum(
      header,
      std::span(bytes).subspan(sizeof header, records_at - sizeof header + header.n_pages * sizeof(PageRecord)));
  std::memcpy(bytes.data(), &header, sizeof header);
  write_bytes(folder.files()[0], bytes);
  const Served forged = serve_all("llama", options_of(folder.path()), {prompt});
  EXPECT_EQ(forged.stats.n_restored, 1U);
  EXPECT_NE(std::memcmp(&plain.answers[0].scores[0].log_prob, &forged.answers[0].scores[0].log_prob, sizeof(float)), 0);
}

TEST(PrefixStore, DamagedFilesAreIgnored) {
  const auto prompt = engine::some_tokens(150, 4);
  const Served plain = serve_all("llama", {}, {prompt});
  const Folder folder;
  serve_all("llama", options_of(folder.path()), {prompt});
  ASSERT_EQ(folder.files().size(), 1U);
  const std::string path = folder.files()[0];
  const auto good = read_bytes(path);
  const size_t tokens_at = sizeof(PrefixHeader), records_at = tokens_at + 128 * sizeof(int32_t);
  const auto flip = [&](size_t at) {
    auto bytes = good;
    bytes[at] ^= std::byte{1};
    return bytes;
  };
  const std::vector<std::pair<const char*, std::vector<std::byte>>> damages = {
      {"magic", flip(0)},
      {"identity", flip(8)},
      {"number of tokens", flip(24)},
      {"number of pages", flip(32)},
      {"size", flip(40)},
      {"checksum", flip(48)},
      {"a token", flip(tokens_at + 40)},
      {"a record", flip(records_at + 9)},
      {"a page", flip(good.size() - 100)},
      {"cut", {good.begin(), good.end() - 1}},
      {"cut in the head", {good.begin(), good.begin() + 60}},
      {"cut in the header", {good.begin(), good.begin() + 20}},
      {"longer", longer(good)},
      {"empty", {}},
  };
  for (const auto& [what, bytes] : damages) {
    write_bytes(path, bytes);
    const Served after = serve_all("llama", options_of(folder.path()), {prompt});
    EXPECT_EQ(after.stats.n_restored, 0U) << what;
    EXPECT_EQ(after.answers[0].prompt.n_cached, 0) << what;
    expect_same_bits(plain.answers[0], after.answers[0]);
    // The end wrote it anew, under its own name.
    EXPECT_EQ(read_bytes(path), good) << what;
  }
  EXPECT_EQ(serve_all("llama", options_of(folder.path()), {prompt}).stats.n_restored, 1U)
      << "the control: the good one is read";
}

TEST(PrefixStore, OtherModelsContextsAndKernelsDoNotMeet) {
  const auto prompt = engine::some_tokens(150, 5);
  const Folder folder;
  serve_all("llama", options_of(folder.path()), {prompt});
  EXPECT_EQ(serve_all("gemma3", options_of(folder.path()), {prompt}).stats.n_restored, 0U);
  EXPECT_EQ(serve_all("llama", options_of(folder.path()), {prompt}, 256).stats.n_restored, 0U);
  EXPECT_EQ(folder.files().size(), 3U);
  EXPECT_EQ(serve_all("llama", options_of(folder.path()), {prompt}).stats.n_restored, 1U);
  const auto identity = [](const std::string& isa) {
    engine::EngineOptions options;
    options.n_threads = 1;
    options.n_ctx = 512;
    options.isa = isa;
    auto engine = engine::Engine::load(engine::tiny_dir() + "/llama.gguf", options);
    EXPECT_TRUE(engine.ok());
    return *(*engine)->kv_identity();
  };
  EXPECT_EQ(identity("auto"), identity("auto"));
  EXPECT_NE(identity("auto"), identity("generic"));
}

TEST(PrefixStore, AChangedModelFileHasAnotherIdentity) {
  const Folder folder;
  fs::create_directories(folder.path());
  const std::string copy = folder.path() + "/copy.gguf";
  fs::copy_file(engine::tiny_dir() + "/llama.gguf", copy);
  engine::EngineOptions options;
  options.n_threads = 1;
  const auto identity = [&] { return *(*engine::Engine::load(copy, options))->kv_identity(); };
  const auto before = identity();
  EXPECT_EQ(identity(), before);
  fs::last_write_time(copy, fs::last_write_time(copy) + std::chrono::seconds(5));
  EXPECT_NE(identity(), before);
}

TEST(PrefixStore, ALongerTimelineTakesTheShorterOnesPlace) {
  const auto first = engine::some_tokens(150, 6), next = joined(first, engine::some_tokens(150, 7));
  const Folder folder;
  serve_all("llama", options_of(folder.path()), {first});
  const auto before = folder.files();
  serve_all("llama", options_of(folder.path()), {next});
  ASSERT_EQ(folder.files().size(), 1U);
  EXPECT_NE(folder.files(), before);
  // The same again changes nothing; another one comes beside it.
  const auto kept = folder.files();
  serve_all("llama", options_of(folder.path()), {next});
  EXPECT_EQ(folder.files(), kept);
  serve_all("llama", options_of(folder.path()), {engine::some_tokens(100, 8)});
  EXPECT_EQ(folder.files().size(), 2U);
}

TEST(PrefixStore, TheFolderStaysWithinItsBound) {
  const auto a = engine::some_tokens(130, 9), b = engine::some_tokens(130, 10), c = engine::some_tokens(130, 11);
  const Folder folder;
  serve_all("llama", options_of(folder.path()), {a, b, c});
  ASSERT_EQ(folder.files().size(), 3U);
  const uint64_t each = fs::file_size(folder.files()[0]);
  // Room for two of them: the one that was not used for the longest time goes.
  const auto bound = options_of(folder.path(), 2 * each + 100);
  serve_all("llama", bound, {a});
  EXPECT_EQ(folder.files().size(), 2U);
  EXPECT_EQ(serve_all("llama", bound, {a}).stats.n_restored, 1U);
  serve_all("llama", options_of(folder.path(), 100), {engine::some_tokens(130, 12)});
  EXPECT_TRUE(folder.files().empty());
}

TEST(PrefixStore, FilesAreTheirOwnersAndUnfinishedOnesGo) {
  const Folder folder;
  fs::create_directories(folder.path());
  const std::string unfinished = folder.path() + "/llama-1-2.prefix.part", other = folder.path() + "/note.txt";
  std::ofstream(unfinished) << "x";
  std::ofstream(other) << "x";
  serve_all("llama", options_of(folder.path()), {engine::some_tokens(100, 13)});
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_TRUE(fs::exists(other));
  for (const auto& path : folder.files()) {
    if (path == other) continue;
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
  }
}

TEST(PrefixStore, AFolderThatCannotBeHadCostsNothingElse) {
  const auto prompt = engine::some_tokens(100, 14);
  const Served there = serve_all("llama", options_of("/proc/nowhere"), {prompt});
  expect_same_bits(serve_all("llama", {}, {prompt}).answers[0], there.answers[0]);
}

TEST(PrefixStore, ShortTimelinesAreNotKept) {
  const Folder folder;
  serve_all("llama", options_of(folder.path()), {engine::some_tokens(20, 15)});
  EXPECT_TRUE(folder.files().empty());
}

}  // namespace
}  // namespace quern::serve
