// Tuning sidecars: written and read back, refused with a reason where they do not hold, and no change of a bit where
// they do.
#include "engine/tuning.h"

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file_io.h"
#include "engine/state.h"
#include "tiny.h"

namespace quern::engine {
namespace {

namespace fs = std::filesystem;
using kernels::Choice;
using kernels::Choices;
using kernels::Kernel;
using kernels::Query;

std::string model_path(const std::string& name) {
  return tiny_dir() + "/" + name + ".gguf";
}

class TuningFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("quern-tuning-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    machine_ = this_machine(cpu_, detect_topology());
    path_ = tuning_path(folder_.string(), machine_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  EngineOptions options(int n_threads) const {
    EngineOptions o;
    o.n_threads = n_threads;
    o.n_ctx = 512;
    o.n_chunk = 64;
    o.tune_dir = folder_.string();
    return o;
  }

  // The queries of a model's plans that have another candidate than their default, with the last of them as winner.
  Tuning tuning_of(const std::string& model, int n_threads) const {
    EngineOptions untuned = options(n_threads);
    untuned.tune_dir = "";
    const auto engine = Engine::load(model_path(model), untuned);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    Tuning tuning = new_tuning(machine_, "abc", "2026-01-02T03:04:05Z");
    const Engine::State& s = (*engine)->state();
    for (const plan::Plan* plan : {&s.decode, &s.few, &s.prefill, &s.batch, &s.all}) {
      for (const plan::Step& step : plan->steps) {
        for (const plan::Call& call : step.calls) {
          const auto candidates = kernels::kernel_candidates(call.query, s.isa_mask);
          TunedEntry e;
          e.query = call.query;
          e.n_threads = n_threads;
          e.fallback = candidates.front()->name;
          e.winner = candidates.back()->name;
          e.ratio = {1.25, 1.125, 1.5};
          e.tried = {{e.winner, "wins", e.ratio}};
          if (candidates.size() > 1) tuning.entries.push_back(std::move(e));
        }
      }
    }
    EXPECT_GT(tuning.entries.size(), 10U);
    return tuning;
  }

  void write(const std::string& text) const {
    fs::create_directories(folder_);
    ASSERT_TRUE(write_file_atomic(path_, std::as_bytes(std::span(text.data(), text.size()))).ok());
  }

  // Loads a tiny model and gives back what it warned of; whether the sidecar was used goes to *used.
  std::string warnings(bool* used) const {
    testing::internal::CaptureStderr();
    const auto engine = Engine::load(model_path("llama"), options(1));
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    *used = engine.ok() && !(*engine)->tuning_file().empty();
    return text;
  }

  CpuInfo cpu_ = detect_cpu();
  Machine machine_;
  fs::path folder_;
  std::string path_;
};

TEST_F(TuningFile, ComesBackAsItWasWritten) {
  Tuning tuning = tuning_of("llama", 2);
  tuning.knobs.push_back({"0123456789abcdef", "llama.gguf", 2, 1, 200, {1.1, 1.05, 1.2}, 0.01, 12, "today"});
  tuning.proofs.push_back({"0123456789abcdef", "llama.gguf", "decode", 2, {1.2, 1.1, 1.3}, true, "today"});
  ASSERT_TRUE(save_tuning(path_, tuning).ok());
  const auto back = load_tuning(path_, machine_, cpu_.isa_mask);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(tuning_json(*back), tuning_json(tuning));
  EXPECT_EQ(back->entries[0].query, tuning.entries[0].query);
  EXPECT_EQ(back->n_winners(), tuning.entries.size());
  EXPECT_EQ(back->knobs[0].spins, 200);
  EXPECT_TRUE(back->proofs[0].kept);
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_EQ(entry.path().string(), path_);
}

TEST_F(TuningFile, FreshResultsReplaceThoseOfTheSameKey) {
  Tuning old = tuning_of("llama", 1);
  const size_t n = old.entries.size();
  Tuning fresh = new_tuning(machine_, "def", "later");
  fresh.entries = {old.entries[1], old.entries[1]};
  fresh.entries[0].winner = fresh.entries[0].fallback;
  fresh.entries[1].n_threads = 7;
  merge_tuning(old, fresh);
  EXPECT_EQ(old.entries.size(), n + 1);
  EXPECT_EQ(old.entries[1].winner, old.entries[1].fallback);
  EXPECT_EQ(old.commit, "def");
}

TEST_F(TuningFile, WithoutAFileNothingIsSaid) {
  bool used = true;
  EXPECT_EQ(warnings(&used), "");
  EXPECT_FALSE(used);
}

TEST_F(TuningFile, AFileThatHoldsIsUsedSilently) {
  ASSERT_TRUE(save_tuning(path_, tuning_of("llama", 1)).ok());
  bool used = false;
  EXPECT_EQ(warnings(&used), "");
  EXPECT_TRUE(used);
}

TEST_F(TuningFile, StaleDamagedAndForeignFilesAreNamedOnceAndIgnored) {
  const Tuning good = tuning_of("llama", 1);
  const auto changed = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    auto json = nlohmann::ordered_json::parse(tuning_json(good));
    change(json);
    return json.dump();
  };
  const std::string text = tuning_json(good);
  const struct {
    std::string text, reason;
  } cases[] = {
      {"", "damaged"},
      {text.substr(0, text.size() / 2), "damaged"},
      {"[]", "damaged"},
      {"{}", "'schema' is missing"},
      {changed([](auto& j) { j["schema"] = 99; }), "form 99"},
      {changed([](auto& j) { j["machine"]["cpu"] = "Another 9000"; }), "another processor (Another 9000; this is"},
      {changed([](auto& j) { j["machine"]["features"].push_back("avx9000"); }), "another processor"},
      {changed([](auto& j) { j["machine"]["cores"] = 4711; }), "other cores or caches"},
      {changed([](auto& j) { j["machine"]["l3_bytes"] = 1; }), "other cores or caches"},
      {changed([](auto& j) { j["engine"]["version"] = "0.0.1"; }), "measured with Quern 0.0.1"},
      {changed([](auto& j) { j["engine"]["registry"] = "00"; }), "another set of kernels"},
      {changed([](auto& j) { j["entries"][0]["winner"] = "sse9.magic"; }), "no kernel 'sse9.magic' answers"},
      {changed([](auto& j) { j["entries"][2]["op"] = "matmuls"; }), "'entries[2].op' is missing or malformed"},
      {changed([](auto& j) { j["entries"][0]["n_in"] = -5; }), "'entries[0].n_in'"},
      {changed([](auto& j) { j["entries"][0]["n_in"] = 1e300; }), "'entries[0].n_in'"},
      {changed([](auto& j) { j["entries"][1]["ratio"] = 3; }), "'entries[1].ratio'"},
      {changed([](auto& j) { j["entries"][1]["tried"][0] = nullptr; }), "'entries[1].tried[0]'"},
      {changed([](auto& j) { j.erase("knobs"); }), "'knobs'"},
      {changed([](auto& j) {
         j["knobs"].push_back({{"model_key", "k"},
                               {"model", "m"},
                               {"default_threads", 1},
                               {"threads", 1000000},
                               {"spins", 1},
                               {"ratio", {{"middle", 1}, {"low", 1}, {"high", 1}}},
                               {"noise", 0},
                               {"windows", 1},
                               {"date", ""}});
       }),
       "'knobs'"},
  };
  for (const auto& c : cases) {
    write(c.text);
    bool used = true;
    const std::string said = warnings(&used);
    EXPECT_FALSE(used) << c.reason;
    EXPECT_NE(said.find(path_), std::string::npos) << c.reason << ": " << said;
    EXPECT_NE(said.find(c.reason), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST_F(TuningFile, AnEntryCountsForItsTeamAndItsFallbackOnly) {
  const Tuning tuning = tuning_of("llama", 2);
  EXPECT_GT(tuned_choices(tuning, 2, cpu_.isa_mask).size(), 10U);
  EXPECT_EQ(tuned_choices(tuning, 1, cpu_.isa_mask).size(), 0U);
  if (cpu_.best != Isa::generic) {
    // Of the generic tier alone the fallback is another one than the race's.
    EXPECT_EQ(tuned_choices(tuning, 2, 1U << static_cast<int>(Isa::generic)).size(), 0U);
  }
}

TEST_F(TuningFile, KnobsMakeTheTeamOfTheirModelOnly) {
  const int by_default = default_threads(detect_topology());
  const auto untuned = Engine::load(model_path("llama"), options(0));
  ASSERT_TRUE(untuned.ok());
  EXPECT_EQ((*untuned)->n_threads(), by_default);
  Tuning tuning = new_tuning(machine_, "", "today");
  tuning.knobs.push_back({model_key((*untuned)->model()), "llama", by_default, by_default + 1, 100, {}, 0, 5, "today"});
  ASSERT_TRUE(save_tuning(path_, tuning).ok());
  const auto tuned = Engine::load(model_path("llama"), options(0));
  ASSERT_TRUE(tuned.ok());
  EXPECT_EQ((*tuned)->n_threads(), by_default + 1);
  EXPECT_EQ((*tuned)->tuning_file(), path_);
  const auto asked = Engine::load(model_path("llama"), options(1));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ((*asked)->n_threads(), 1);
  const auto other = Engine::load(model_path("qwen3-q-q4_k"), options(0));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ((*other)->n_threads(), by_default);
  EXPECT_EQ((*other)->tuning_file(), "");
}

TEST_F(TuningFile, ThePlanMarksWhatWasTuned) {
  ASSERT_TRUE(save_tuning(path_, tuning_of("qwen3-q-q4_k", 1)).ok());
  const auto tuned = Engine::load(model_path("qwen3-q-q4_k"), options(1));
  ASSERT_TRUE(tuned.ok());
  const std::string text = (*tuned)->plan_text();
  EXPECT_NE(text.find("(tuned)\n"), std::string::npos);
  EXPECT_NE(text.find("tuned by " + path_ + " of 2026-01-02T03:04:05Z"), std::string::npos) << text;
  EngineOptions untuned = options(1);
  untuned.tune_dir = "";
  const auto plain = Engine::load(model_path("qwen3-q-q4_k"), untuned);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)->plan_text().find("tuned"), std::string::npos);
}

// Every candidate of every query, used everywhere at once: the second of each, the third, ..., the generic ones last.
TEST(Tuned, LogitsAreTheSameWhateverIsChosen) {
  for (const char* name : {"llama-q-q4_1", "qwen3-q-q4_k", "gemma3-q-mix", "phi3-q-mxfp4", "llama-q-f16"}) {
    EngineOptions options;
    options.n_threads = std::string(name) == "llama-q-q4_1" ? 2 : 1;
    options.n_ctx = 512;
    options.n_chunk = 64;
    const auto tokens = some_tokens(150, 7);
    const auto logits_of = [&](Engine& engine) {
      std::vector<float> all;
      const auto session = std::move(engine.new_session()).value();
      // A prompt in chunks, then a few rows, then one: each plan has its turn.
      for (const size_t n : {size_t{128}, size_t{133}, size_t{134}, size_t{150}}) {
        EXPECT_TRUE(session->sync(std::span(tokens).first(n)).ok());
        all.insert(all.end(), session->logits().begin(), session->logits().end());
      }
      EXPECT_TRUE(session
                      ->logits_of_all(tokens,
                                      [&](int, int, std::span<const float> rows) -> Result<void> {
                                        all.insert(all.end(), rows.begin(), rows.end());
                                        return {};
                                      })
                      .ok());
      return all;
    };
    const auto plain = Engine::load(model_path(name), options);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    const auto expected = logits_of(**plain);
    const Engine::State& s = (*plain)->state();
    std::set<const Kernel*> ran;
    for (size_t rank = 1;; ++rank) {
      std::vector<Choice> list;
      bool more = false;
      for (const plan::Plan* plan : {&s.decode, &s.few, &s.prefill, &s.batch, &s.all}) {
        for (const plan::Step& step : plan->steps) {
          for (const plan::Call& call : step.calls) {
            const auto candidates = kernels::kernel_candidates(call.query, s.isa_mask);
            more = more || rank < candidates.size();
            const Kernel* chosen = candidates[std::min(rank, candidates.size() - 1)];
            ran.insert(chosen);
            list.push_back({call.query, chosen->name});
          }
        }
      }
      if (!more) break;
      auto choices = Choices::create(list, s.isa_mask);
      ASSERT_TRUE(choices.ok()) << choices.error().message;
      EngineOptions tuned = options;
      tuned.choices = std::make_shared<const Choices>(*std::move(choices));
      const auto engine = Engine::load(model_path(name), tuned);
      ASSERT_TRUE(engine.ok()) << engine.error().message;
      const auto actual = logits_of(**engine);
      ASSERT_EQ(actual.size(), expected.size());
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(float)), 0)
          << name << ", candidates of rank " << rank;
    }
    EXPECT_GT(ran.size(), 8U) << name;
  }
}

}  // namespace
}  // namespace quern::engine
