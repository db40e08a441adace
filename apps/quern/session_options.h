// From options to what the engine takes: loading a model, sampling, token lists. Shared by the commands that run one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/quern/command.h"
#include "engine/engine.h"
#include "token/sampler.h"
#include "token/tokenizer.h"

namespace quern::apps {

// The path that -m or the positional names (a catalogue model is got first).
Result<std::string> find_model(const Context& context, const std::string& file_or_name);

// EngineOptions from --threads, --ctx, --chunk, --isa, --no-fuse, as far as the command has them.
engine::EngineOptions engine_options(const Context& context);

// find_model, then Engine::load with a progress bar. `changes`: options that the command decides itself.
Result<std::shared_ptr<engine::Engine>> load_engine(const Context& context, const engine::EngineOptions& options);

token::SamplerOptions sampler_options(const Options& options);

// The file's tokenizer without the rest of the model. `file` must outlive nothing: the tokenizer copies.
Result<std::unique_ptr<token::Tokenizer>> load_tokenizer(const file::GgufFile& file);

// "1,2,3", "[1, 2, 3]", "1 2 3".
Result<std::vector<int32_t>> parse_ids(const std::string& text);
// The same, or @FILE.json (a list) or @FILE.npy (int32).
Result<std::vector<int32_t>> read_ids(const std::string& text_or_file);

// All of standard input.
Result<std::string> read_standard_input();
// Positional arguments joined with spaces; "-" alone is standard input.
Result<std::string> text_argument(const std::vector<std::string>& positionals);

}  // namespace quern::apps
