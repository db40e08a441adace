// From options to what the engine takes, shared by the commands that run a model.
#pragma once

#include <memory>
#include <string>

#include "apps/quern/inputs.h"
#include "engine/engine.h"
#include "token/sampler.h"

namespace quern::apps {

// The folder of prepared images in the cache folder; empty where there is none.
std::string image_directory(const std::string& cache);

// EngineOptions from --threads, --ctx, --chunk, --isa, --no-fuse, --image, --tune, --pooling, as far as the command has
// them.
engine::EngineOptions engine_options(const Context& context);

// find_model, then Engine::load with a progress bar. `options`: where a command decides something itself.
Result<std::shared_ptr<engine::Engine>> load_engine(const Context& context, const engine::EngineOptions& options);

// Where tuning sidecars are: CACHE/tune. Empty where there is no cache folder.
std::string tune_directory(const Options& options);

token::SamplerOptions sampler_options(const Options& options);
// The same without --seed, for commands that have none.
token::SamplerOptions unseeded_sampler_options(const Options& options);

}  // namespace quern::apps
