// The profiler on a tiny model: its parts add up, timing changes no logit, its forms can be read back. No time is
// compared with another's speed.
#include "measure/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/state.h"

namespace quern::measure {
namespace {

std::shared_ptr<engine::Engine> tiny(int n_threads, std::vector<std::string> no_fuse = {},
                                     const std::string& name = "qwen3-q-q4_k") {
  const char* data = std::getenv("QUERN_TEST_DATA");
  engine::EngineOptions options;
  options.n_threads = n_threads;
  options.no_fuse = std::move(no_fuse);
  options.n_ctx = 256;
  auto engine =
      engine::Engine::load(std::string(data != nullptr ? data : "build/testdata") + "/tiny/" + name + ".gguf", options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return *engine;
}

Profile profile_of(engine::Engine& engine, const ProfileOptions& options) {
  auto profile = run_profile(engine, options);
  EXPECT_TRUE(profile.ok()) << profile.error().message;
  return profile.ok() ? *std::move(profile) : Profile{};
}

double seconds_of(const std::vector<ProfileRow>& rows) {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.seconds;
  return sum;
}

ProfileOptions small() {
  ProfileOptions options;
  options.n_prompt = 40;
  options.n_gen = 5;
  options.n_depth = 20;
  options.repetitions = 2;
  options.trace = true;
  return options;
}

TEST(Profile, PartsAddUpAndFitTheWall) {
  const auto engine = tiny(2);
  ASSERT_NE(engine, nullptr);
  const Profile profile = profile_of(*engine, small());
  ASSERT_EQ(profile.phases.size(), 2U);
  for (const Phase& phase : profile.phases) {
    EXPECT_GT(phase.in_plan, 0);
    EXPECT_NEAR(seconds_of(phase.buckets), phase.in_plan, phase.in_plan * 1e-9);
    EXPECT_NEAR(seconds_of(phase.nodes), phase.in_plan, phase.in_plan * 1e-9);
    EXPECT_NEAR(seconds_of(phase.calls), phase.in_plan, phase.in_plan * 1e-9);
  }
  // Depth is not counted: one run of the phase makes each call once a token, or once a chunk.
  for (const ProfileRow& row : profile.phases[0].calls) EXPECT_EQ(row.n_calls, 1U) << row.name;
  for (const ProfileRow& row : profile.phases[1].calls) EXPECT_EQ(row.n_calls, 5U) << row.name;
  EXPECT_FALSE(engine->state().on_run);
}

TEST(Profile, WeightsOfATokenAreThoseOfTheEngine) {
  const auto engine = tiny(1);
  ASSERT_NE(engine, nullptr);
  const Profile profile = profile_of(*engine, small());
  ASSERT_EQ(profile.phases.size(), 2U);
  uint64_t bytes = 0;
  for (const ProfileRow& row : profile.phases[1].calls) {
    if (row.bucket.rfind("matmul", 0) == 0) bytes += row.work.weight_bytes;
  }
  EXPECT_EQ(bytes, 5 * engine->bytes_per_token());
  // A step reads the weights once, and keys and values of each sequence up to its position.
  const auto step = [&](int n, int position) { return step_bytes(*engine, n, position); };
  EXPECT_GT(step(1, 0), engine->bytes_per_token());
  EXPECT_LT(step(1, 0), engine->bytes_per_token() * 5 / 4);
  EXPECT_GT(step(1, 20), step(1, 10));
  EXPECT_EQ(step(1, 20) - step(1, 10), step(1, 30) - step(1, 20));
  EXPECT_EQ(step(3, 20) - step(3, 10), 3 * (step(1, 20) - step(1, 10)));
}

TEST(Profile, TimingChangesNoLogit) {
  const auto engine = tiny(2);
  ASSERT_NE(engine, nullptr);
  std::vector<std::vector<float>> logits;
  for (const bool timed : {false, true}) {
    int runs = 0;
    if (timed) engine->state().on_run = [&](const auto&, const auto&, const auto&) { ++runs; };
    const auto session = engine->new_session();
    ASSERT_TRUE(session.ok());
    const std::vector<int32_t> tokens = {5, 6, 7, 8, 9};
    ASSERT_TRUE((*session)->sync(tokens).ok());
    logits.emplace_back((*session)->logits().begin(), (*session)->logits().end());
    EXPECT_EQ(runs, timed ? 1 : 0);
    engine->state().on_run = nullptr;
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(Profile, MarksAscend) {
  const auto engine = tiny(2);
  ASSERT_NE(engine, nullptr);
  int n = 0;
  engine->state().on_run = [&](const plan::Plan& plan, const kernels::RunContext&, const exec::RunTimes& times) {
    size_t marks = 1;
    for (const plan::Step& step : plan.steps) marks += step.calls.size() + 1;
    ASSERT_EQ(times.marks.size(), 2U);
    for (const auto& thread : times.marks) {
      ASSERT_EQ(thread.size(), marks);
      EXPECT_TRUE(std::is_sorted(thread.begin(), thread.end()));
      EXPECT_GT(thread.front(), 0);
    }
    ++n;
  };
  const auto session = engine->new_session();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(engine::time_decode(**session, 3).ok());
  EXPECT_EQ(n, 3);
  engine->state().on_run = nullptr;
}

TEST(Profile, FormsCanBeReadBack) {
  const auto engine = tiny(2, {"all"});
  ASSERT_NE(engine, nullptr);
  Profile profile = profile_of(*engine, small());
  profile.roofline = Roofline{};
  profile.roofline->dram = {{2, 1e10}};
  profile.roofline->int8_macs = profile.roofline->f32_macs = 1e11;
  const auto json = nlohmann::json::parse(profile_json(profile), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["phases"].size(), 2U);
  EXPECT_EQ(json["phases"][1]["name"], "decode");
  EXPECT_TRUE(json["phases"][1]["buckets"][0].contains("roofline"));
  const auto trace = nlohmann::json::parse(trace_json(profile), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  std::set<int> lanes;
  size_t slices = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices;
    lanes.insert(event["tid"].get<int>());
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_GE(event["dur"].get<double>(), 0);
  }
  EXPECT_EQ(lanes, (std::set<int>{0, 1}));
  EXPECT_EQ(slices, profile.slices.size());
  EXPECT_NE(profile_markdown(profile).find("matmul Q4_K gate_up"), std::string::npos);
}

TEST(Profile, WhatFusionsDeclineIsShownWithItsReason) {
  const auto engine = tiny(1, {}, "gpt-oss-q-mxfp4");
  ASSERT_NE(engine, nullptr);
  const Profile profile = profile_of(*engine, small());
  ASSERT_EQ(profile.phases.size(), 2U);
  const std::string line = "times: expert_sum, first at blk.0.ffn_down_exps: more than one row\n";
  EXPECT_NE(profile.phases[0].declines.find(line), std::string::npos) << profile.phases[0].declines;
  EXPECT_EQ(profile.phases[1].declines, "");
  EXPECT_NE(profile_markdown(profile).find(line), std::string::npos);
  const auto j = nlohmann::json::parse(profile_json(profile));
  EXPECT_EQ(j["phases"][0]["declines"], profile.phases[0].declines);
}

TEST(Profile, PartOfTheRoofline) {
  Profile profile;
  ProfileRow row;
  row.seconds = 2;
  row.work.weight_bytes = 4'000;
  row.work.int_macs = 30'000;
  EXPECT_FALSE(roofline_part(row, profile).has_value());
  profile.roofline = Roofline{};
  profile.roofline->dram = {{1, 1'000}, {2, 4'000}};
  profile.roofline->int8_macs = 30'000;
  profile.roofline->f32_macs = 10'000;
  EXPECT_DOUBLE_EQ(*roofline_part(row, profile), 0.5);  // a second at 4000 bytes, a second at 30000: half of two
  row.work.float_macs = 10'000;
  EXPECT_DOUBLE_EQ(*roofline_part(row, profile), 1.0);  // two seconds of arithmetic
  row.work.float_macs = 0;
  row.work.read_bytes = 8'000;
  EXPECT_DOUBLE_EQ(*roofline_part(row, profile), 1.5);  // no cache known: three seconds at 4000
  profile.roofline->l2 = 8'000;
  profile.weight_bytes = 3'000;                         // more than an L2 of no bytes holds
  EXPECT_DOUBLE_EQ(*roofline_part(row, profile), 1.0);  // activations from it: one second instead of two
  profile.roofline->l2 = 1e9;
  profile.roofline->l2_bytes = 4'000;
  EXPECT_STREQ(profile.roofline->source_of(3'000).name, "L2");
  EXPECT_STREQ(profile.roofline->source_of(3'001).name, "memory");
}

TEST(Roofline, MeasuresEveryTierOfThisProcessor) {
  const CpuInfo cpu = detect_cpu();
  Topology topology;  // nothing known: no caches, a small buffer is refused nothing
  topology.memory_available = 64 << 20;
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (!cpu.supports(isa)) continue;
    const auto roofline = measure_roofline(isa, 2, topology);
    ASSERT_TRUE(roofline.ok()) << roofline.error().message;
    ASSERT_EQ(roofline->dram.size(), 2U);
    EXPECT_EQ(roofline->dram.back().n_threads, 2);
    EXPECT_GT(roofline->dram_best(), 0);
    EXPECT_GT(roofline->int8_macs, 0);
    EXPECT_GT(roofline->f32_macs, 0);
    EXPECT_EQ(roofline->l2, 0);
    EXPECT_EQ(roofline->l3, 0);
  }
}

}  // namespace
}  // namespace quern::measure
