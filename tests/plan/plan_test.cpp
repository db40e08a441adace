// Plans: text goldens (a changed fusion, kernel choice or order shows as a text diff), fusion rules, arena safety.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file_io.h"
#include "file/gguf.h"
#include "plan/plan.h"

namespace quern::plan {
namespace {

constexpr uint32_t kGeneric = 1;

std::string from_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : ".";
}

// Weights stay where they are: no test here runs a plan.
class Unpacked : public PackedWeights {
 public:
  const std::byte* find(const model::Weight& weight, kernels::Layout) const override { return weight.data; }
};

struct Loaded {
  file::GgufFile file;
  std::unique_ptr<model::Model> model;
  KvLayout kv;
};

std::unique_ptr<Loaded> load(const std::string& name) {
  auto file = file::GgufFile::open(from_env("QUERN_TEST_DATA") + "/tiny/" + name + ".gguf");
  if (!file.ok()) {
    ADD_FAILURE() << file.error().message << "; run tools/make_testdata.py";
    return nullptr;
  }
  auto loaded = std::unique_ptr<Loaded>(new Loaded{std::move(*file), nullptr, {}});
  auto model = model::load_model(loaded->file, 0);
  EXPECT_TRUE(model.ok()) << model.error().message;
  loaded->model = std::move(*model);
  loaded->kv = make_kv_layout(loaded->model->spec);
  return loaded;
}

Plan compiled(const Loaded& loaded, const PlanOptions& options, std::byte* arena = nullptr) {
  auto plan = compile(*loaded.model, loaded.kv, Unpacked(), options, arena);
  EXPECT_TRUE(plan.ok());
  return std::move(*plan);
}

PlanOptions decode(std::vector<std::string> no_fuse) {
  PlanOptions options{1, 1, kGeneric, std::move(no_fuse)};
  options.n_ctx = 256;
  return options;
}

// QUERN_UPDATE_GOLDENS=1 writes what it sees; look at the diff before you commit it.
TEST(Plan, TextIsAsBefore) {
  for (const char* name : {"llama", "qwen3-q-q4_k", "gemma3-q-mix", "phi3", "gemma2", "gpt-oss-q-mxfp4", "glm4moe"}) {
    const auto loaded = load(name);
    ASSERT_NE(loaded, nullptr);
    const std::string text =
        to_text(compiled(*loaded, decode({}))) + "\n" + to_text(compiled(*loaded, {64, 1, kGeneric, {"all"}}));
    const std::string path = from_env("QUERN_SOURCE_DIR") + "/tests/plan/golden/" + name + ".txt";
    if (std::getenv("QUERN_UPDATE_GOLDENS") != nullptr) {
      ASSERT_TRUE(write_file_atomic(path, std::as_bytes(std::span(text))).ok());
    }
    const auto golden = read_file(path);
    ASSERT_TRUE(golden.ok()) << golden.error().message;
    EXPECT_EQ(*golden, text) << name;
  }
}

TEST(Plan, EachFusionChangesSomethingAndAllOffIsOneCallAStep) {
  const auto loaded = load("gpt-oss-q-mxfp4");
  ASSERT_NE(loaded, nullptr);
  const auto texts = [&](std::vector<std::string> no_fuse) {
    return to_text(compiled(*loaded, decode(no_fuse))) + to_text(compiled(*loaded, {64, 1, kGeneric, no_fuse}));
  };
  const std::string fused = texts({});
  for (const Fusion& fusion : all_fusions()) EXPECT_NE(fused, texts({fusion.name})) << fusion.name;
  for (const Step& step : compiled(*loaded, decode({"all"})).steps) EXPECT_EQ(step.calls.size(), 1U);
}

TEST(Plan, WhatIsDeclinedIsCountedWithAReason) {
  const auto loaded = load("gpt-oss-q-mxfp4");
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(declines_text(compiled(*loaded, decode({}))), "");
  const Plan prefill = compiled(*loaded, {64, 1, kGeneric, {}});
  EXPECT_EQ(prefill.declines.size(), loaded->model->layers.size());
  EXPECT_NE(to_text(prefill).find("declined " + std::to_string(loaded->model->layers.size()) +
                                  " times: expert_sum, first at blk.0.ffn_down_exps: more than one row"),
            std::string::npos);
  EXPECT_EQ(declines_text(compiled(*loaded, {64, 1, kGeneric, {"expert_sum"}})), "");
}

// The same graph with another end: the hidden states are what the output matrix reads.
TEST(Plan, HiddenStatesAreTheSameStepsWithoutTheOutputMatrix) {
  for (const char* name : {"llama", "gemma2", "gpt-oss-q-mxfp4"}) {
    const auto loaded = load(name);
    ASSERT_NE(loaded, nullptr);
    for (PlanOptions options :
         {decode({}), PlanOptions{64, 64, kGeneric, {}}, PlanOptions{64, 64, kGeneric, {"all"}}}) {
      const auto calls = [&](Output output) {
        options.output = output;
        std::vector<std::string> names;
        for (const Step& step : compiled(*loaded, options).steps) {
          for (const Call& call : step.calls) names.push_back(call.name + " " + call.kernel->name);
        }
        return names;
      };
      const auto logits = calls(Output::logits), hidden = calls(Output::hidden);
      ASSERT_LT(hidden.size(), logits.size());
      EXPECT_TRUE(std::equal(hidden.begin(), hidden.end(), logits.begin())) << name;
      EXPECT_EQ(hidden.back().substr(0, 12), "output_norm ");
      std::vector<std::byte> arena(compiled(*loaded, options).arena_bytes + 64);
      const Plan plan = compiled(*loaded, options, arena.data());
      const auto n = static_cast<size_t>(plan.options.max_outputs) * static_cast<size_t>(loaded->model->spec.n_dim);
      EXPECT_LE(reinterpret_cast<std::byte*>(plan.output + n), arena.data() + arena.size());
      EXPECT_EQ(plan.output, std::get<kernels::RmsNormArgs>(plan.steps.back().calls.back().args).out);
    }
  }
}

TEST(Plan, UnknownFusionNamesAreRefused) {
  const auto loaded = load("llama");
  ASSERT_NE(loaded, nullptr);
  const auto plan = compile(*loaded->model, loaded->kv, Unpacked(), {1, 1, kGeneric, {"matmul_ad"}}, nullptr);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("matmul_add"), std::string::npos);
}

// What a step writes is no other value that the same step or a later one still reads.
TEST(Plan, BuffersOfAStepDoNotOverlap) {
  const auto loaded = load("gemma3");
  ASSERT_NE(loaded, nullptr);
  std::vector<std::byte> arena(compiled(*loaded, {64, 1, kGeneric, {}}).arena_bytes + 64);
  const Plan plan = compiled(*loaded, {64, 1, kGeneric, {}}, arena.data());
  int checked = 0;
  for (const Step& step : plan.steps) {
    for (const Call& call : step.calls) {
      const auto* m = kernels::matmul_of(call.args);
      if (m == nullptr) continue;
      const auto n_rows = static_cast<size_t>(plan.options.rows_of(m->rows));
      const std::byte* x_end = m->x + m->x_stride * n_rows;
      const auto* y = reinterpret_cast<const std::byte*>(m->y);
      const std::byte* y_end = y + sizeof(float) * static_cast<size_t>(m->y_stride) * n_rows;
      EXPECT_TRUE(y_end <= m->x || x_end <= y) << call.name;
      EXPECT_LE(y_end, arena.data() + arena.size());
      ++checked;
    }
  }
  EXPECT_GT(checked, 40);
}

}  // namespace
}  // namespace quern::plan
