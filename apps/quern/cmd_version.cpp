#include "apps/quern/command.h"
#include "apps/quern/version.h"

namespace quern::apps {

int run_version(Context& context) {
  context.out.write(std::string("quern ") + build_version() + " (" + build_commit() + ", " + build_compiler() + ")\n");
  return 0;
}

}  // namespace quern::apps
