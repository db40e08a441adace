// What a request must be like before it is queued. Internal to serve/.
#pragma once

#include <optional>

#include "serve/serve.h"

namespace quern::engine {
class Engine;
}

namespace quern::serve {

inline constexpr size_t kMaxStops = 64, kMaxStopBytes = 4096;

// Nothing where it can run. The kinds are invalid and too_long.
std::optional<Refusal> check_request(const Request& request, const engine::Engine& engine);

}  // namespace quern::serve
