#include "apps/quern/session_options.h"

namespace quern::apps {

int run_plan(Context& context) {
  const auto engine = load_engine(context, engine_options(context));
  if (!engine.ok()) return context.fail(engine.error());
  context.out.write((*engine)->plan_text());
  return 0;
}

}  // namespace quern::apps
