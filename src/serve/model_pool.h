// ModelPool: several models by name. Loads one when it is asked for, and unloads what is idle: after a while, or when
// another model needs the memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serve/grammar_mask.h"
#include "serve/scheduler.h"

namespace quern::serve {

struct ModelEntry {
  std::string id;    // what clients call it
  std::string path;  // GGUF
  engine::EngineOptions engine;
  SchedulerOptions scheduler;
  Seconds idle{0};  // unloaded when it has had no lease for so long; 0: never
};

struct PoolOptions {
  // For the files of loaded models and the budgets of their keys and values; 0: no bound. A single model is loaded
  // whatever it takes.
  uint64_t memory_bytes = 0;
  Seconds drain{30};  // how long a model that goes may finish what it still runs
};

struct ModelStatus {
  std::string id, path;
  // changing: being loaded or unloaded
  enum class State : uint8_t { unloaded, changing, loaded, failed } state = State::unloaded;
  std::string error;   // of the last attempt to load, where it failed
  uint64_t bytes = 0;  // of the file, and of the budget of keys and values where it is loaded
  int n_leases = 0;
  double idle_seconds = 0;                       // loaded, and without a lease for so long
  std::shared_ptr<const engine::Engine> engine;  // where loaded: its facts, not to evaluate with; no lease
};

// A loaded model. While a lease lives, the model stays.
struct LoadedModel {
  std::shared_ptr<engine::Engine> engine;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<GrammarStore> grammars;
};
using Lease = std::shared_ptr<LoadedModel>;

class ModelPool {
 public:
  // Nothing is loaded yet. Errors: no model, an id given twice, a file that is not there.
  static Result<std::unique_ptr<ModelPool>> create(std::vector<ModelEntry> models, const PoolOptions& options);
  ~ModelPool();

  // The model of that id, loaded if need be (the caller waits; others that ask for the same one wait with it). "" is
  // the first. Errors: not_found; what loading says; limit_exceeded where memory is taken by models in use.
  Result<Lease> acquire(std::string_view id);
  std::vector<ModelStatus> list() const;  // in the order given
  // By id, of models that are loaded, and as it was at the end of those that were. Keeps none from being unloaded.
  std::map<std::string, SchedulerStats> stats() const;
  Result<void> unload(std::string_view id);  // limit_exceeded where it is in use
  // All loaded models: drain, and wait until they are idle or the deadline is over.
  void drain();
  bool wait_idle(Seconds deadline);
  void stop();

 private:
  class Impl;
  explicit ModelPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::serve
