// profile: where the time of a model's prompt and generation goes.
#include <algorithm>

#include "apps/quern/session_options.h"
#include "base/file_io.h"
#include "measure/profile.h"

namespace quern::apps {
namespace {

Result<void> profile(const Context& context) {
  const Options& o = context.options;
  measure::ProfileOptions wanted;
  wanted.n_prompt = static_cast<int>(o.integer("n-prompt"));
  wanted.n_gen = static_cast<int>(o.integer("n-gen"));
  wanted.n_depth = static_cast<int>(o.integer("n-depth"));
  wanted.repetitions = static_cast<int>(o.integer("repetitions"));
  wanted.trace = !o.text("trace").empty();
  engine::EngineOptions options = engine_options(context);
  options.n_ctx = wanted.n_depth + std::max(wanted.n_prompt, wanted.n_gen);
  QUERN_TRY(const auto engine, load_engine(context, options));
  QUERN_TRY(measure::Profile result, measure::run_profile(*engine, wanted));
  QUERN_TRY(result.roofline, measure::measure_roofline(engine->isa(), engine->n_threads(), detect_topology()));
  if (wanted.trace) {
    const std::string trace = measure::trace_json(result);
    QUERN_TRY_VOID(write_file_atomic(o.text("trace"), std::as_bytes(std::span(trace.data(), trace.size()))));
  }
  context.out.write(o.text("output") == "json" ? measure::profile_json(result) : measure::profile_markdown(result));
  return {};
}

}  // namespace

int run_profile(Context& context) {
  if (context.options.integer("n-prompt") == 0 && context.options.integer("n-gen") == 0)
    return context.wrong_use("nothing to measure: -p and -n are both 0");
  const auto done = profile(context);
  return done.ok() ? 0 : context.fail(done.error());
}

}  // namespace quern::apps
