// Batch: the rows of one engine, and what is evaluated next (scheduler.h says by which rules). Used by the engine
// thread only; it knows no queue and no lock. Internal to serve/.
#pragma once

#include <memory>
#include <vector>

#include "serve/counters.h"
#include "serve/prefix_cache.h"
#include "serve/prefix_store.h"
#include "serve/row.h"
#include "serve/scheduler.h"

namespace quern::serve {

class Batch {
 public:
  // kv_budget: at least one full context's.
  Batch(engine::Engine& engine, const SchedulerOptions& options, uint64_t kv_budget, Counters& counters,
        const std::atomic<bool>& stopping);

  size_t n_rows() const { return rows_.size(); }
  // Running requests of a client.
  int n_of_client(std::string_view client) const;
  // Whether one more request fits now; drops kept timelines to make room.
  bool has_room_for(const Request& request);
  void add(Job job);
  // One round: cancellations, a step, a slice of prompt tokens.
  void advance();
  void finish_all(FinishReason reason, const std::optional<Error>& error = {});

 private:
  using RowList = std::vector<Row*>;
  void end_cancelled(const Row* except = nullptr);
  void step();
  void step_one_by_one(const RowList& rows);
  Result<void> evaluate_step(const RowList& rows);
  void slice();
  Row* next_prompt();
  // Evaluates up to n_most of what the row has left, or the whole prompt where its scores are wanted.
  Result<void> extend(Row& row, size_t n_most);
  Result<void> begin(Row& row);
  // Begins with what the folder has, where that is at least a page more than n_kept positions; how many it took.
  Result<int> begin_from_folder(Row& row, int n_kept);
  void save_kept();
  Result<void> score_prompt(Row& row);
  void take_logits(Row& row, std::span<const float> logits);
  void take_step(Row& row);
  // Runs work again while memory is short and a kept timeline can be dropped.
  template <class Work>
  Result<void> with_memory(const Work& work);
  // Runs work; an error or an exception ends the row. Then frees the row if it has finished.
  template <class Work>
  void guarded(Row& row, const Work& work);
  void free_row(Row& row);
  size_t slice_tokens(Seconds time) const;
  bool any_generates() const;
  uint64_t growth(int n_past, int n_most) const;  // bytes of keys and values that may yet be taken
  void show();

  engine::Engine& engine_;
  const SchedulerOptions& options_;
  uint64_t kv_budget_;
  Counters& counters_;
  const std::atomic<bool>& stopping_;
  PrefixCache cache_;
  std::unique_ptr<PrefixStore> store_;  // null: no folder
  std::vector<std::unique_ptr<Row>> rows_;
  double seconds_per_token_ = 0;  // of prompts, lately; 0: unknown
};

}  // namespace quern::serve
