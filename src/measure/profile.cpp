#include "measure/profile.h"

#include <algorithm>
#include <map>

#include "engine/state.h"
#include "format/format.h"
#include "measure/paired.h"

namespace quern::measure {
namespace {

constexpr int kTracedTokens = 4;
constexpr const char* kWait = "wait";

// "blk.3.attn_q" -> "attn_q"
std::string without_layer(const std::string& name) {
  if (name.rfind("blk.", 0) != 0) return name;
  const size_t dot = name.find('.', 4);
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

const char* family_of(const std::string& node) {
  if (node == "attn_q" || node == "attn_k" || node == "attn_v") return "qkv";
  if (node == "attn_output") return "out";
  if (node == "ffn_gate" || node == "ffn_up") return "gate_up";
  if (node == "ffn_down") return "down";
  return node == "output" ? "head" : "other";
}

// What a plan's calls took, summed over runs. [n_calls + n_steps]: each step's calls, then its wait.
struct PlanSums {
  struct Mark {
    double seconds = 0;  // mean over threads
    uint64_t n = 0;
    Work work;
  };
  std::vector<Mark> marks;
};

// Collects the runs of one phase.
class Recorder {
 public:
  Recorder(engine::Engine::State& state, int first_position, std::vector<TraceSlice>* slices, int traced_runs)
      : state_(state), first_position_(first_position), slices_(slices), traced_runs_(traced_runs) {
    state_.on_run = [this](const auto& plan, const auto& ctx, const auto& times) { take(plan, ctx, times); };
  }
  ~Recorder() { state_.on_run = nullptr; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const std::map<const plan::Plan*, PlanSums>& sums() const { return sums_; }

 private:
  void take(const plan::Plan& plan, const kernels::RunContext& given, const exec::RunTimes& times) {
    const kernels::RunContext ctx = plan.complete(given);
    if (ctx.positions[0] < first_position_) return;  // the context before what is measured
    std::vector<PlanSums::Mark>& marks = sums_[&plan].marks;
    marks.resize(times.marks[0].size() - 1);
    size_t at = 0;
    for (const plan::Step& step : plan.steps) {
      for (const plan::Call& call : step.calls) marks[at++].work += work_of(call, ctx);
      ++at;
    }
    for (const auto& thread : times.marks) {
      for (size_t i = 0; i < marks.size(); ++i)
        marks[i].seconds +=
            static_cast<double>(thread[i + 1] - thread[i]) * 1e-9 / static_cast<double>(times.marks.size());
    }
    for (auto& mark : marks) ++mark.n;
    if (traced_runs_ > 0) trace(plan, times);
    --traced_runs_;
  }

  void trace(const plan::Plan& plan, const exec::RunTimes& times) {
    for (size_t t = 0; t < times.marks.size(); ++t) {
      const int64_t* mark = times.marks[t].data();
      for (size_t s = 0; s < plan.steps.size(); ++s) {
        for (const plan::Call& call : plan.steps[s].calls) {
          slices_->push_back({static_cast<int>(t), mark[0], mark[1], call.name, bucket_of(call), call.kernel->name,
                              static_cast<int>(s)});
          ++mark;
        }
        slices_->push_back({static_cast<int>(t), mark[0], mark[1], kWait, kWait, "", static_cast<int>(s)});
        ++mark;
      }
    }
  }

  engine::Engine::State& state_;
  int first_position_;
  std::vector<TraceSlice>* slices_;
  int traced_runs_;
  std::map<const plan::Plan*, PlanSums> sums_;
};

void add_to(ProfileRow& row, const ProfileRow& part) {
  row.bucket = part.bucket;
  if (row.n_calls == 0) row.kernel = part.kernel;
  if (row.kernel != part.kernel) row.kernel.clear();
  row.n_calls += part.n_calls;
  row.seconds += part.seconds;
  row.work += part.work;
}

std::vector<ProfileRow> longest_first(const std::map<std::string, ProfileRow>& named) {
  std::vector<ProfileRow> rows;
  for (const auto& [name, row] : named) {
    rows.push_back(row);
    rows.back().name = name;
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return rows;
}

Work divided(Work w, uint64_t n) {
  for (uint64_t* field : {&w.weight_bytes, &w.kv_bytes, &w.read_bytes, &w.write_bytes, &w.int_macs, &w.float_macs})
    *field /= n;
  return w;
}

void sum_up(const Recorder& recorder, int repetitions, Phase& phase) {
  const auto n = static_cast<uint64_t>(repetitions);
  std::map<std::string, ProfileRow> buckets, nodes;
  const auto add = [&](const std::string& node, ProfileRow row) {
    phase.in_plan += row.seconds;
    add_to(buckets[row.bucket], row);
    add_to(nodes[node], row);
    phase.calls.push_back(std::move(row));
  };
  for (const auto& [plan, sums] : recorder.sums()) {
    phase.declines += plan::declines_text(*plan);
    size_t at = 0;
    for (const plan::Step& step : plan->steps) {
      for (const plan::Call& call : step.calls) {
        const PlanSums::Mark& mark = sums.marks[at++];
        add(without_layer(call.name), {call.name, bucket_of(call), call.kernel->name, mark.n / n,
                                       mark.seconds / repetitions, divided(mark.work, n)});
      }
      const PlanSums::Mark& wait = sums.marks[at++];
      add(kWait, {kWait, kWait, "", wait.n / n, wait.seconds / repetitions, {}});
    }
  }
  phase.buckets = longest_first(buckets);
  phase.nodes = longest_first(nodes);
}

Result<Phase> run_phase(engine::Engine& engine, engine::Session& session, const ProfileOptions& o, bool decode,
                        std::vector<TraceSlice>& slices) {
  Phase phase;
  phase.name = decode ? "decode" : "prefill";
  phase.n_tokens = decode ? o.n_gen : o.n_prompt;
  const auto once = [&](int n) {
    return decode ? engine::time_decode(session, n, o.n_depth) : engine::time_prompt(session, n, o.n_depth);
  };
  QUERN_TRY([[maybe_unused]] const double warmup, once(decode ? 1 : o.n_prompt));
  std::vector<double> timed, untimed;
  const int traced = !o.trace ? 0 : decode ? kTracedTokens : 1;
  Recorder recorder(engine.state(), o.n_depth, &slices, traced);
  const auto on_run = engine.state().on_run;
  for (int i = 0; i < o.repetitions; ++i) {
    engine.state().on_run = nullptr;
    QUERN_TRY(const double plain, once(phase.n_tokens));
    untimed.push_back(plain);
    engine.state().on_run = on_run;
    QUERN_TRY(const double seconds, once(phase.n_tokens));
    timed.push_back(seconds);
  }
  phase.wall = median(std::move(timed));
  phase.wall_untimed = median(std::move(untimed));
  sum_up(recorder, o.repetitions, phase);
  return phase;
}

}  // namespace

std::string bucket_of(const plan::Call& call) {
  using kernels::Op;
  switch (call.kernel->key.op) {
    case Op::matmul:
    case Op::gated_matmul:
      return std::string("matmul ") + format::format_info(call.query.weight).name + " " +
             family_of(without_layer(call.name));
    case Op::expert_matmul:
    case Op::expert_gated:
    case Op::expert_sum:
      return std::string("experts ") + format::format_info(call.query.weight).name;
    case Op::route:
    case Op::read_ahead:
    case Op::bucket:
    case Op::gather:
    case Op::combine:
    case Op::row_gate:
      return "routing";
    case Op::attention:
    case Op::attention_parts:
    case Op::attention_merge:
      return "attention";
    case Op::rms_norm:
    case Op::head_norm:
    case Op::quantize:
      return "norms+quantize";
    case Op::rope:
    case Op::temperature:
    case Op::rope_table:
    case Op::kv_store:
      return "rope+kv";
    case Op::add:
    case Op::act_mul:
    case Op::softcap:
      return "elementwise";
    case Op::embed:
      return "embed";
    case Op::repack:
      return "repack";
  }
  return "other";
}

uint64_t step_bytes(engine::Engine& engine, int n_sequences, int position) {
  return step_bytes(engine.state().plan_for_batch(n_sequences), n_sequences, position);
}

std::optional<double> roofline_part(const ProfileRow& row, const Profile& profile) {
  if (!profile.roofline || row.seconds <= 0 || row.work.bytes() == 0) return std::nullopt;
  const Roofline& r = *profile.roofline;
  const double source = r.source_of(profile.weight_bytes).bytes_per_second;
  if (source <= 0 || r.int8_macs <= 0 || r.f32_macs <= 0) return std::nullopt;
  // Activations stay in caches, mostly: they are counted at the rate of the nearest that is known.
  const double cache = std::max({source, r.l2, r.l3});
  const double moving = static_cast<double>(row.work.weight_bytes + row.work.kv_bytes) / source +
                        static_cast<double>(row.work.read_bytes + row.work.write_bytes) / cache;
  const double computing =
      static_cast<double>(row.work.int_macs) / r.int8_macs + static_cast<double>(row.work.float_macs) / r.f32_macs;
  return std::max(moving, computing) / row.seconds;
}

Result<Profile> run_profile(engine::Engine& engine, const ProfileOptions& options) {
  Profile profile;
  profile.model = engine.file().path();
  profile.n_threads = engine.n_threads();
  profile.n_depth = options.n_depth;
  profile.weight_bytes = engine.bytes_per_token();
  QUERN_TRY(const auto session, engine.new_session());
  for (const bool decode : {false, true}) {
    if ((decode ? options.n_gen : options.n_prompt) <= 0) continue;
    QUERN_TRY(Phase phase, run_phase(engine, *session, options, decode, profile.slices));
    profile.phases.push_back(std::move(phase));
  }
  return profile;
}

}  // namespace quern::measure
