// Which models are loaded. Loading and unloading happen without the lock, in state `changing`, by the thread that asked
// or by the one that looks for idle models.
#include "serve/model_pool.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "base/log.h"
#include "file/gguf.h"

namespace quern::serve {
namespace {

using Clock = std::chrono::steady_clock;
using State = ModelStatus::State;

struct Slot {
  ModelEntry entry;
  State state = State::unloaded;
  std::shared_ptr<LoadedModel> model;  // where loaded
  std::optional<SchedulerStats> last;  // of the model that was
  Error error;                         // where failed
  uint64_t bytes = 0;                  // as loaded; before, what is known of it
  int n_leases = 0;
  Clock::time_point last_used;

  bool may_idle_out() const { return entry.idle.count() > 0; }
  Clock::time_point due() const { return last_used + std::chrono::duration_cast<Clock::duration>(entry.idle); }
};

// Outlives the pool where leases do.
struct Core {
  PoolOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Slot> slots;
  bool draining = false, stopping = false;

  uint64_t used() const {
    uint64_t bytes = 0;
    for (const Slot& slot : slots) {
      if (slot.state == State::loaded || slot.state == State::changing) bytes += slot.bytes;
    }
    return bytes;
  }
  Slot* least_recently_used() {
    Slot* best = nullptr;
    for (Slot& slot : slots) {
      if (slot.state == State::loaded && slot.n_leases == 0 && (best == nullptr || slot.last_used < best->last_used))
        best = &slot;
    }
    return best;
  }
  // Of the models that nobody uses, the one to be unloaded next for being idle; null where none is to be.
  Slot* next_due() {
    Slot* best = nullptr;
    for (Slot& slot : slots) {
      if (slot.state == State::loaded && slot.n_leases == 0 && slot.may_idle_out() &&
          (best == nullptr || slot.due() < best->due()))
        best = &slot;
    }
    return best;
  }
};

Lease lease(const std::shared_ptr<Core>& core, Slot& slot) {
  ++slot.n_leases;
  const size_t i = static_cast<size_t>(&slot - core->slots.data());
  const auto give_back = [core, i, model = slot.model](LoadedModel*) mutable {
    {
      const std::lock_guard lock(core->mutex);
      --core->slots[i].n_leases;
      core->slots[i].last_used = Clock::now();
    }
    core->changed.notify_all();
    model.reset();
  };
  return Lease(slot.model.get(), give_back);
}

// With the lock held, which it gives up while the model goes.
void unload_slot(Core& core, Slot& slot, std::unique_lock<std::mutex>& lock) {
  slot.state = State::changing;
  std::shared_ptr<LoadedModel> model = std::move(slot.model);
  lock.unlock();
  model->scheduler->wait_idle(core.options.drain);
  model->scheduler->stop();
  const SchedulerStats last = model->scheduler->stats();
  model.reset();
  lock.lock();
  slot.last = last;
  slot.state = State::unloaded;
  core.changed.notify_all();
}

Result<std::shared_ptr<LoadedModel>> load(const ModelEntry& entry) {
  auto model = std::make_shared<LoadedModel>();
  QUERN_TRY(model->engine, engine::Engine::load(entry.path, entry.engine));
  QUERN_TRY(model->scheduler, Scheduler::create(model->engine, entry.scheduler));
  model->grammars = std::make_unique<GrammarStore>(model->engine->tokenizer());
  return model;
}

}  // namespace

class ModelPool::Impl {
 public:
  std::shared_ptr<Core> core = std::make_shared<Core>();
  std::thread janitor;

  void start() {
    if (std::any_of(core->slots.begin(), core->slots.end(), [](const Slot& slot) { return slot.may_idle_out(); }))
      janitor = std::thread([this] { unload_idle(); });
  }
  Result<Lease> acquire(std::string_view id);
  Slot* find(std::string_view id) {
    for (Slot& slot : core->slots) {
      if (id.empty() || slot.entry.id == id) return &slot;
    }
    return nullptr;
  }
  void unload_idle();

 private:
  Result<void> make_room(const Slot& wanted, std::unique_lock<std::mutex>& lock);
  Result<void> load_slot(Slot& slot, std::unique_lock<std::mutex>& lock);
};

Result<Lease> ModelPool::Impl::acquire(std::string_view id) {
  std::unique_lock lock(core->mutex);
  Slot* slot = find(id);
  if (slot == nullptr) {
    std::string names;
    for (const Slot& other : core->slots) names += (names.empty() ? "" : ", ") + other.entry.id;
    return Error{Status::not_found, "there is no model '" + std::string(id) + "'; there are: " + names};
  }
  bool waited = false;
  for (;;) {
    if (core->draining) return Error{Status::cancelled, "the server is shutting down"};
    if (slot->state == State::loaded) return lease(core, *slot);
    if (slot->state == State::changing) {
      core->changed.wait(lock);
      waited = true;
      continue;
    }
    if (slot->state == State::failed && waited) return slot->error;  // who waited with the one that tried
    if (const auto room = make_room(*slot, lock); !room.ok()) return room.error();
    // The lock may have been given up.
    if (slot->state == State::unloaded || slot->state == State::failed) QUERN_TRY_VOID(load_slot(*slot, lock));
  }
}

// Unloads models that nobody uses, the least recently used first. Waits for those that are going already.
Result<void> ModelPool::Impl::make_room(const Slot& wanted, std::unique_lock<std::mutex>& lock) {
  const uint64_t budget = core->options.memory_bytes;
  while (budget > 0 && core->used() > 0 && core->used() + wanted.bytes > budget) {
    if (wanted.state == State::changing || wanted.state == State::loaded) return {};  // someone else was quicker
    if (Slot* oldest = core->least_recently_used(); oldest != nullptr) {
      unload_slot(*core, *oldest, lock);
    } else if (std::any_of(core->slots.begin(), core->slots.end(),
                           [](const Slot& slot) { return slot.state == State::changing; })) {
      core->changed.wait(lock);
    } else {
      return Error{Status::limit_exceeded, "model '" + wanted.entry.id + "' needs memory that models in use have; " +
                                               std::to_string(core->used() >> 20) + " of " +
                                               std::to_string(budget >> 20) + " MiB are taken"};
    }
  }
  return {};
}

Result<void> ModelPool::Impl::load_slot(Slot& slot, std::unique_lock<std::mutex>& lock) {
  slot.state = State::changing;
  lock.unlock();
  auto model = load(slot.entry);
  lock.lock();
  if (!model.ok()) {
    slot.state = State::failed;
    slot.error = model.error();
    core->changed.notify_all();
    return slot.error;
  }
  slot.model = *std::move(model);
  slot.state = State::loaded;
  slot.last_used = Clock::now();
  slot.bytes = slot.model->engine->file().bytes() + slot.model->scheduler->stats().kv_bytes_budget;
  core->changed.notify_all();
  // Now that its keys and values are counted, another one may have to go.
  ++slot.n_leases;
  while (core->options.memory_bytes > 0 && core->used() > core->options.memory_bytes) {
    Slot* oldest = core->least_recently_used();
    if (oldest == nullptr) break;
    unload_slot(*core, *oldest, lock);
  }
  --slot.n_leases;
  return {};
}

void ModelPool::Impl::unload_idle() {
  std::unique_lock lock(core->mutex);
  while (!core->stopping) {
    Slot* next = core->next_due();
    if (next == nullptr) {
      core->changed.wait(lock);
    } else if (const Clock::time_point due = next->due(); Clock::now() >= due) {
      log_info("model '" + next->entry.id + "' was idle and is unloaded");
      unload_slot(*core, *next, lock);
    } else {
      core->changed.wait_until(lock, due);
    }
  }
}

ModelPool::ModelPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelPool::~ModelPool() {
  stop();
}

Result<std::unique_ptr<ModelPool>> ModelPool::create(std::vector<ModelEntry> models, const PoolOptions& options) {
  if (models.empty()) return Error{Status::invalid_argument, "no model to serve"};
  auto impl = std::make_unique<Impl>();
  impl->core->options = options;
  std::unordered_set<std::string> ids;
  for (ModelEntry& entry : models) {
    if (entry.id.empty() || !ids.insert(entry.id).second)
      return Error{Status::invalid_argument, "each model needs an id of its own; '" + entry.id + "' is not one"};
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(entry.path, error);
    if (error) return Error{Status::not_found, entry.path + ": " + error.message()};
    Slot slot;
    slot.bytes = bytes + entry.scheduler.kv_bytes;
    slot.entry = std::move(entry);
    impl->core->slots.push_back(std::move(slot));
  }
  try {
    impl->start();
  } catch (const std::system_error& error) {
    return Error{Status::io_error, std::string("no thread to unload idle models: ") + error.what()};
  }
  return std::unique_ptr<ModelPool>(new ModelPool(std::move(impl)));
}

Result<Lease> ModelPool::acquire(std::string_view id) {
  return impl_->acquire(id);
}

std::vector<ModelStatus> ModelPool::list() const {
  const std::lock_guard lock(impl_->core->mutex);
  std::vector<ModelStatus> all;
  for (const Slot& slot : impl_->core->slots) {
    ModelStatus status{slot.entry.id, slot.entry.path, slot.state, {}, slot.bytes, slot.n_leases, 0, nullptr};
    if (slot.state == State::loaded) status.engine = slot.model->engine;
    if (slot.state == State::failed) status.error = slot.error.message;
    if (slot.state == State::loaded && slot.n_leases == 0)
      status.idle_seconds = Seconds(Clock::now() - slot.last_used).count();
    all.push_back(std::move(status));
  }
  return all;
}

std::map<std::string, SchedulerStats> ModelPool::stats() const {
  std::map<std::string, SchedulerStats> all;
  std::vector<std::pair<std::string, std::shared_ptr<LoadedModel>>> loaded;
  {
    const std::lock_guard lock(impl_->core->mutex);
    for (const Slot& slot : impl_->core->slots) {
      if (slot.model != nullptr) {
        loaded.emplace_back(slot.entry.id, slot.model);
      } else if (slot.last) {
        all[slot.entry.id] = *slot.last;
      }
    }
  }
  for (const auto& [id, model] : loaded) all[id] = model->scheduler->stats();
  return all;
}

Result<void> ModelPool::unload(std::string_view id) {
  std::unique_lock lock(impl_->core->mutex);
  Slot* slot = impl_->find(id);
  if (slot == nullptr) return Error{Status::not_found, "there is no model '" + std::string(id) + "'"};
  if (slot->n_leases > 0 || slot->state == State::changing)
    return Error{Status::limit_exceeded, "model '" + slot->entry.id + "' is in use"};
  if (slot->state == State::loaded) unload_slot(*impl_->core, *slot, lock);
  return {};
}

// Schedulers are asked without the lock: leases that are given back need it.
void ModelPool::drain() {
  std::vector<std::shared_ptr<LoadedModel>> models;
  {
    const std::lock_guard lock(impl_->core->mutex);
    impl_->core->draining = true;
    for (const Slot& slot : impl_->core->slots) models.push_back(slot.model);
  }
  impl_->core->changed.notify_all();
  for (const auto& model : models) {
    if (model != nullptr) model->scheduler->drain();
  }
}

bool ModelPool::wait_idle(Seconds deadline) {
  drain();
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline);
  std::vector<std::shared_ptr<LoadedModel>> models;
  {
    std::unique_lock lock(impl_->core->mutex);
    const auto settled = [&] {
      return std::none_of(impl_->core->slots.begin(), impl_->core->slots.end(),
                          [](const Slot& slot) { return slot.state == State::changing; });
    };
    if (!impl_->core->changed.wait_until(lock, end, settled)) return false;
    for (const Slot& slot : impl_->core->slots) models.push_back(slot.model);
  }
  bool idle = true;
  for (const auto& model : models) {
    if (model != nullptr) idle &= model->scheduler->wait_idle(std::max(Seconds(0), Seconds(end - Clock::now())));
  }
  return idle;
}

void ModelPool::stop() {
  drain();
  {
    const std::lock_guard lock(impl_->core->mutex);
    impl_->core->stopping = true;
  }
  impl_->core->changed.notify_all();
  if (impl_->janitor.joinable()) impl_->janitor.join();
  std::unique_lock lock(impl_->core->mutex);
  for (;;) {
    const auto changing = [](const Slot& slot) { return slot.state == State::changing; };
    impl_->core->changed.wait(
        lock, [&] { return std::none_of(impl_->core->slots.begin(), impl_->core->slots.end(), changing); });
    const auto loaded = std::find_if(impl_->core->slots.begin(), impl_->core->slots.end(),
                                     [](const Slot& slot) { return slot.state == State::loaded; });
    if (loaded == impl_->core->slots.end()) return;
    loaded->state = State::changing;
    std::shared_ptr<LoadedModel> model = std::move(loaded->model);
    lock.unlock();
    model->scheduler->stop();
    const SchedulerStats last = model->scheduler->stats();
    model.reset();  // leases may still hold it
    lock.lock();
    loaded->last = last;
    loaded->state = State::unloaded;
    impl_->core->changed.notify_all();
  }
}

}  // namespace quern::serve
