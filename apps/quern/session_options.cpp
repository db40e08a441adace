#include "apps/quern/session_options.h"

#include "base/progress.h"

namespace quern::apps {

engine::EngineOptions engine_options(const Context& context) {
  const Options& o = context.options;
  engine::EngineOptions out;
  const std::string command = context.command.name;
  if (command != "bench") out.n_threads = static_cast<int>(o.integer("threads"));
  if (command != "bench" && command != "plan" && command != "profile") out.n_ctx = static_cast<int>(o.integer("ctx"));
  out.n_chunk = static_cast<int>(o.integer("chunk"));
  out.isa = o.text("isa");
  out.no_fuse = o.texts("no-fuse");
  return out;
}

Result<std::shared_ptr<engine::Engine>> load_engine(const Context& context, const engine::EngineOptions& options) {
  const auto& args = context.options.positionals();
  const bool positional = std::string(context.command.name) == "plan" && !args.empty();
  QUERN_TRY(const std::string path, find_model(context, positional ? args[0] : context.options.text("model")));
  uint64_t total = 0;
  std::unique_ptr<Progress> bar;
  engine::EngineOptions with_progress = options;
  with_progress.progress = [&](uint64_t done, uint64_t all) {
    if (bar == nullptr || all != total) bar = std::make_unique<Progress>("loading", total = all);
    bar->update(done);
  };
  return engine::Engine::load(path, with_progress);
}

token::SamplerOptions sampler_options(const Options& o) {
  token::SamplerOptions s;
  s.temperature = static_cast<float>(o.real("temp"));
  s.top_k = static_cast<int>(o.integer("top-k"));
  s.top_p = static_cast<float>(o.real("top-p"));
  s.min_p = static_cast<float>(o.real("min-p"));
  s.repeat_penalty = static_cast<float>(o.real("repeat-penalty"));
  s.repeat_last_n = static_cast<int>(o.integer("repeat-last-n"));
  s.presence_penalty = static_cast<float>(o.real("presence-penalty"));
  s.frequency_penalty = static_cast<float>(o.real("frequency-penalty"));
  s.seed = static_cast<uint64_t>(o.integer("seed"));
  return s;
}

}  // namespace quern::apps
