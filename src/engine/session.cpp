// Session: one timeline over an engine. Prefix reuse, chunked evaluation, rollback.
#include <algorithm>
#include <numeric>

#include "engine/state.h"

namespace quern::engine {
namespace {

class SessionImpl final : public Session {
 public:
  explicit SessionImpl(Engine::State& state) : s_(state), kv_(*state.kv_pool) {
    const size_t rows = static_cast<size_t>(std::max({s_.n_chunk, kAllOutputs, kernels::kFewRows}));
    positions_.resize(rows);
    out_rows_.resize(rows);
    logits_.resize(static_cast<size_t>(s_.model->spec.n_vocab));
    timeline_.reserve(static_cast<size_t>(s_.n_ctx));
  }

  Result<void> sync(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) override {
    QUERN_TRY_VOID(check(tokens));
    const size_t shared = static_cast<size_t>(
        std::mismatch(timeline_.begin(), timeline_.end(), tokens.begin(), tokens.end()).first - timeline_.begin());
    // The last token is always evaluated: its logits are what the caller wants.
    truncate(static_cast<int>(std::min(shared, tokens.size() - 1)));
    n_reused_ = n_past();
    while (timeline_.size() < tokens.size()) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Error{Status::cancelled, "cancelled"};
      const size_t left = tokens.size() - timeline_.size();
      const int n = static_cast<int>(std::min(left, static_cast<size_t>(s_.n_chunk)));
      const bool last = left == static_cast<size_t>(n);
      out_rows_[0] = n - 1;
      const plan::Plan& plan = s_.plan_for(n);
      QUERN_TRY_VOID(evaluate(plan, tokens.subspan(timeline_.size(), static_cast<size_t>(n)), last ? 1 : 0));
      if (last) std::copy_n(plan.logits, logits_.size(), logits_.begin());
    }
    return {};
  }

  std::span<const float> logits() const override { return logits_; }

  Result<void> logits_of_all(std::span<const int32_t> tokens, const RowsFn& rows) override {
    QUERN_TRY_VOID(check(tokens));
    truncate(0);
    const int chunk = std::min(kAllOutputs, s_.n_chunk);
    while (timeline_.size() < tokens.size()) {
      const int first = n_past();
      const int n = static_cast<int>(std::min(tokens.size() - timeline_.size(), static_cast<size_t>(chunk)));
      std::iota(out_rows_.begin(), out_rows_.begin() + n, 0);
      QUERN_TRY_VOID(evaluate(s_.all, tokens.subspan(timeline_.size(), static_cast<size_t>(n)), n));
      QUERN_TRY_VOID(rows(first, n, {s_.all.logits, logits_.size() * static_cast<size_t>(n)}));
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
    timeline_.resize(static_cast<size_t>(n));
  }

 private:
  Result<void> check(std::span<const int32_t> tokens) const {
    if (tokens.empty()) return Error{Status::invalid_argument, "no tokens to evaluate"};
    if (tokens.size() > static_cast<size_t>(s_.n_ctx)) {
      return Error{Status::limit_exceeded, std::to_string(tokens.size()) + " tokens do not fit the context of " +
                                               std::to_string(s_.n_ctx) + "; a larger one can be asked for with -c"};
    }
    for (const int32_t id : tokens) {
      if (id < 0 || id >= s_.model->spec.n_vocab) {
        return Error{Status::invalid_argument, "token id " + std::to_string(id) + " is outside the vocabulary of " +
                                                   std::to_string(s_.model->spec.n_vocab)};
      }
    }
    return {};
  }

  Result<void> evaluate(const plan::Plan& plan, std::span<const int32_t> tokens, int n_out) {
    const int first = n_past(), n = static_cast<int>(tokens.size());
    QUERN_TRY_VOID(kv_.prepare(first, first + n));
    std::iota(positions_.begin(), positions_.begin() + n, first);
    const kernels::Span span{0, n, first, kv_.pages()};
    const kernels::RunContext ctx{n, tokens.data(), positions_.data(), &span, 1, out_rows_.data(), n_out};
    if (s_.on_run) {
      s_.runner->run_timed(plan, ctx, s_.run_times);
      s_.on_run(plan, ctx, s_.run_times);
    } else {
      s_.runner->run(plan, ctx);
    }
    timeline_.insert(timeline_.end(), tokens.begin(), tokens.end());
    return {};
  }

  Engine::State& s_;
  exec::KvTable kv_;
  std::vector<int32_t> timeline_;  // tokens whose keys and values are in kv_
  std::vector<int32_t> positions_, out_rows_;
  std::vector<float> logits_;
  int n_reused_ = 0;
};

}  // namespace

Result<std::unique_ptr<Session>> Engine::new_session() {
  return std::unique_ptr<Session>(new SessionImpl(*state_));
}

}  // namespace quern::engine
