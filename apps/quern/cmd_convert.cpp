// convert: prepared images of packed weights, made ahead of a run, listed, checked and deleted.
#include <fmt/format.h>

#include <memory>

#include "apps/models/cache.h"
#include "apps/quern/session_options.h"
#include "base/progress.h"
#include "engine/images.h"

namespace quern::apps {
namespace {

// A bar that comes with the first report and goes with the object.
std::function<void(uint64_t, uint64_t)> progress_bar(const char* title) {
  return [title, bar = std::shared_ptr<Progress>()](uint64_t done, uint64_t total) mutable {
    if (bar == nullptr) bar = std::make_shared<Progress>(title, total);
    bar->update(done);
  };
}

int build(Context& context, engine::EngineOptions options, const std::string& model) {
  options.progress = progress_bar("preparing");
  const auto image = engine::prepare_image(model, options);
  options.progress = nullptr;
  if (!image.ok()) return context.fail(image.error());
  if (image->path.empty()) {
    context.notice(model + ": its weights are used as they are; there is nothing to prepare");
    return 0;
  }
  context.notice(fmt::format("{} {}", human_bytes(image->bytes), image->was_there ? "already prepared" : "prepared"));
  context.out.write(image->path + "\n");
  return 0;
}

int list(Context& context, const engine::EngineOptions& options) {
  for (const engine::ImageStatus& image : engine::list_images(options)) {
    context.out.write(fmt::format("{:>10}  {:<8}  {}\n", human_bytes(image.bytes),
                                  image.why_not.empty() ? "ready" : "unusable",
                                  image.why_not.empty() ? image.path + "  of " + image.model : image.why_not));
  }
  return 0;
}

int verify(Context& context, const engine::EngineOptions& options) {
  int code = 0;
  for (const engine::ImageStatus& image : engine::list_images(options)) {
    auto progress = progress_bar("verifying");
    const auto verified = engine::verify_image(image.path, progress);
    progress = nullptr;
    if (!verified.ok()) {
      code = context.fail(verified.error());
    } else {
      context.out.write(fmt::format("{}: intact\n", image.path));
    }
  }
  return code;
}

int clean(Context& context, const engine::EngineOptions& options, bool all) {
  int code = 0;
  for (const engine::ImageStatus& image : engine::list_images(options)) {
    if (!all && image.why_not.empty()) continue;
    const auto removed = engine::remove_image(image.path);
    if (!removed.ok()) {
      code = context.fail(removed.error());
    } else {
      context.out.write(fmt::format("removed {} ({})\n", image.path, human_bytes(image.bytes)));
    }
  }
  const size_t unfinished = engine::remove_unfinished_images(options.image_dir);
  if (unfinished > 0) context.out.write(fmt::format("removed unfinished files: {}\n", unfinished));
  return code;
}

}  // namespace

int run_convert(Context& context) {
  const Options& o = context.options;
  if (o.flag("list") + o.flag("verify") + o.flag("clean") > 1)
    return context.wrong_use("--list, --verify and --clean exclude each other");
  if (o.flag("all") && !o.flag("clean")) return context.wrong_use("--all goes with --clean");
  const auto cache = cache_directory(o.text("cache"));
  if (!cache.ok()) return context.fail(cache.error());
  engine::EngineOptions options;
  options.isa = o.text("isa");
  options.n_threads = static_cast<int>(o.integer("threads"));
  options.image_dir = image_folder(*cache);
  if (o.flag("list")) return list(context, options);
  if (o.flag("verify")) return verify(context, options);
  if (o.flag("clean")) return clean(context, options, o.flag("all"));
  const auto model = find_model(context, o.positionals().empty() ? o.text("model") : o.positionals()[0]);
  return model.ok() ? build(context, options, *model) : context.fail(model.error());
}

}  // namespace quern::apps
