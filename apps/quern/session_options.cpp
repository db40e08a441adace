#include "apps/quern/session_options.h"

#include "apps/models/cache.h"
#include "base/log.h"
#include "base/progress.h"

namespace quern::apps {

std::string image_directory(const std::string& cache) {
  const auto folder = cache_directory(cache);
  if (folder.ok()) return image_folder(*folder);
  // A machine without a home folder has no cache; that is no news. One that cannot be written is.
  log(folder.error().status == Status::not_found ? LogLevel::info : LogLevel::warning, folder.error().message);
  return "";
}

engine::EngineOptions engine_options(const Context& context) {
  const Options& o = context.options;
  engine::EngineOptions out;
  const std::string command = context.command.name;
  if (command != "bench") out.n_threads = static_cast<int>(o.integer("threads"));
  if (command != "bench" && command != "plan" && command != "profile" && command != "tune")
    out.n_ctx = static_cast<int>(o.integer("ctx"));
  out.n_chunk = static_cast<int>(o.integer("chunk"));
  if (command != "tune") {
    out.isa = o.text("isa");
    out.no_fuse = o.texts("no-fuse");
    if (o.text("tune") == "auto") out.tune_dir = tune_directory(o);
  }
  if (command == "serve" || command == "embed") out.pooling = o.text("pooling");
  if (o.text("image") != "off") out.image_dir = image_directory(o.text("cache"));
  out.image_mode = o.text("image") == "map" ? engine::ImageMode::map : engine::ImageMode::automatic;
  return out;
}

std::string tune_directory(const Options& options) {
  const auto cache = cache_location(options.text("cache"));
  return cache.ok() ? tune_folder(*cache) : "";
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

token::SamplerOptions unseeded_sampler_options(const Options& o) {
  token::SamplerOptions s;
  s.temperature = static_cast<float>(o.real("temp"));
  s.top_k = static_cast<int>(o.integer("top-k"));
  s.top_p = static_cast<float>(o.real("top-p"));
  s.min_p = static_cast<float>(o.real("min-p"));
  s.repeat_penalty = static_cast<float>(o.real("repeat-penalty"));
  s.repeat_last_n = static_cast<int>(o.integer("repeat-last-n"));
  s.presence_penalty = static_cast<float>(o.real("presence-penalty"));
  s.frequency_penalty = static_cast<float>(o.real("frequency-penalty"));
  return s;
}

token::SamplerOptions sampler_options(const Options& o) {
  token::SamplerOptions s = unseeded_sampler_options(o);
  s.seed = static_cast<uint64_t>(o.integer("seed"));
  return s;
}

}  // namespace quern::apps
