// What an answer may be, where a request says so: response_format, grammar, a tool choice that makes calls a must, and
// tools that are strict.
#pragma once

#include <memory>
#include <optional>

#include "api/request.h"
#include "engine/prompt.h"
#include "serve/model_pool.h"

namespace quern::api {

// Null where it may be anything. Reasoning that comes before the answer stays free. Problems name the field.
std::optional<Problem> make_mask(const serve::LoadedModel& model, const Request& request,
                                 const engine::ChatPrompt& prompt, std::unique_ptr<serve::TokenMask>* out);

}  // namespace quern::api
