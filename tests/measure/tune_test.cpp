// The tuner on tiny models: a kernel with wrong numbers is found and excluded whatever it does wrong, right ones pass,
// and what it writes is a sidecar that an engine takes. No time is compared.
#include "measure/tune.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "measure/stage.h"

namespace quern::measure {
namespace {

using kernels::ActivationFormat;
using kernels::Kernel;
using kernels::KernelFn;
using kernels::MatmulArgs;
using kernels::Op;
using kernels::RunContext;
using kernels::Worker;

std::shared_ptr<engine::Engine> tiny(const std::string& name, engine::EngineOptions options = {}) {
  const char* data = std::getenv("QUERN_TEST_DATA");
  if (options.n_threads == 0) options.n_threads = 1;
  options.n_ctx = 256;
  options.n_chunk = 64;
  auto engine =
      engine::Engine::load(std::string(data != nullptr ? data : "build/testdata") + "/tiny/" + name + ".gguf", options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return *engine;
}

const Kernel* row_named(Op op, const char* name, ActivationFormat act = ActivationFormat::f32) {
  for (const Kernel& k : kernels::all_kernels()) {
    if (k.key.op == op && std::strcmp(k.name, name) == 0 && (op != Op::matmul || k.key.act == act)) return &k;
  }
  ADD_FAILURE() << name;
  return nullptr;
}

// The portable row of the same key does the work; then something goes wrong.
template <class Args, class Spoil>
void poisoned(const char* name, const void* args, const RunContext& ctx, const Worker& w, ActivationFormat act,
              const Spoil& spoil) {
  row_named(Args::kOp, name, act)->fn(args, ctx, w);
  if (w.thread == w.n_threads - 1) spoil(*static_cast<const Args*>(args));
}

// One bit of the last element.
void spoil_matmul(const void* args, const RunContext& ctx, const Worker& w) {
  poisoned<MatmulArgs>("generic.direct_q4_1", args, ctx, w, ActivationFormat::q8_32, [&](const MatmulArgs& a) {
    uint32_t bits;
    float* last = a.y + (kernels::row_count(ctx, a.rows) - 1) * a.y_stride + a.n_out - 1;
    std::memcpy(&bits, last, 4);
    bits ^= 1;
    std::memcpy(last, &bits, 4);
  });
}
void right_matmul(const void* args, const RunContext& ctx, const Worker& w) {
  poisoned<MatmulArgs>("generic.direct_q4_1", args, ctx, w, ActivationFormat::q8_32, [](const MatmulArgs&) {});
}
// Writes nothing: what an earlier run left may be right.
void idle(const void*, const RunContext&, const Worker&) {}

Kernel guest(const char* name, Op op, KernelFn fn) {
  Kernel k;
  k.key.op = op;
  k.name = name;
  k.fn = fn;
  k.priority = 1;
  if (op == Op::matmul) {
    k.key.weight = format::Format::q4_1;
    k.key.act = ActivationFormat::q8_32;
    k.key.layout = kernels::Layout::x16;
  }
  return k;
}

struct Checked {
  std::vector<std::string> wrong;
  std::vector<Contest> contests;
  bool races(const char* name) const {
    for (const Contest& c : contests) {
      for (const Kernel* k : c.kernels) {
        if (std::strcmp(k->name, name) == 0) return true;
      }
    }
    return false;
  }
};

// Checks the bits in the decode and the prefill plan, twice each: the second time all memory holds right answers.
Checked checked(engine::Engine& engine, const std::vector<const Kernel*>& guests) {
  Checked out;
  auto& state = engine.state();
  auto track = Track::create(state, *state.team, 64, guests);
  EXPECT_TRUE(track.ok());
  for (int round = 0; round < 2; ++round) {
    for (const bool prompt : {true, false}) {
      Stage stage(**track, prompt ? (*track)->plans().prefill : (*track)->plans().decode, prompt ? 0 : Track::kDepth,
                  prompt ? 50 : 1, 1);
      std::vector<kernels::Query> known;
      stage.collect(known, guests);
      EXPECT_GT(stage.contests().size(), 5U);
      for (std::string& line : stage.check_bits()) out.wrong.push_back(std::move(line));
      out.contests.insert(out.contests.end(), stage.contests().begin(), stage.contests().end());
    }
  }
  return out;
}

TEST(TuneBits, EveryRowOfTheRegistryPasses) {
  for (const char* name :
       {"llama-q-q4_1", "qwen3-q-q4_k", "gemma3-q-mix", "llama-q-f16", "phi3", "gpt-oss-q-mxfp4", "glm4moe"}) {
    const auto engine = tiny(name);
    ASSERT_NE(engine, nullptr);
    const Checked c = checked(*engine, {});
    EXPECT_TRUE(c.wrong.empty()) << c.wrong[0];
  }
}

TEST(TuneBits, AWrongKernelIsNamedAndExcluded) {
  const auto engine = tiny("llama-q-q4_1");
  ASSERT_NE(engine, nullptr);
  const Kernel wrong = guest("fake.wrong", Op::matmul, &spoil_matmul),
               right = guest("fake.right", Op::matmul, &right_matmul);
  const Checked c = checked(*engine, {&wrong, &right});
  ASSERT_FALSE(c.wrong.empty());
  for (const std::string& line : c.wrong) {
    EXPECT_EQ(line.rfind("fake.wrong: other bits than ", 0), 0U) << line;
    EXPECT_NE(line.find("matmul Q4_1 x q8_32, x16, "), std::string::npos) << line;
  }
  EXPECT_FALSE(c.races("fake.wrong"));
  EXPECT_TRUE(c.races("fake.right"));
}

TEST(TuneBits, AKernelThatWritesNothingDoesNotPassByWhatIsThereAlready) {
  const auto engine = tiny("llama-q-q4_1");
  ASSERT_NE(engine, nullptr);
  for (const Op op : {Op::matmul, Op::kv_store, Op::rms_norm, Op::rope, Op::attention, Op::act_mul}) {
    const Kernel lazy = guest("fake.idle", op, &idle);
    const Checked c = checked(*engine, {&lazy});
    EXPECT_FALSE(c.wrong.empty()) << kernels::op_name(op);
    EXPECT_FALSE(c.races("fake.idle")) << kernels::op_name(op);
  }
}

// Rows of experts are counted by the plan: where they count as none, nothing is compared.
TEST(TuneBits, AnIdleKernelOfExpertsDoesNotPass) {
  const auto engine = tiny("gpt-oss-q-mxfp4");
  ASSERT_NE(engine, nullptr);
  for (const Op op : {Op::route, Op::act_mul, Op::combine}) {
    const Kernel lazy = guest("fake.idle", op, &idle);
    const Checked c = checked(*engine, {&lazy});
    EXPECT_FALSE(c.wrong.empty()) << kernels::op_name(op);
    EXPECT_FALSE(c.races("fake.idle")) << kernels::op_name(op);
  }
}

// The check leaves keys and values as they were: the next run has the same logits.
TEST(TuneBits, CheckingChangesNothing) {
  const auto engine = tiny("llama-q-q4_1");
  ASSERT_NE(engine, nullptr);
  auto& state = engine->state();
  auto track = Track::create(state, *state.team, 64, {});
  ASSERT_TRUE(track.ok());
  const float* logits_at = (*track)->plans().decode.output;
  const auto logits = [&] {
    (*track)->runner().run((*track)->plans().decode, (*track)->context(Track::kDepth, 1, 1));
    return std::vector<float>(logits_at, logits_at + state.model->spec.n_vocab);
  };
  const auto before = logits();
  for (const bool prompt : {true, false}) {
    Stage stage(**track, prompt ? (*track)->plans().prefill : (*track)->plans().decode, prompt ? 0 : Track::kDepth,
                prompt ? 50 : 1, 1);
    std::vector<kernels::Query> known;
    stage.collect(known, {});
    stage.check_bits();
  }
  const auto after = logits();
  EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
}

TEST(TuneBits, AStageTakesOnlyWhatNoneBeforeItRaced) {
  const auto engine = tiny("llama-q-q4_1");
  ASSERT_NE(engine, nullptr);
  auto& state = engine->state();
  auto track = Track::create(state, *state.team, 64, {});
  ASSERT_TRUE(track.ok());
  std::vector<kernels::Query> known;
  Stage first(**track, (*track)->plans().decode, Track::kDepth, 1, 1),
      again(**track, (*track)->plans().decode, Track::kDepth, 1, 1);
  first.collect(known, {});
  again.collect(known, {});
  EXPECT_GT(first.contests().size(), 5U);
  EXPECT_TRUE(again.contests().empty());
  for (const Contest& c : first.contests()) EXPECT_GT(c.kernels.size(), 1U);
  const Window w = first.window(std::vector<size_t>(first.contests().size(), 1), 2, true);
  EXPECT_EQ(w.contests.size(), first.contests().size());
  double sum = 0;
  for (const double s : w.contests) sum += s;
  EXPECT_GT(sum, 0);
}

TEST(Tune, WritesWhatAnEngineTakes) {
  const auto engine = tiny("qwen3-q-q4_k");
  ASSERT_NE(engine, nullptr);
  const engine::Machine machine = engine::this_machine(detect_cpu(), detect_topology());
  const Kernel wrong = guest("fake.idle", Op::act_mul, &idle);
  TuneOptions options;
  options.seconds = 1;
  options.max_pairs = 2;
  options.model = "qwen3";
  options.date = "today";
  options.guests = {&wrong};
  std::vector<std::string> said;
  options.say = [&](const std::string& line) { said.push_back(line); };
  testing::internal::CaptureStderr();
  const auto result = run_tune(*engine, machine, options);
  const std::string loud = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_FALSE(result->wrong.empty());
  EXPECT_NE(loud.find("error: a kernel gives wrong numbers on this machine and is left out: fake.idle"),
            std::string::npos);
  EXPECT_GT(said.size(), 5U);
  EXPECT_GT(result->tuning.entries.size(), 15U);
  EXPECT_EQ(result->tuning.knobs.size(), 1U);
  for (const auto& entry : result->tuning.entries) EXPECT_NE(entry.winner, "fake.idle");
  const std::string text = tune_markdown(result->tuning);
  EXPECT_NE(text.find("queries tuned"), std::string::npos);

  const auto folder = std::filesystem::temp_directory_path() / ("quern-tune-" + std::to_string(::getpid()));
  const std::string path = engine::tuning_path(folder.string(), machine);
  engine::Tuning tuning = result->tuning;
  tuning.entries[0].winner = tuning.entries[0].tried.back().kernel;  // so that there is one, whatever the times were
  ASSERT_TRUE(engine::save_tuning(path, tuning).ok());
  engine::EngineOptions with;
  with.n_threads = tuning.entries[0].n_threads;
  with.tune_dir = folder.string();
  const auto tuned = tiny("qwen3-q-q4_k", with);
  ASSERT_NE(tuned, nullptr);
  EXPECT_EQ(tuned->tuning_file(), path);
  EXPECT_NE(tuned->plan_text().find("(tuned)"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace quern::measure
