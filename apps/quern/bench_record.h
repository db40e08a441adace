// What records say of this machine and of a model file.
#pragma once

#include <string>

#include "base/topology.h"
#include "measure/record.h"

namespace quern::apps {

measure::Box this_box(const Topology& topology);
// `where` where it ends in .json, else the box's file in the folder `where`.
std::string record_path(const std::string& where, const measure::Box& box);
// Name, file, bytes and sha256; reads the whole file once. Type, weight_bytes and n_params are left to the caller.
Result<measure::RecordedModel> recorded_model(const std::string& path);

}  // namespace quern::apps
