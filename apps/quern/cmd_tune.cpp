// tune: measure which kernels and which team are fastest here, and keep it for later runs.
#include "measure/tune.h"

#include <ctime>
#include <filesystem>

#include "apps/models/cache.h"
#include "apps/quern/session_options.h"
#include "apps/quern/version.h"

namespace quern::apps {
namespace {

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &utc));
  return text;
}

std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

// Puts what was found over what the file has, where that still holds.
Result<std::string> keep(const Context& context, const engine::Machine& machine, uint32_t isa_mask,
                         const engine::Tuning& fresh) {
  QUERN_TRY(const std::string cache, cache_directory(context.options.text("cache")));
  const std::string path = engine::tuning_path(tune_folder(cache), machine);
  std::error_code ignored;
  std::filesystem::create_directories(tune_folder(cache), ignored);
  QUERN_TRY(const FileLock lock, FileLock::acquire(path + ".lock", [&] { context.notice("another process writes"); }));
  engine::Tuning kept = fresh;
  auto old = engine::load_tuning(path, machine, isa_mask);
  if (old.ok()) {
    engine::merge_tuning(*old, fresh);
    kept = *std::move(old);
  } else if (old.error().status != Status::not_found) {
    context.notice(old.error().message + "; written anew");
  }
  QUERN_TRY_VOID(engine::save_tuning(path, kept));
  return path;
}

Result<void> tune(const Context& context) {
  const Options& o = context.options;
  const CpuInfo cpu = detect_cpu();
  const engine::Machine machine = engine::this_machine(cpu, detect_topology());
  QUERN_TRY(const auto engine, load_engine(context, engine_options(context)));
  measure::TuneOptions options;
  options.seconds = o.real("seconds");
  options.team = o.integer("threads") == 0;
  options.model = file_name(engine->file().path());
  options.commit = build_commit();
  options.date = now_utc();
  options.say = [&](const std::string& line) { context.notice(line); };
  QUERN_TRY(const measure::TuneResult result, measure::run_tune(*engine, machine, options));
  context.out.write(o.flag("json") ? engine::tuning_json(result.tuning) : measure::tune_markdown(result.tuning));
  context.out.flush();
  if (!o.flag("dry-run")) {
    QUERN_TRY(const std::string path, keep(context, machine, cpu.isa_mask, result.tuning));
    context.notice("written to " + path);
  }
  return {};
}

}  // namespace

int run_tune(Context& context) {
  const auto done = tune(context);
  return done.ok() ? 0 : context.fail(done.error());
}

}  // namespace quern::apps
