#include "serve/batch.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>

#include "engine/engine.h"

namespace quern::serve {
namespace {

constexpr size_t kFirstSlice = 64;     // tokens, while their time is unknown
constexpr size_t kSmallestSlice = 16;  // fewer would cost nearly the same time

// The timeline must be able to grow by this much more than it will: a shared page is copied before it is written to.
constexpr int kSpare = 64;

uint64_t nanoseconds(double seconds) {
  return static_cast<uint64_t>(std::max(0.0, seconds) * 1e9);
}

// Of the timeline, at the request's end.
int positions_at_most(const Request& request, int n_ctx) {
  const int64_t n = request.max_tokens < 0 ? n_ctx : static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  return static_cast<int>(std::min<int64_t>(n, n_ctx));
}

// Likelihoods of a prompt, and some embeddings, need what a prefix in the cache does not hold.
bool may_share(const Request& request, const engine::Engine& engine) {
  return request.use_cache && request.n_prompt_logprobs < 0 && (!request.embed || engine.embeds_from_prefix());
}

bool in_step(const Row& row) {
  return !row.finished() && row.prompt_done() && row.n_left() == 1;
}

bool in_slice(const Row& row) {
  return !row.finished() && !in_step(row);
}

}  // namespace

Batch::Batch(engine::Engine& engine, const SchedulerOptions& options, uint64_t kv_budget, Counters& counters,
             const std::atomic<bool>& stopping)
    : engine_(engine),
      options_(options),
      kv_budget_(kv_budget),
      counters_(counters),
      stopping_(stopping),
      cache_(static_cast<size_t>(options.max_kept)) {
  if (!options.prefix_folder.empty())
    store_ = PrefixStore::open(engine, options.prefix_folder, options.prefix_folder_bytes);
}

int Batch::n_of_client(std::string_view client) const {
  return static_cast<int>(
      std::count_if(rows_.begin(), rows_.end(), [&](const auto& row) { return row->request().client == client; }));
}

uint64_t Batch::growth(int n_past, int n_most) const {
  const uint64_t now = engine_.kv_bytes(n_past), most = engine_.kv_bytes(n_most + kSpare);
  return most > now ? most - now : 0;
}

bool Batch::has_room_for(const Request& request) {
  if (may_share(request, engine_)) cache_.find(request.prompt);  // what it will begin with is dropped last
  uint64_t needed = growth(0, positions_at_most(request, engine_.n_ctx()));
  for (const auto& row : rows_) {
    if (!row->finished())
      needed += growth(row->session == nullptr ? 0 : row->session->n_past(),
                       positions_at_most(row->request(), engine_.n_ctx()));
  }
  while (engine_.kv_use().bytes + needed > kv_budget_) {
    if (!cache_.drop_oldest()) return rows_.empty();
  }
  return true;
}

void Batch::add(Job job) {
  const auto stream = job.stream;
  const auto refuse = [&](Error error) {
    counters_.n_failed.add();
    Finish finish;
    finish.reason = FinishReason::error;
    finish.error = std::move(error);
    stream->push(std::move(finish));
  };
  counters_.n_prompt_tokens.add(job.request.prompt.size());
  try {
    rows_.reserve(rows_.size() + 1);
    auto row = Row::create(std::move(job), engine_);
    if (!row.ok()) return refuse(row.error());
    rows_.push_back(*std::move(row));
  } catch (const std::bad_alloc&) {
    refuse({Status::out_of_memory, "no memory for another request"});
  }
  show();
}

void Batch::advance() {
  end_cancelled();
  step();
  slice();
  std::erase_if(rows_, [](const auto& row) { return row->finished(); });
  show();
}

void Batch::finish_all(FinishReason reason, const std::optional<Error>& error) {
  for (auto& row : rows_) {
    if (row->finished()) continue;
    row->finish(reason, error);
    free_row(*row);
  }
  rows_.clear();
  if (reason == FinishReason::shutdown) save_kept();
  cache_.clear();
  show();
}

void Batch::save_kept() {
  if (store_ == nullptr) return;
  std::vector<PrefixStore::Kept> kept;
  cache_.each([&](const engine::Session& session, std::span<const int32_t> tokens) {
    kept.push_back({&session, tokens});
  });
  store_->save(kept);
}

template <class Work>
void Batch::guarded(Row& row, const Work& work) {
  try {
    const Result<void> done = work();
    if (!done.ok()) row.finish(FinishReason::error, done.error());
  } catch (const std::bad_alloc&) {
    row.finish(FinishReason::error, Error{Status::out_of_memory, "not enough memory for this request"});
  } catch (const std::exception& error) {  // of a mask that is not ours
    row.finish(FinishReason::error, Error{Status::unsupported, std::string("this request failed: ") + error.what()});
  }
  if (row.finished()) free_row(row);
}

template <class Work>
Result<void> Batch::with_memory(const Work& work) {
  for (;;) {
    Result<void> done = work();
    if (done.ok() || done.error().status != Status::out_of_memory || !cache_.drop_oldest()) return done;
  }
}

// Everything that others can see of it is free before they can know of its end.
void Batch::free_row(Row& row) {
  Finish finish = row.take_finish();
  if (row.session != nullptr && finish.reason != FinishReason::error && row.request().use_cache) {
    const auto evaluated = row.timeline().first(static_cast<size_t>(row.session->n_past()));
    try {
      cache_.keep(std::move(row.session), {evaluated.begin(), evaluated.end()});
    } catch (const std::bad_alloc&) {  // then it is not kept
    }
  }
  row.session.reset();
  const uint64_t service = nanoseconds(seconds_between(row.admitted, Clock::now())), mean = counters_.service_ns.get();
  counters_.service_ns.set(mean == 0 ? service : mean - mean / 8 + service / 8);
  switch (finish.reason) {
    case FinishReason::error:
      counters_.n_failed.add();
      break;
    case FinishReason::cancelled:
    case FinishReason::shutdown:
      counters_.n_cancelled.add();
      break;
    default:
      counters_.n_finished.add();
  }
  show();
  row.stream().push(std::move(finish));
}

void Batch::end_cancelled(const Row* except) {
  for (auto& row : rows_) {
    if (row.get() == except || row->finished() || !row->cancelled()) continue;
    row->finish(FinishReason::cancelled);
    free_row(*row);
  }
}

void Batch::take_logits(Row& row, std::span<const float> logits) {
  const int before = row.n_generated();
  row.go_on(logits);
  counters_.n_generated_tokens.add(static_cast<uint64_t>(row.n_generated() - before));
}

void Batch::step() {
  RowList rows;
  for (auto& row : rows_) {
    if (in_step(*row)) rows.push_back(row.get());
  }
  if (rows.empty()) return;
  counters_.take_up_work();
  const Clock::time_point start = Clock::now();
  const auto done = evaluate_step(rows);
  if (!done.ok()) return step_one_by_one(rows);
  counters_.n_steps.add();
  counters_.step_ns.add(nanoseconds(seconds_between(start, Clock::now())));
  for (Row* row : rows) take_step(*row);
}

void Batch::take_step(Row& row) {
  guarded(row, [&]() -> Result<void> {
    take_logits(row, row.session->logits());
    return {};
  });
}

Result<void> Batch::evaluate_step(const RowList& rows) {
  std::vector<engine::NextToken> next;
  next.reserve(rows.size());
  for (Row* row : rows) next.push_back({row->session.get(), row->timeline().back()});
  return with_memory([&] { return options_.step ? options_.step(engine_, next) : engine::step(engine_, next); });
}

// A step that fails changes no timeline, so who fails alone is who made it fail.
void Batch::step_one_by_one(const RowList& rows) {
  for (Row* row : rows) {
    counters_.take_up_work();
    auto done = evaluate_step({row});
    if (done.ok()) {
      counters_.n_steps.add();
      take_step(*row);
    } else {
      guarded(*row, [&] { return done; });
    }
  }
}

bool Batch::any_generates() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const auto& row) { return in_step(*row); });
}

size_t Batch::slice_tokens(Seconds time) const {
  if (seconds_per_token_ <= 0) return kFirstSlice;
  return std::max(kSmallestSlice, static_cast<size_t>(std::min(time.count() / seconds_per_token_, 1e6)));
}

void Batch::slice() {
  size_t left = slice_tokens(any_generates() ? options_.slice : options_.slice_alone);
  while (left > 0) {
    Row* row = next_prompt();
    if (row == nullptr) return;
    counters_.take_up_work();
    size_t n = row->n_left();
    guarded(*row, [&] { return extend(*row, left); });
    n = row->finished() ? n : n - std::min(n, row->n_left());
    left -= std::min(left, std::max<size_t>(n, 1));
    if (any_generates()) left = std::min(left, slice_tokens(options_.slice));
    end_cancelled();
  }
}

// A row that goes on with several known tokens first, then one that was passed over too often, then the shortest.
Row* Batch::next_prompt() {
  const auto rank = [](const Row& row) {
    return row.prompt_done() ? 0 : row.n_passed >= Scheduler::kMaxPassed ? 1 : 2;
  };
  Row* best = nullptr;
  for (auto& row : rows_) {
    if (!in_slice(*row)) continue;
    const int mine = rank(*row), other = best == nullptr ? 3 : rank(*best);
    if (mine < other || (mine == 2 && other == 2 && row->n_left() < best->n_left())) best = row.get();
  }
  if (best == nullptr) return nullptr;
  for (auto& row : rows_) {
    if (row.get() != best && in_slice(*row)) ++row->n_passed;
  }
  best->n_passed = 0;
  return best;
}

Result<void> Batch::extend(Row& row, size_t n_most) {
  if (row.session == nullptr && row.wants_prompt_scores()) return score_prompt(row);
  if (row.session == nullptr) QUERN_TRY_VOID(begin(row));
  const size_t n = std::min(row.n_left(), n_most), n_before = static_cast<size_t>(row.session->n_past());
  const Clock::time_point start = Clock::now();
  const bool embed = row.request().embed;
  const auto tokens = row.timeline().first(n_before + n);
  QUERN_TRY_VOID(with_memory([&] { return embed ? row.session->embed(tokens) : row.session->sync(tokens); }));
  const double seconds = seconds_between(start, Clock::now()), one = seconds / static_cast<double>(n);
  counters_.n_slices.add();
  counters_.prompt_ns.add(nanoseconds(seconds));
  // Short runs say little about long ones: they count by their length.
  const double weight = std::min(0.5, static_cast<double>(n) / 128);
  seconds_per_token_ = seconds_per_token_ <= 0 ? one : (1 - weight) * seconds_per_token_ + weight * one;
  row.show_progress();
  if (row.n_left() > 0) return {};
  if (embed) {
    row.take_embedding(row.session->embedding());
  } else {
    take_logits(row, row.session->logits());
  }
  return {};
}

// A session with what the prompt shares with a kept timeline or a running one.
Result<void> Batch::begin(Row& row) {
  int n = 0;
  if (may_share(row.request(), engine_)) {
    PrefixCache::Match best = cache_.find(row.timeline());
    for (const auto& other : rows_) {
      if (other.get() == &row || other->session == nullptr || !other->request().use_cache) continue;
      const int usable = PrefixCache::usable(*other->session, other->timeline(), row.timeline());
      if (usable > best.n) best = {usable, other->session.get()};
    }
    QUERN_TRY(n, begin_from_folder(row, best.n));
    if (n == 0 && best.n > 0) row.session = cache_.take_whole(best);
    if (n > 0) {
      counters_.n_restored.add();
    } else if (row.session != nullptr) {
      n = best.n;
    } else {
      QUERN_TRY(row.session, engine_.new_session());
      if (best.n > 0 && row.session->share(*best.session, best.n).ok()) n = best.n;
    }
  } else {
    QUERN_TRY(row.session, engine_.new_session());
  }
  if (n > 0) {
    counters_.n_prefix_hits.add();
    counters_.n_cached_tokens.add(static_cast<uint64_t>(n));
  }
  row.set_cached(n);
  return {};
}

Result<int> Batch::begin_from_folder(Row& row, int n_kept) {
  if (store_ == nullptr) return 0;
  const PrefixStore::Match stored = store_->find(row.timeline());
  const int n = static_cast<int>(stored.n);
  if (n < n_kept + engine_.kv_pages().positions) return 0;
  QUERN_TRY(auto session, engine_.new_session());
  if (!store_->load(stored, *session)) return 0;
  row.session = std::move(session);
  return n;
}

// The whole prompt at once, since its logits come in one go; the others make a step between its parts.
Result<void> Batch::score_prompt(Row& row) {
  QUERN_TRY(row.session, engine_.new_session());
  const size_t n_vocab = static_cast<size_t>(engine_.n_vocab());
  std::vector<float> last;
  const auto take = [&](int first, int n_rows, std::span<const float> logits) -> Result<void> {
    for (int i = 0; i < n_rows; ++i)
      row.score_prompt(first + i + 1, logits.subspan(static_cast<size_t>(i) * n_vocab, n_vocab));
    const auto end = logits.last(n_vocab);
    last.assign(end.begin(), end.end());
    row.show_progress();
    counters_.n_slices.add();
    if (row.cancelled() || stopping_.load(std::memory_order_relaxed)) return Error{Status::cancelled, "cancelled"};
    end_cancelled(&row);
    step();
    counters_.take_up_work();
    return {};
  };
  const auto done = row.session->logits_of_all(row.timeline(), take);
  if (!done.ok() && done.error().status == Status::cancelled) {
    row.finish(row.cancelled() ? FinishReason::cancelled : FinishReason::shutdown);
    return {};
  }
  if (!done.ok()) return done.error();
  take_logits(row, last);
  return {};
}

void Batch::show() {
  uint64_t n_prompt = 0, n_generating = 0;
  for (const auto& row : rows_) {
    if (!row->finished()) ++(row->prompt_done() ? n_generating : n_prompt);
  }
  const engine::KvUse use = engine_.kv_use();
  counters_.n_prompt.set(n_prompt);
  counters_.n_generating.set(n_generating);
  counters_.n_kept.set(cache_.size());
  counters_.kv_pages.set(use.pages);
  counters_.kv_bytes.set(use.bytes);
}

}  // namespace quern::serve
