// What an Engine holds, in order of construction. Internal to engine/.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/team.h"
#include "engine/engine.h"
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
inline constexpr int kAllOutputs = 64;

struct Engine::State {
  file::GgufFile file;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<token::Tokenizer> tokenizer;
  std::optional<token::ChatTemplate> chat;
  std::string chat_error;
  int n_ctx = 0, n_chunk = 0;
  Isa isa = Isa::generic;
  std::unique_ptr<Team> team;
  plan::KvLayout kv_layout;
  std::unique_ptr<exec::WeightStore> weights;
  Buffer arena;
  plan::Plan decode, few, prefill, all;  // 1 row; up to 8; a chunk, last row's logits; a few rows, all logits
  std::optional<exec::Runner> runner;
  std::unique_ptr<exec::KvPool> kv_pool;
  // Where set (measure/profile.h), runs are timed and told of, from the thread that runs.
  std::function<void(const plan::Plan&, const kernels::RunContext&, const exec::RunTimes&)> on_run;
  exec::RunTimes run_times;

  explicit State(file::GgufFile f) : file(std::move(f)) {}
  // The plan for a run of so many rows that wants the last row's logits or none.
  const plan::Plan& plan_for(int n_rows) const {
    return n_rows == 1 ? decode : n_rows <= kernels::kFewRows ? few : prefill;
  }
};

}  // namespace quern::engine
