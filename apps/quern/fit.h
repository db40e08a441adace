// How large a model is, what of it a token reads, and whether this machine's memory holds it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/topology.h"
#include "model/model.h"

namespace quern::apps {

enum class Verdict {
  fits,            // weights and a session's keys and values
  experts_do_not,  // all but the experts fits: a token reads its own from the file where memory does not hold them
  does_not,        // weights are read from the file again for each token
};

struct Fit {
  model::WeightSizes sizes;
  int n_ctx = 0;  // positions that kv_bytes is for
  uint64_t kv_bytes = 0;
  uint64_t available = 0, total = 0;  // memory of the machine, or what a cgroup leaves of it
  Verdict verdict = Verdict::fits;
};

Fit fit_of(const model::Model& model, const Topology& topology);

// "fits", "the experts do not fit: ..."
std::string verdict_text(const Fit& fit);
// "11.3 GiB of weights and 0.4 GiB of keys and values (8192 tokens), 20.0 GiB available: fits"
std::string fit_line(const Fit& fit);
// Rows of name and text for `info`.
std::vector<std::pair<std::string, std::string>> model_rows(const model::Model& model, const Fit& fit);
// The same as JSON: `info`'s, and `doctor`'s of a model by its path.
nlohmann::ordered_json fit_json(const std::string& path, const Fit& fit);
nlohmann::ordered_json model_json(const model::Model& model, const Fit& fit);

}  // namespace quern::apps
