// Loading: file -> model -> weights packed -> plans compiled -> ready.
#include <algorithm>
#include <new>
#include <span>
#include <thread>

#include "base/log.h"
#include "base/topology.h"
#include "engine/prompt.h"
#include "engine/state.h"

namespace quern::engine {
namespace {

Result<void> load_text(Engine::State& s) {
  QUERN_TRY(token::VocabData vocab, token::vocab_from_gguf(s.file));
  QUERN_TRY(s.tokenizer, token::Tokenizer::create(vocab));
  if (s.tokenizer->size() > s.model->spec.n_vocab) {
    return Error{Status::invalid_file, s.file.path() + ": the tokenizer has " + std::to_string(s.tokenizer->size()) +
                                           " tokens and the model only " + std::to_string(s.model->spec.n_vocab)};
  }
  auto chat = chat_template_of(s.file, *s.tokenizer);
  if (chat.ok()) {
    s.chat.emplace(std::move(*chat));
  } else {
    s.chat_error = chat.error().message;
  }
  return {};
}

// A file without embeddings is no error: it may do all else.
Result<void> set_pooling(Engine::State& s, const std::string& wanted) {
  const auto chosen = choose_pooling(wanted, s.model->spec.pooling);
  if (chosen.ok()) {
    s.pooling = *chosen;
  } else if (chosen.error().status == Status::unsupported) {
    s.no_pooling = chosen.error();
  } else {
    return chosen.error();
  }
  return {};
}

// The sidecar, where it holds; then the team with its knobs, and its kernels for a team of that size.
void apply_tuning(Engine::State& s, const EngineOptions& options) {
  const Topology topology = detect_topology();
  const int by_default = default_threads(topology);
  TeamOptions team{options.n_threads > 0 ? options.n_threads : by_default,
                   options.spins > 0 ? options.spins : kDefaultSpins};
  if (!options.tune_dir.empty()) {
    const CpuInfo cpu = detect_cpu();
    const Machine machine = this_machine(cpu, topology);
    const std::string path = tuning_path(options.tune_dir, machine);
    auto tuning = load_tuning(path, machine, cpu.isa_mask);
    if (tuning.ok()) {
      s.tuning = *std::move(tuning);
    } else if (tuning.error().status != Status::not_found) {
      log_warning(tuning.error().message + "; ignored (`quern tune` measures afresh)");
    }
    const TunedKnobs* knobs = s.tuning ? tuned_knobs(*s.tuning, model_key(*s.model), by_default) : nullptr;
    if (knobs != nullptr && options.n_threads == 0 && options.spins == 0) {
      if (knobs->n_threads != team.n_threads || knobs->spins != team.spins) s.tuning_file = path;
      team = {knobs->n_threads, knobs->spins};
    }
  }
  s.team = std::make_unique<Team>(team);
  s.choices = options.choices;
  if (s.choices == nullptr && s.tuning) {
    s.choices = std::make_shared<const kernels::Choices>(tuned_choices(*s.tuning, s.team->size(), s.isa_mask));
    if (s.choices->size() > 0) s.tuning_file = tuning_path(options.tune_dir, s.tuning->machine);
  }
}

struct WantedPlan {
  plan::Plan* plan;
  int rows, outputs;
  plan::Output output = plan::Output::logits;
};

// Compiles plans that share an arena, once to measure it and once with addresses. The largest scratch of them.
Result<size_t> compile_plans(Engine::State& s, std::span<const WantedPlan> wanted, Buffer& arena) {
  size_t arena_bytes = 0, scratch = 0;
  for (const bool measure : {true, false}) {
    for (const WantedPlan& w : wanted) {
      plan::PlanOptions options = s.plan_options;
      options.max_rows = w.rows;
      options.max_outputs = w.outputs;
      options.output = w.output;
      QUERN_TRY(*w.plan, plan::compile(*s.model, s.kv_layout, *s.weights, options, arena.data()));
      arena_bytes = std::max(arena_bytes, w.plan->arena_bytes);
      scratch = std::max(scratch, w.plan->scratch_bytes);
    }
    if (measure) {
      QUERN_TRY(arena, Buffer::allocate(arena_bytes, "activations"));
    }
  }
  return scratch;
}

Result<void> compile_plans(Engine::State& s, const EngineOptions& options) {
  s.plan_options.isa_mask = s.isa_mask;
  s.plan_options.no_fuse = options.no_fuse;
  s.plan_options.n_threads = s.team->size();
  s.plan_options.choices = s.choices.get();
  s.plan_options.n_ctx = s.n_ctx;
  s.plan_options.read_ahead = s.read_ahead;
  const WantedPlan wanted[] = {{&s.decode, 1, 1},
                               {&s.few, kernels::kFewRows, 1},
                               {&s.prefill, s.n_chunk, 1},
                               {&s.batch, kernels::kFewRows, kernels::kFewRows},
                               {&s.all, kAllOutputs, kAllOutputs}};
  QUERN_TRY(const size_t scratch, compile_plans(s, wanted, s.arena));
  QUERN_TRY(s.runner, exec::Runner::create(*s.team, scratch));
  return {};
}

Result<std::unique_ptr<Engine::State>> load_state(const std::string& path, const EngineOptions& options) {
  QUERN_TRY(file::GgufFile file, file::GgufFile::open(path));
  auto s = std::make_unique<Engine::State>(std::move(file));
  QUERN_TRY(s->isa_mask, choose_isa(options.isa, &s->isa));
  QUERN_TRY(s->model, model::load_model(s->file, options.n_ctx));
  if (options.n_ctx < 0 || options.n_chunk < 1 || options.n_threads < 0 || options.spins < 0) {
    return Error{Status::invalid_argument, "context, chunk and threads must not be negative"};
  }
  s->n_ctx = options.n_ctx > 0 ? options.n_ctx : std::min(s->model->spec.n_ctx_train, kDefaultMaxCtx);
  s->n_chunk = std::min(options.n_chunk, 4096);
  QUERN_TRY_VOID(set_pooling(*s, options.pooling));
  QUERN_TRY_VOID(load_text(*s));
  apply_tuning(*s, options);
  s->kv_layout = plan::make_kv_layout(s->model->spec);
  QUERN_TRY_VOID(load_weights(*s, options, s->isa_mask));
  QUERN_TRY_VOID(compile_plans(*s, options));
  s->kv_pool = std::make_unique<exec::KvPool>(s->kv_layout);
  return s;
}

}  // namespace

Result<uint32_t> choose_isa(const std::string& wanted, Isa* isa) {
  const CpuInfo cpu = detect_cpu();
  *isa = cpu.best;
  if (!wanted.empty() && wanted != "auto") {
    QUERN_TRY(*isa, parse_isa(wanted));
    if (!cpu.supports(*isa))
      return Error{Status::unsupported, "this processor cannot run the instruction set '" + wanted + "'"};
  }
  // All tiers may run; priority prefers the best, tuning another where that was faster.
  if (wanted.empty() || wanted == "auto") return cpu.isa_mask;
  // A tier may fall back on the generic one, never on another vector tier: what was asked for is what runs.
  return (1U << static_cast<int>(Isa::generic)) | (1U << static_cast<int>(*isa));
}

Result<const plan::Plan*> hidden_plan(Engine::State& s) {
  if (s.hidden_arena.data() != nullptr) return &s.hidden;
  const WantedPlan wanted[] = {{&s.hidden, s.n_chunk, s.n_chunk, plan::Output::hidden}};
  Buffer arena;
  QUERN_TRY(const size_t scratch, compile_plans(s, wanted, arena));
  if (scratch > s.runner->scratch_bytes()) {
    QUERN_TRY(s.runner, exec::Runner::create(*s.team, scratch));
  }
  s.hidden_arena = std::move(arena);
  return &s.hidden;
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::shared_ptr<Engine>> Engine::load(const std::string& path, const EngineOptions& options) {
  try {
    QUERN_TRY(auto state, load_state(path, options));
    return std::shared_ptr<Engine>(new Engine(std::move(state)));
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, path + ": not enough memory to load"};
  }
}

const file::GgufFile& Engine::file() const {
  return state_->file;
}
const model::Model& Engine::model() const {
  return *state_->model;
}
const token::Tokenizer& Engine::tokenizer() const {
  return *state_->tokenizer;
}
const token::ChatTemplate* Engine::chat_template() const {
  return state_->chat ? &*state_->chat : nullptr;
}
const std::string& Engine::chat_template_error() const {
  return state_->chat_error;
}
int Engine::n_threads() const {
  return state_->team->size();
}
int Engine::n_vocab() const {
  return state_->model->spec.n_vocab;
}
int Engine::n_ctx() const {
  return state_->n_ctx;
}
Isa Engine::isa() const {
  return state_->isa;
}
Result<std::string> Engine::pooling() const {
  if (!state_->pooling) return state_->no_pooling;
  return std::string(pooling_name(*state_->pooling));
}
int Engine::n_embedding() const {
  return state_->model->spec.n_dim;
}
bool Engine::embeds_from_prefix() const {
  return state_->pooling == model::Pooling::last;
}

const std::string& Engine::tuning_file() const {
  return state_->tuning_file;
}
bool Engine::weights_from_image() const {
  return state_->weights->from_image();
}
bool Engine::weights_mapped() const {
  return state_->weights->is_mapped();
}
void Engine::wait_for_image() {
  if (state_->image_saver != nullptr) state_->image_saver->wait();
}

std::string Engine::plan_text() const {
  std::string text =
      plan::to_text(state_->decode) + "\n" + plan::to_text(state_->few) + "\n" + plan::to_text(state_->prefill);
  if (!state_->tuning_file.empty()) {
    text += "\ntuned by " + state_->tuning_file + " of " + state_->tuning->date + ": a team of " +
            std::to_string(state_->team->size()) + ", and the kernels marked (tuned)\n";
  }
  return text;
}

uint64_t Engine::bytes_per_token() const {
  uint64_t bytes = 0;
  for (const plan::Step& step : state_->decode.steps) {
    for (const plan::Call& call : step.calls) {
      const auto* m = kernels::matmul_of(call.args);
      if (m == nullptr) continue;
      const bool routed = !std::holds_alternative<kernels::MatmulArgs>(call.args);
      bytes += format::row_bytes(m->format, static_cast<size_t>(m->n_in)) * static_cast<uint64_t>(m->n_out) *
               static_cast<uint64_t>(routed ? state_->decode.options.n_used : 1);
    }
  }
  return bytes;
}

}  // namespace quern::engine
