// The models of quern serve: what -m and the [[model]] tables of a configuration file say, as entries of the pool.
#pragma once

#include <vector>

#include "api/service.h"
#include "apps/quern/command.h"
#include "apps/quern/config_file.h"
#include "serve/model_pool.h"

namespace quern::apps {

struct ServedModel {
  serve::ModelEntry entry;
  api::Defaults defaults;  // of its requests
  bool preload = false;    // load it at the start
};

// `given`: the options before the file's were taken; context.options: after. A value of the command line or of the
// environment holds for every model; then comes a model's table, then the file's top level, then the default. Where
// command line or environment name models, the tables are left out, with a notice. At least one model comes back, the
// first being the one that clients get who name none. Errors: a model that is not there, values out of range, a table
// without path and name or with both; those of a table begin with its place.
Result<std::vector<ServedModel>> served_models(const Context& context, const Options& given, const ConfigFile& config);

}  // namespace quern::apps
