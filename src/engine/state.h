// What an Engine holds, in order of construction. Internal to engine/.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/team.h"
#include "engine/engine.h"
#include "engine/pooling.h"
#include "engine/tuning.h"
#include "exec/image_writer.h"
#include "exec/kv.h"
#include "exec/runner.h"
#include "exec/weight_store.h"
#include "file/gguf.h"
#include "model/model.h"
#include "plan/plan.h"
#include "token/chat.h"
#include "token/tokenizer.h"

namespace quern::engine {

// Rows whose logits one run hands out when all are wanted.
inline constexpr int kAllOutputs = kMaxBatch;

struct Engine::State {
  file::GgufFile file;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<token::Tokenizer> tokenizer;
  std::optional<token::ChatTemplate> chat;
  std::string chat_error;
  int n_ctx = 0, n_chunk = 0;
  std::optional<model::Pooling> pooling;  // nothing: no embeddings, no_pooling says why
  Error no_pooling;
  Isa isa = Isa::generic;
  uint32_t isa_mask = 1;
  std::optional<Tuning> tuning;  // where a sidecar holds
  std::string tuning_file;       // where it gave something
  std::shared_ptr<const kernels::Choices> choices;
  std::unique_ptr<Team> team;
  plan::KvLayout kv_layout;
  std::unique_ptr<exec::WeightStore> weights;
  bool read_ahead = false;         // weights are mapped and larger than memory
  plan::PlanOptions plan_options;  // what all plans have in common
  Buffer arena, hidden_arena;
  plan::Plan decode, few, prefill;  // 1 row; up to 8; a chunk: the last row's logits
  plan::Plan batch, all;            // up to 8 rows; up to 64: every row's logits
  plan::Plan hidden;                // a chunk: any row's hidden state; hidden_plan() makes it
  std::optional<exec::Runner> runner;
  std::unique_ptr<exec::KvPool> kv_pool;
  // Where set (measure/profile.h), runs are timed and told of, from the thread that runs.
  std::function<void(const plan::Plan&, const kernels::RunContext&, const exec::RunTimes&)> on_run;
  exec::RunTimes run_times;
  std::unique_ptr<exec::ImageSaver> image_saver;  // last: it ends before what it reads

  explicit State(file::GgufFile f) : file(std::move(f)) {}
  // The plan for a run of so many rows that wants the last row's logits or none.
  const plan::Plan& plan_for(int n_rows) const {
    return n_rows == 1 ? decode : n_rows <= kernels::kFewRows ? few : prefill;
  }
  // The plan for a run of one row each of so many sequences.
  const plan::Plan& plan_for_batch(int n_rows) const {
    return n_rows == 1 ? decode : n_rows <= kernels::kFewRows ? batch : all;
  }
  void run(const plan::Plan& plan, const kernels::RunContext& ctx) {
    if (!on_run) return runner->run(plan, ctx);
    runner->run_timed(plan, ctx, run_times);
    on_run(plan, ctx, run_times);
  }
};

// Bits of the instruction sets whose kernels may run, and the best of them. Errors: an unknown name, or one that this
// processor lacks.
Result<uint32_t> choose_isa(const std::string& wanted, Isa* isa);
// The plan of embeddings, made when the first one is wanted: start-up does not wait for it. Not while a plan runs.
Result<const plan::Plan*> hidden_plan(Engine::State& s);
// Fills s.weights, from the prepared image or by packing (then s.image_saver writes the image). images.cpp.
Result<void> load_weights(Engine::State& s, const EngineOptions& options, uint32_t isa_mask);

}  // namespace quern::engine
