#include "apps/quern/command.h"
namespace quern::apps {
#define P(n)                                         \
  int run_##n(Context& c) {                          \
    return c.fail({Status::unsupported, "pending"}); \
  }
P(run) P(chat) P(plan) P(tokenize) P(logits) P(bench) P(eval) P(info)
}  // namespace quern::apps
