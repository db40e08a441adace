#include "apps/quern/serve_models.h"

#include <filesystem>

#include "apps/quern/session_options.h"

namespace quern::apps {
namespace {

// An entry but for its id. context.options: this model's.
Result<ServedModel> make_model(const Context& context, const std::string& file_or_name) {
  const Options& o = context.options;
  ServedModel model;
  serve::ModelEntry& entry = model.entry;
  QUERN_TRY(entry.path, find_model(context, file_or_name));
  entry.engine = engine_options(context);
  entry.scheduler.parallel = static_cast<int>(o.integer("parallel"));
  entry.scheduler.max_queue = static_cast<int>(o.integer("queue"));
  entry.scheduler.kv_bytes = static_cast<uint64_t>(o.integer("kv-mib")) << 20;
  entry.scheduler.prefix_folder = o.text("prefix-cache-dir");
  entry.scheduler.prefix_folder_bytes = static_cast<uint64_t>(o.integer("prefix-cache-size")) << 20;
  entry.idle = serve::Seconds(static_cast<double>(o.integer("idle-unload")));
  model.defaults.sampler = unseeded_sampler_options(o);
  if (o.text("reasoning-effort") != "auto") model.defaults.reasoning.effort = o.text("reasoning-effort");
  if (o.text("thinking") != "auto") model.defaults.reasoning.thinking = o.text("thinking") == "on";
  return model;
}

std::string stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

// "ID=FILE", or a file or name alone, which is its own id without folder and ending.
Result<ServedModel> model_of_text(const Context& context, const std::string& text) {
  std::error_code code;
  const size_t equals = text.find('=');
  const bool named = equals != std::string::npos && equals > 0 && !std::filesystem::exists(text, code);
  const std::string name = named ? text.substr(equals + 1) : text;
  QUERN_TRY(ServedModel model, make_model(context, name));
  model.entry.id = named ? text.substr(0, equals) : stem(name);
  return model;
}

Result<ServedModel> model_of_table(const Context& context, const Options& given, const ConfigFile& config,
                                   const ConfigFile::Model& table) {
  const auto nothing = [](const char*) { return std::optional<std::string>(); };
  QUERN_TRY(Options own, Options::parse(option_rows(), kModelTable, {}, nothing));
  QUERN_TRY_VOID(own.fill(table.options));
  const auto refuse = [&](Status status, const std::string& why) { return Error{status, table.where + ": " + why}; };
  const bool by_path = own.given("path");
  if (by_path == own.given("name"))
    return refuse(Status::invalid_argument, "a [[model]] needs either path (a GGUF file) or name (quern models list)");
  const std::string& source = own.text(by_path ? "path" : "name");
  std::error_code code;
  if (by_path && !std::filesystem::exists(source, code)) return refuse(Status::not_found, "there is no file " + source);

  // What the table says of serve's options, on top of the file's own.
  std::vector<OptionText> shared;
  for (const OptionText& one : table.options) {
    for (const OptionRow& row : option_rows()) {
      if (one.name == row.name && option_belongs(row, "serve")) shared.push_back(one);
    }
  }
  Options mine = given;
  QUERN_TRY_VOID(mine.fill(shared));
  QUERN_TRY_VOID(mine.fill(config.options));
  auto model = make_model({context.command, mine, context.out}, source);
  if (!model.ok()) return refuse(model.error().status, model.error().message);
  model->entry.id = own.given("id") ? own.text("id") : by_path ? stem(source) : source;
  model->preload = own.given("preload") ? own.flag("preload") : &table == &config.models.front();
  return model;
}

}  // namespace

Result<std::vector<ServedModel>> served_models(const Context& context, const Options& given, const ConfigFile& config) {
  std::vector<ServedModel> models;
  if (!config.models.empty() && !given.given("model")) {
    for (const ConfigFile::Model& table : config.models) {
      QUERN_TRY(ServedModel model, model_of_table(context, given, config, table));
      models.push_back(std::move(model));
    }
    return models;
  }
  if (!config.models.empty())
    context.notice(config.path + ": its models are left out, because -m or QUERN_MODEL names others");
  for (const std::string& text : context.options.texts("model")) {
    QUERN_TRY(ServedModel model, model_of_text(context, text));
    models.push_back(std::move(model));
  }
  models.front().preload = true;
  return models;
}

}  // namespace quern::apps
