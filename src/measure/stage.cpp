#include "measure/stage.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace quern::measure {
namespace {

constexpr int kPoison = 0xA5;  // as a float -2.9e-16: no NaN, and nothing that a kernel leaves by itself
constexpr int kGateRows = 45;  // a prompt with tails of every tile size

bool answers(const kernels::Kernel& k, const kernels::Query& q, uint32_t isa_mask) {
  return k.key.op == q.op && k.key.weight == q.weight && k.key.act == q.act && k.key.layout == q.layout &&
         (k.key.row_classes & kernels::class_bit(q.row_class)) != 0 &&
         ((isa_mask >> static_cast<int>(k.isa)) & 1) != 0 && (k.fits == nullptr || k.fits(q.shape));
}

std::vector<const kernels::Kernel*> candidates_of(const kernels::Query& query, uint32_t isa_mask,
                                                  const std::vector<const kernels::Kernel*>& guests) {
  auto found = kernels::kernel_candidates(query, isa_mask);
  for (const kernels::Kernel* guest : guests) {
    if (answers(*guest, query, isa_mask)) found.push_back(guest);
  }
  return found;
}

template <class Regions>
void save(const Regions& regions, std::vector<std::byte>& into) {
  into.clear();
  for (const auto& r : regions) into.insert(into.end(), r.data, r.data + r.bytes);
}

template <class Regions>
void restore(const Regions& regions, const std::vector<std::byte>& from) {
  size_t at = 0;
  for (const auto& r : regions) {
    std::memcpy(r.data, from.data() + at, r.bytes);
    at += r.bytes;
  }
}

template <class Regions>
bool equal(const Regions& regions, const std::vector<std::byte>& expected) {
  size_t at = 0;
  for (const auto& r : regions) {
    if (std::memcmp(r.data, expected.data() + at, r.bytes) != 0) return false;
    at += r.bytes;
  }
  return true;
}

// Scratch bytes a thread needs for any candidate of any call.
size_t scratch_of_candidates(const plan::Plan& plan, uint32_t isa_mask,
                             const std::vector<const kernels::Kernel*>& guests) {
  size_t bytes = plan.scratch_bytes;
  for (const plan::Step& step : plan.steps) {
    for (const plan::Call& call : step.calls) {
      for (const kernels::Kernel* k : candidates_of(call.query, isa_mask, guests)) {
        if (k->scratch_bytes != nullptr) bytes = std::max(bytes, k->scratch_bytes(call.query.shape));
      }
    }
  }
  return bytes;
}

}  // namespace

Track::Track(engine::Engine::State& state, Team& team, int n_rows) : state_(state), team_(team), kv_(*state.kv_pool) {
  tokens_.resize(static_cast<size_t>(std::max({kDepth + kernels::kFewRows, n_rows, engine::kAllOutputs})));
  positions_.resize(tokens_.size());
  out_rows_.resize(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i)
    tokens_[i] = static_cast<int32_t>((i * 7 % 251 + 3) % static_cast<size_t>(state.model->spec.n_vocab));
}

Result<void> Track::compile_plans(int n_rows) {
  const struct {
    plan::Plan* plan;
    int rows, outputs;
  } wanted[] = {{&plans_.decode, 1, 1},
                {&plans_.batch, kernels::kFewRows, kernels::kFewRows},
                {&plans_.prefill, n_rows, 1},
                {&plans_.all, engine::kAllOutputs, engine::kAllOutputs}};
  for (const bool measure : {true, false}) {
    size_t bytes = 0;
    for (const auto& w : wanted) {
      QUERN_TRY(*w.plan, plan::compile(*state_.model, state_.kv_layout, *state_.weights,
                                       {w.rows, w.outputs, state_.isa_mask, state_.decode.options.no_fuse, team_.size(),
                                        nullptr, state_.n_ctx},
                                       arena_.data()));
      bytes = std::max(bytes, w.plan->arena_bytes);
    }
    if (measure) {
      QUERN_TRY(arena_, Buffer::allocate(bytes, "activations"));
    }
  }
  return {};
}

Result<std::unique_ptr<Track>> Track::create(engine::Engine::State& state, Team& team, int n_rows,
                                             const std::vector<const kernels::Kernel*>& guests) {
  std::unique_ptr<Track> track(new Track(state, team, n_rows));
  QUERN_TRY_VOID(track->compile_plans(n_rows));
  const Plans& plans = track->plans_;
  size_t scratch = 0;
  for (const plan::Plan* plan : {&plans.decode, &plans.batch, &plans.prefill, &plans.all})
    scratch = std::max(scratch, scratch_of_candidates(*plan, state.isa_mask, guests));
  track->scratch_each_ = align_up(scratch, 4096);
  QUERN_TRY(track->scratch_,
            Buffer::allocate(track->scratch_each_ * static_cast<size_t>(team.size()), "kernel scratch"));
  QUERN_TRY(exec::Runner runner, exec::Runner::create(team, scratch));
  track->runner_.emplace(std::move(runner));
  QUERN_TRY_VOID(track->kv_.prepare(0, static_cast<int>(track->tokens_.size())));
  // What a decoded token looks back on.
  for (int first = 0; first < kDepth;) {
    const int n = std::min(kDepth - first, n_rows);
    track->runner_->run(plans.prefill, track->context(first, n, 0));
    first += n;
  }
  return track;
}

kernels::RunContext Track::context(int first, int n_rows, int n_out) {
  std::iota(positions_.begin(), positions_.begin() + n_rows, first);
  std::iota(out_rows_.begin(), out_rows_.begin() + n_out, n_rows - n_out);
  span_ = {0, n_rows, first, kv_.pages()};
  return {n_rows, tokens_.data() + first, positions_.data(), &span_, 1, out_rows_.data(), n_out};
}

Stage::Stage(Track& track, const plan::Plan& plan, int first, int n_rows, int max_out)
    : track_(track), plan_(plan), first_(first), n_rows_(n_rows), max_out_(max_out) {
  for (const plan::Step& step : plan_.steps) contest_of_.insert(contest_of_.end(), step.calls.size(), -1);
}

void Stage::collect(std::vector<kernels::Query>& known, const std::vector<const kernels::Kernel*>& guests) {
  const std::vector<kernels::Query> before = known;
  size_t at = 0;
  for (const plan::Step& step : plan_.steps) {
    for (const plan::Call& call : step.calls) {
      const auto same = [&](const Contest& c) { return c.query == call.query; };
      auto it = std::find_if(contests_.begin(), contests_.end(), same);
      if (it == contests_.end() && std::find(before.begin(), before.end(), call.query) == before.end()) {
        auto kernels = candidates_of(call.query, track_.state().isa_mask, guests);
        if (kernels.size() > 1) {
          it = contests_.insert(contests_.end(), {call.query, std::move(kernels)});
          known.push_back(call.query);
        }
      }
      contest_of_[at++] = it != contests_.end() ? static_cast<int>(it - contests_.begin()) : -1;
    }
  }
}

void Stage::run_call(const kernels::Kernel& kernel, const plan::Call& call, const kernels::RunContext& ctx) {
  const kernels::Range all = {0, kernels::row_count(ctx, call.rows)};
  track_.team().run([&](int thread) {
    kernels::Worker worker{thread, track_.team().size(), track_.scratch(thread), all};
    if (!call.replicated) worker.rows = kernels::share(all.end, worker);
    kernel.fn(call.raw_args(thread), ctx, worker);
  });
}

// The plan's own memory, and for keys and values the pages that the rows go to.
std::vector<Stage::Region> Stage::written_by(const plan::Call& call) {
  const auto& state = track_.state();
  const auto* store = std::get_if<kernels::KvStoreArgs>(&call.args);
  if (store == nullptr) return {{track_.arena(), plan_.arena_bytes}};
  const auto kind = static_cast<size_t>(store->place.kind);
  std::vector<Region> regions;
  for (int page = first_ / kernels::kPagePositions; page * kernels::kPagePositions < first_ + n_rows_; ++page)
    regions.push_back({track_.kv().pages()[kind][page], state.kv_layout.kinds[kind].page_bytes});
  return regions;
}

void Stage::check_call(const plan::Call& call, Contest& contest, const RunFn& run, std::vector<std::string>& wrong) {
  const std::vector<Region> regions = written_by(call);
  const bool pages = std::holds_alternative<kernels::KvStoreArgs>(call.args);
  std::vector<std::byte> original, before, expected;
  if (pages) {
    // The same keys may already be there from an earlier run, and a kernel that writes nothing would pass.
    save(regions, original);
    for (const Region& r : regions) std::memset(r.data, kPoison, r.bytes);
  }
  save(regions, before);
  run(*contest.kernels[0]);
  save(regions, expected);
  for (size_t k = contest.kernels.size() - 1; k > 0; --k) {
    restore(regions, before);
    run(*contest.kernels[k]);
    if (equal(regions, expected)) continue;
    wrong.push_back(std::string(contest.kernels[k]->name) + ": other bits than " + contest.kernels[0]->name + " for " +
                    kernels::to_text(contest.query) + " (" + call.name + ")");
    contest.kernels.erase(contest.kernels.begin() + static_cast<std::ptrdiff_t>(k));
  }
  restore(regions, pages ? original : before);
  run(*contest.kernels[0]);
}

std::vector<std::string> Stage::check_bits() {
  std::vector<std::string> wrong;
  const int rows = n_rows_;
  if (plan_.row_class == kernels::RowClass::prefill) set_rows(std::min(rows, kGateRows));
  const kernels::RunContext ctx = plan_.complete(context());
  std::memset(track_.arena(), kPoison, plan_.arena_bytes);
  std::vector<size_t> last(contests_.size(), 0);
  for (size_t i = 0; i < contest_of_.size(); ++i) {
    if (contest_of_[i] >= 0) last[static_cast<size_t>(contest_of_[i])] = i;
  }
  std::vector<bool> seen(contests_.size(), false);
  size_t at = 0;
  for (const plan::Step& step : plan_.steps) {
    for (const plan::Call& call : step.calls) {
      const int c = contest_of_[at];
      const auto index = static_cast<size_t>(c);
      const RunFn run = [&](const kernels::Kernel& kernel) { run_call(kernel, call, ctx); };
      if (c >= 0 && (!seen[index] || last[index] == at)) {
        check_call(call, contests_[index], run, wrong);
        seen[index] = true;
      } else {
        run(*call.kernel);
      }
      ++at;
    }
  }
  set_rows(rows);
  return wrong;
}

Window Stage::window(const std::vector<size_t>& picks, int runs, bool warm) {
  size_t at = 0;
  for (plan::Step& step : plan_.steps) {
    for (plan::Call& call : step.calls) {
      const int c = contest_of_[at++];
      if (c >= 0) call.kernel = contests_[static_cast<size_t>(c)].kernels[picks[static_cast<size_t>(c)]];
    }
  }
  const kernels::RunContext ctx = context();
  if (warm) track_.runner().run(plan_, ctx);
  std::vector<std::vector<double>> seconds(contests_.size() + 1);
  for (int run = 0; run < runs; ++run) {
    track_.runner().run_timed(plan_, ctx, times_);
    std::vector<double> sums(contests_.size() + 1, 0.0);
    size_t mark = 0, call_at = 0;
    for (const plan::Step& step : plan_.steps) {
      for (size_t i = 0; i < step.calls.size(); ++i, ++mark) {
        const int c = contest_of_[call_at++];
        int64_t longest = 0;  // the step waits for its slowest thread
        for (const auto& thread : times_.marks) longest = std::max(longest, thread[mark + 1] - thread[mark]);
        if (c >= 0) sums[static_cast<size_t>(c)] += static_cast<double>(longest) * 1e-9;
      }
      ++mark;
    }
    sums.back() = static_cast<double>(times_.marks[0].back() - times_.marks[0].front()) * 1e-9;
    for (size_t i = 0; i < sums.size(); ++i) seconds[i].push_back(sums[i]);
  }
  Window out;
  for (size_t c = 0; c < contests_.size(); ++c) out.contests.push_back(median(seconds[c]));
  out.whole = median(seconds.back());
  return out;
}

}  // namespace quern::measure
