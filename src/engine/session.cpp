// Session: one timeline over an engine. Prefix reuse, chunked evaluation, rollback; a step of several sessions at once.
#include <algorithm>
#include <new>
#include <numeric>

#include "engine/state.h"

namespace quern::engine {
namespace {

class SessionImpl final : public Session {
 public:
  explicit SessionImpl(Engine::State& state)
      : s_(state), kv_(*state.kv_pool), pool_(state.pooling.value_or(model::Pooling::last), state.model->spec.n_dim) {
    const size_t rows = static_cast<size_t>(std::max({s_.n_chunk, kAllOutputs, kernels::kFewRows}));
    positions_.resize(rows);
    out_rows_.resize(rows);
    logits_.resize(static_cast<size_t>(s_.model->spec.n_vocab));
    embedding_.resize(static_cast<size_t>(s_.model->spec.n_dim));
    timeline_.reserve(static_cast<size_t>(s_.n_ctx));
  }

  Result<void> sync(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) override {
    QUERN_TRY_VOID(check(tokens));
    // The last token is always evaluated: its logits are what the caller wants.
    truncate(static_cast<int>(std::min(shared_with(tokens), tokens.size() - 1)));
    return in_chunks(tokens, cancel, [&](std::span<const int32_t> chunk, bool last) -> Result<void> {
      const int n = static_cast<int>(chunk.size());
      out_rows_[0] = n - 1;
      const plan::Plan& plan = s_.plan_for(n);
      QUERN_TRY_VOID(evaluate(plan, chunk, last ? 1 : 0));
      if (last) std::copy_n(plan.output, logits_.size(), logits_.begin());
      return {};
    });
  }

  std::span<const float> logits() const override { return logits_; }

  Result<void> embed(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) override {
    if (!s_.pooling) return s_.no_pooling;
    QUERN_TRY_VOID(check(tokens));
    QUERN_TRY(const plan::Plan* hidden, hidden_plan(s_));
    truncate(static_cast<int>(pool_.begins_at(shared_with(tokens), tokens.size())));
    const auto run = [&](std::span<const int32_t> chunk, bool last) -> Result<void> {
      const int n = static_cast<int>(chunk.size());
      const int n_wanted = pool_.wanted(n_past(), n, last, out_rows_.data());
      QUERN_TRY_VOID(evaluate(*hidden, chunk, n_wanted));
      pool_.add(n, {hidden->output, embedding_.size() * static_cast<size_t>(n_wanted)});
      return {};
    };
    QUERN_TRY_VOID(in_chunks(tokens, cancel, run));
    return pool_.vector(embedding_);
  }

  std::span<const float> embedding() const override { return embedding_; }

  Result<void> logits_of_all(std::span<const int32_t> tokens, const RowsFn& rows) override {
    QUERN_TRY_VOID(check(tokens));
    truncate(0);
    const int chunk = std::min(kAllOutputs, s_.n_chunk);
    while (timeline_.size() < tokens.size()) {
      const int first = n_past();
      const int n = static_cast<int>(std::min(tokens.size() - timeline_.size(), static_cast<size_t>(chunk)));
      std::iota(out_rows_.begin(), out_rows_.begin() + n, 0);
      QUERN_TRY_VOID(evaluate(s_.all, tokens.subspan(timeline_.size(), static_cast<size_t>(n)), n));
      QUERN_TRY_VOID(rows(first, n, {s_.all.output, logits_.size() * static_cast<size_t>(n)}));
    }
    return {};
  }

  int n_past() const override { return static_cast<int>(timeline_.size()); }
  int n_reused() const override { return n_reused_; }

  void truncate(int n) override {
    if (n >= n_past()) return;
    if (n < kv_.earliest_rollback()) {
      n = 0;
      kv_.clear();
    }
    pool_.truncate(static_cast<size_t>(n));
    timeline_.resize(static_cast<size_t>(n));
  }

  int kept_by(int n) const override { return n >= n_past() ? n_past() : n < kv_.earliest_rollback() ? 0 : n; }

  Result<void> share(const Session& other, int n) override {
    const auto* from = dynamic_cast<const SessionImpl*>(&other);
    if (from == this) return Error{Status::invalid_argument, "a session cannot share with itself"};
    truncate(0);
    kv_.clear();
    if (from == nullptr || &from->s_ != &s_ || n < 0 || n > from->n_past() || from->kept_by(n) != n)
      return Error{Status::invalid_argument, "a session shares positions that another session of its engine has"};
    try {
      kv_.share(from->kv_, n);
      timeline_.assign(from->timeline_.begin(), from->timeline_.begin() + n);
    } catch (const std::bad_alloc&) {
      kv_.clear();
      return Error{Status::out_of_memory, "no memory to share a timeline"};
    }
    return {};
  }

  std::span<const std::byte> kv_page(size_t kind, size_t index) const override { return kv_.page(kind, index); }

  Result<void> restore(std::span<const int32_t> tokens, const PageSource& source) override {
    truncate(0);
    kv_.clear();
    QUERN_TRY_VOID(check(tokens));
    QUERN_TRY_VOID(kv_.restore(static_cast<int>(tokens.size()), source));
    timeline_.assign(tokens.begin(), tokens.end());
    return {};
  }

  // For step(): what a run of one more token needs, and what it leaves. prepare_next() changes nothing that shows.
  const Engine::State& state() const { return s_; }
  Result<kernels::Span> prepare_next(int row, int32_t token) {
    if (n_past() >= s_.n_ctx) return no_room(timeline_.size() + 1);
    QUERN_TRY_VOID(check_ids({&token, 1}));
    QUERN_TRY_VOID(kv_.prepare(n_past(), n_past() + 1));
    return kernels::Span{row, 1, n_past(), kv_.pages()};
  }
  void take_next(int32_t token, const float* logits /*[n_vocab]*/) {
    n_reused_ = n_past();
    timeline_.push_back(token);
    std::copy_n(logits, logits_.size(), logits_.begin());
  }

 private:
  Error no_room(size_t n_tokens) const {
    return {Status::limit_exceeded, std::to_string(n_tokens) + " tokens do not fit the context of " +
                                        std::to_string(s_.n_ctx) + "; a larger one can be asked for with -c"};
  }

  Result<void> check(std::span<const int32_t> tokens) const {
    if (tokens.empty()) return Error{Status::invalid_argument, "no tokens to evaluate"};
    if (tokens.size() > static_cast<size_t>(s_.n_ctx)) return no_room(tokens.size());
    return check_ids(tokens);
  }

  Result<void> check_ids(std::span<const int32_t> tokens) const {
    for (const int32_t id : tokens) {
      if (id < 0 || id >= s_.model->spec.n_vocab) {
        return Error{Status::invalid_argument, "token id " + std::to_string(id) + " is outside the vocabulary of " +
                                                   std::to_string(s_.model->spec.n_vocab)};
      }
    }
    return {};
  }

  // How many of tokens the timeline begins with.
  size_t shared_with(std::span<const int32_t> tokens) const {
    return static_cast<size_t>(std::mismatch(timeline_.begin(), timeline_.end(), tokens.begin(), tokens.end()).first -
                               timeline_.begin());
  }

  // What tokens have beyond the timeline, chunk by chunk. run(chunk, last): appends it.
  template <class Run>
  Result<void> in_chunks(std::span<const int32_t> tokens, const std::atomic<bool>* cancel, const Run& run) {
    n_reused_ = n_past();
    while (timeline_.size() < tokens.size()) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Error{Status::cancelled, "cancelled"};
      const size_t left = tokens.size() - timeline_.size(), n = std::min(left, static_cast<size_t>(s_.n_chunk));
      QUERN_TRY_VOID(run(tokens.subspan(timeline_.size(), n), n == left));
    }
    return {};
  }

  Result<void> evaluate(const plan::Plan& plan, std::span<const int32_t> tokens, int n_out) {
    const int first = n_past(), n = static_cast<int>(tokens.size());
    QUERN_TRY_VOID(kv_.prepare(first, first + n));
    std::iota(positions_.begin(), positions_.begin() + n, first);
    const kernels::Span span{0, n, first, kv_.pages()};
    const kernels::RunContext ctx{n, tokens.data(), positions_.data(), &span, 1, out_rows_.data(), n_out};
    s_.run(plan, ctx);
    timeline_.insert(timeline_.end(), tokens.begin(), tokens.end());
    return {};
  }

  Engine::State& s_;
  exec::KvTable kv_;
  std::vector<int32_t> timeline_;  // tokens whose keys and values are in kv_
  std::vector<int32_t> positions_, out_rows_;
  std::vector<float> logits_, embedding_;
  Pool pool_;  // of positions that the timeline still has
  int n_reused_ = 0;
};

}  // namespace

Result<std::unique_ptr<Session>> Engine::new_session() {
  return std::unique_ptr<Session>(new SessionImpl(*state_));
}

KvUse Engine::kv_use() const {
  return {state_->kv_pool->pages_used(), state_->kv_pool->bytes_used()};
}

uint64_t Engine::kv_bytes(int n_positions) const {
  constexpr int kPage = kernels::kPagePositions;
  uint64_t bytes = 0;
  for (const plan::KvKind& kind : state_->kv_layout.kinds) {
    int n = n_positions;
    // A run of a chunk begins with what lies behind the window, and ends a page later at both ends.
    if (kind.window > 0)
      n = std::min(n,
                   kind.window + exec::KvTable::kKeepBehindWindow + std::max(state_->n_chunk, kAllOutputs) + 2 * kPage);
    bytes += kind.page_bytes * static_cast<uint64_t>((n + kPage - 1) / kPage);
  }
  return bytes;
}

Result<void> step(Engine& engine, std::span<const NextToken> next) {
  Engine::State& s = engine.state();
  if (next.empty() || next.size() > static_cast<size_t>(kMaxBatch)) {
    return Error{Status::invalid_argument,
                 "a step takes 1 to " + std::to_string(kMaxBatch) + " sessions, not " + std::to_string(next.size())};
  }
  SessionImpl* sessions[kMaxBatch];
  kernels::Span spans[kMaxBatch];
  int32_t ids[kMaxBatch], positions[kMaxBatch], rows[kMaxBatch];
  const int n = static_cast<int>(next.size());
  for (int i = 0; i < n; ++i) {
    const NextToken& one = next[static_cast<size_t>(i)];
    sessions[i] = dynamic_cast<SessionImpl*>(one.session);
    if (sessions[i] == nullptr || &sessions[i]->state() != &s ||
        std::find(sessions, sessions + i, sessions[i]) != sessions + i)
      return Error{Status::invalid_argument, "a step takes sessions of its engine, each once"};
    QUERN_TRY(spans[i], sessions[i]->prepare_next(i, one.token));
    ids[i] = one.token;
    positions[i] = spans[i].first_position;
    rows[i] = i;
  }
  const plan::Plan& plan = s.plan_for_batch(n);
  s.run(plan, {n, ids, positions, spans, n, rows, n});
  const size_t n_vocab = static_cast<size_t>(s.model->spec.n_vocab);
  for (int i = 0; i < n; ++i) sessions[i]->take_next(ids[i], plan.output + n_vocab * static_cast<size_t>(i));
  return {};
}

}  // namespace quern::engine
