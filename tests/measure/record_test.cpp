// Records: appended to, read back, and never harmed.
#include "measure/record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace quern::measure {
namespace {

using Json = nlohmann::ordered_json;

class Record : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("quern_record_test" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    path_ = (folder_ / "records" / "box.json").string();
    box_.name = "box-2t";
    box_.cpu = "Box";
    box_.cores = 2;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string text() const {
    std::ifstream in(path_);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  Json json() const { return Json::parse(text(), nullptr, false); }
  void write(const std::string& content) const {
    std::filesystem::create_directories(folder_ / "records");
    std::ofstream(path_) << content;
  }
  void append(const RecordedRun& run) const {
    auto records = Records::open(path_, box_);
    ASSERT_TRUE(records.ok()) << records.error().message;
    records->add(run);
    ASSERT_TRUE(records->save().ok());
  }

  std::filesystem::path folder_;
  std::string path_;
  Box box_;
};

RecordedRun some_run() {
  RecordedRun run;
  run.date = "2026-01-01T00:00:00Z";
  run.test = "tg128";
  run.unit = "t/s";
  run.threads = 2;
  run.model = {"Name", "llama 1M Q4_0", "m.gguf", "ab", 10, 9, 8};
  run.quern = {"", "0.1.0", "c0ffee", "quern bench", {3, 1, 2}};
  run.peer = Samples{"llama.cpp", "b1", "", "llama-bench", {1, 1, 4}};
  run.ratio = Ratio{2, 1.5, 2.5, true};
  run.dram_gb_s = 40;
  return run;
}

// The keys of schema 1, in their order.
TEST_F(Record, ARunHasEveryField) {
  append(some_run());
  const Json all = json();
  ASSERT_TRUE(all.is_object());
  EXPECT_EQ(all["schema"], 1);
  const auto keys = [](const Json& object) {
    std::string names;
    for (const auto& item : object.items()) names += item.key() + " ";
    return names;
  };
  EXPECT_EQ(keys(all), "schema box rooflines runs profiles ");
  EXPECT_EQ(keys(all["box"]), "name cpu isa cores memory_bytes os l2_bytes l3_bytes ");
  const Json& run = all["runs"][0];
  EXPECT_EQ(keys(run), "date test unit threads model quern peer ratio steal dram_gb_s decode_gb_s note ");
  EXPECT_EQ(keys(run["model"]), "name type file sha256 bytes weight_bytes n_params ");
  EXPECT_EQ(keys(run["quern"]), "version commit command samples median ");
  EXPECT_EQ(keys(run["peer"]), "name version command samples median ");
  EXPECT_EQ(keys(run["ratio"]), "middle low high ");
  EXPECT_EQ(run["quern"]["median"], 2);
  EXPECT_EQ(run["peer"]["median"], 1);
  EXPECT_EQ(run["quern"]["samples"], (Json{3.0, 1.0, 2.0}));
  EXPECT_EQ(run["dram_gb_s"], 40);
  EXPECT_TRUE(run["decode_gb_s"].is_null());
}

TEST_F(Record, WithoutAPeerItIsNull) {
  RecordedRun run = some_run();
  run.peer.reset();
  run.ratio.reset();
  append(run);
  EXPECT_TRUE(json()["runs"][0]["peer"].is_null());
  EXPECT_TRUE(json()["runs"][0]["ratio"].is_null());
}

TEST_F(Record, AppendingKeepsWhatIsThere) {
  append(some_run());
  Json changed = json();
  changed["runs"][0]["added by hand"] = "kept";
  write(changed.dump());
  append(some_run());
  EXPECT_EQ(json()["runs"].size(), 2U);
  EXPECT_EQ(json()["runs"][0]["added by hand"], "kept");
  EXPECT_EQ(json()["runs"][1]["test"], "tg128");
}

TEST_F(Record, RooflinesAndProfiles) {
  auto records = Records::open(path_, box_);
  ASSERT_TRUE(records.ok());
  Roofline roofline;
  roofline.n_threads = 2;
  roofline.dram = {{1, 1e9}, {2, 3e9}};
  roofline.l2 = 4e9;
  roofline.int8_macs = 5e9;
  records->add("today", roofline);
  Profile profile;
  profile.model = "/some/folder/m.gguf";
  profile.n_threads = 2;
  Phase phase;
  phase.name = "decode";
  phase.n_tokens = 7;
  phase.buckets.push_back({"attention", "attention", "", 1, 0.5, {.kv_bytes = 3, .float_macs = 4}});
  profile.phases = {phase, phase};
  records->add("today", "c0ffee", profile, "why");
  ASSERT_TRUE(records->save().ok());
  EXPECT_EQ(
      json()["rooflines"][0].dump(),
      R"({"date":"today","isa":"generic","threads":2,"dram_gb_s":3.0,"dram_1_gb_s":1.0,"l2_gb_s":4.0,"l3_gb_s":0.0,)"
      R"("int8_gmac_s":5.0,"f32_gmac_s":0.0})");
  ASSERT_EQ(json()["profiles"].size(), 2U);
  EXPECT_EQ(json()["profiles"][0].dump(),
            R"({"date":"today","model":"m.gguf","commit":"c0ffee","threads":2,"phase":"decode","tokens":7,)"
            R"("buckets":[{"name":"attention","seconds":0.5,"bytes":3,"macs":4}],"note":"why"})");
}

TEST_F(Record, WhatIsNoRecordIsRefusedAndLeftAlone) {
  const std::string good = R"({"schema":1,"box":{"name":"box-2t"},"rooflines":[],"runs":[],"profiles":[]})";
  write(good);
  EXPECT_TRUE(Records::open(path_, box_).ok());
  const auto without = [&](const std::string& part, const std::string& instead) {
    std::string changed = good;
    changed.replace(changed.find(part), part.size(), instead);
    return changed;
  };
  const std::pair<std::string, const char*> bad[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {good.substr(0, 30), "not a JSON object"},
      {without("\"schema\":1,", ""), "no schema"},
      {without("\"schema\":1", "\"schema\":\"1\""), "no schema"},
      {without("\"schema\":1", "\"schema\":2"), "records of schema 2, and this program writes schema 1"},
      {without("{\"name\":\"box-2t\"}", "3"), "no box"},
      {without("box-2t", "other-4t"), "records of the box other-4t, and this is box-2t"},
      {without("\"runs\":[]", "\"runs\":{}"), "no list of runs"},
      {without(",\"profiles\":[]", ""), "no list of profiles"},
  };
  for (const auto& [content, message] : bad) {
    write(content);
    const auto opened = Records::open(path_, box_);
    ASSERT_FALSE(opened.ok()) << content;
    EXPECT_NE(opened.error().message.find(message), std::string::npos) << opened.error().message;
    EXPECT_NE(opened.error().message.find(path_), std::string::npos);
    EXPECT_EQ(text(), content);
  }
}

TEST_F(Record, AFolderInTheWayIsAnError) {
  std::filesystem::create_directories(path_);
  EXPECT_FALSE(Records::open(path_, box_).ok());
  std::filesystem::remove_all(folder_ / "records");
  std::ofstream(folder_ / "records") << "a file";
  const auto records = Records::open(path_, box_);
  EXPECT_FALSE(records.ok() && records->save().ok());
}

TEST_F(Record, TextThatIsNotUtf8IsWritten) {
  RecordedRun run = some_run();
  run.model.name = "bad \xff name";
  append(run);
  EXPECT_TRUE(json().is_object());
}

TEST(RecordBox, NamesAreSlugs) {
  EXPECT_EQ(box_name("AMD EPYC", 2), "amd-epyc-2t");
  EXPECT_EQ(box_name("Intel(R) Core(TM) i9-9900K CPU @ 3.60GHz", 16), "intel-r-core-tm-i9-9900k-cpu-3-60ghz-16t");
  EXPECT_EQ(box_name("", 1), "unknown-1t");
  EXPECT_EQ(date_now().size(), std::string("2026-01-01T00:00:00Z").size());
}

}  // namespace
}  // namespace quern::measure
