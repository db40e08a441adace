// bench: prompt and generation speed with llama-bench's meaning and field names, alone or in alternation with peers.
#include "apps/quern/bench_against.h"
#include "apps/quern/bench_print.h"
#include "apps/quern/bench_run.h"
#include "apps/quern/session_options.h"

namespace quern::apps {
namespace {

Result<void> bench_alone(const Context& context, const std::vector<TestGroup>& groups) {
  BenchPrinter printer(context.options.text("output"), context.out);
  for (const int64_t n_threads : context.options.integers("threads")) {
    engine::EngineOptions options = engine_options(context);
    options.n_threads = static_cast<int>(n_threads);
    options.n_ctx = context_of(groups);
    QUERN_TRY(const auto engine, load_engine(context, options));
    engine->wait_for_image();  // nothing else runs while measuring
    for (const TestGroup& group : groups) {
      QUERN_TRY(const auto timed, time_group(*engine, group, context.options));
      for (const TimedTest& test : timed) printer.add(bench_json(*engine, test, context.options));
    }
  }
  printer.end();
  return {};
}

}  // namespace

int run_bench(Context& context) {
  const Options& o = context.options;
  const auto groups = test_groups(o);
  if (groups.empty()) return context.wrong_use("nothing to measure: -p, -n and --turns are all 0");
  const bool alternates = o.given("against") || o.given("record") || o.given("rounds");
  if (alternates && o.text("output") == "csv")
    return context.wrong_use("-o csv does not go with --against, --rounds and --record; md, json and jsonl do");
  const auto done = alternates ? bench_against(context, groups) : bench_alone(context, groups);
  return done.ok() ? 0 : context.fail(done.error());
}

}  // namespace quern::apps
