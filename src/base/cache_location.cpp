#include "base/cache_location.h"

#include "base/options.h"

namespace quern {

Result<std::string> cache_location(const std::string& chosen) {
  std::string path = chosen;
  if (path.empty()) {
    const auto xdg = environment("XDG_CACHE_HOME"), home = environment("HOME");
    // The XDG rule: a relative path counts as not set.
    if (xdg && !xdg->empty() && xdg->front() == '/') {
      path = *xdg + "/quern";
    } else if (home && !home->empty()) {
      path = *home + "/.cache/quern";
    } else {
      return Error{Status::not_found, "no cache folder: neither QUERN_CACHE nor XDG_CACHE_HOME nor HOME is set"};
    }
  }
  return path;
}

}  // namespace quern
