// models: the catalogue, and what of it is in the cache.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/models/cache.h"
#include "apps/models/fetch.h"
#include "apps/quern/command.h"
#include "base/progress.h"
#include "engine/images.h"

namespace quern::apps {
namespace {

std::string list_json(const std::string& cache) {
  auto list = nlohmann::ordered_json::array();
  for (const CatalogEntry& entry : catalog()) {
    auto packages = nlohmann::ordered_json::array();
    for (const CatalogPart& part : entry.parts) packages.push_back(std::string(part.package) + "==" + part.version);
    list.push_back({{"name", entry.name},
                    {"aliases", std::vector<std::string>(entry.aliases.begin(), entry.aliases.end())},
                    {"description", entry.description},
                    {"licence", entry.licence},
                    {"bytes", entry.bytes},
                    {"sha256", entry.sha256},
                    {"packages", packages},
                    {"present", have_model(cache, entry)},
                    {"path", model_path(cache, entry)}});
  }
  return list.dump(2) + "\n";
}

std::string list_text(const std::string& cache) {
  std::string text;
  for (const CatalogEntry& entry : catalog()) {
    std::string aliases;
    for (const char* alias : entry.aliases) aliases += std::string(aliases.empty() ? "" : ", ") + alias;
    text +=
        fmt::format("{:<14} {:>10}  {}\n{:<14} {:>10}  also: {}; licence: {}\n", entry.name, human_bytes(entry.bytes),
                    entry.description, "", have_model(cache, entry) ? "in cache" : "", aliases, entry.licence);
  }
  return text;
}

}  // namespace

int run_models(Context& context) {
  const auto& args = context.options.positionals();
  const std::string action = args.empty() ? "list" : args[0];
  const auto cache = cache_directory(context.options.text("cache"));
  if (action == "list") {
    if (args.size() > 1) return context.wrong_use("list takes no name");
    if (!cache.ok()) return context.fail(cache.error());
    context.out.write(context.options.flag("json") ? list_json(*cache) : list_text(*cache));
    return 0;
  }
  if (action != "get" && action != "path" && action != "remove")
    return context.wrong_use("'" + action + "' is none of list, get, path, remove");
  if (args.size() < 2) return context.wrong_use(action + " needs a model's name");
  if (!cache.ok()) return context.fail(cache.error());
  const CatalogEntry* entry = find_entry(args[1]);
  if (entry == nullptr)
    return context.fail({Status::not_found, "no model '" + args[1] + "' in the catalogue (quern models list)"});
  if (action == "remove") {
    const auto removed = remove_model(*cache, *entry);
    if (!removed.ok()) return context.fail(removed.error());
    for (const auto& image : engine::images_of(model_path(*cache, *entry), image_folder(*cache))) {
      const auto gone = engine::remove_image(image.path);
      if (!gone.ok()) return context.fail(gone.error());
    }
    return 0;
  }
  if (action == "path") {
    const std::string path = model_path(*cache, *entry);
    if (!have_model(*cache, *entry))
      return context.fail({Status::not_found, path + ": not there yet (quern models get " + entry->name + ")"});
    context.out.write(path + "\n");
    return 0;
  }
  const auto path = get_model(*entry, *cache, [&](const std::string& message) { context.notice(message); });
  if (!path.ok()) return context.fail(path.error());
  context.out.write(*path + "\n");
  return 0;
}

}  // namespace quern::apps
