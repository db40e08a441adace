// What doctor reports, gathered; also used by bench for its cpu_info and gpu_info.
#pragma once

#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/topology.h"

namespace quern::apps {

// One tier of kernels and why it is not used.
struct TierReport {
  Isa isa;
  bool usable = false;
  std::string why_not;  // "lacks avx512_vnni", "another architecture"; empty where usable
};

std::vector<TierReport> report_tiers(const CpuInfo& cpu);

// The names of the GPUs that a driver offers; a device without its driver is named as such. `root` as
// TopologySource::root.
std::vector<std::string> find_gpus(const std::string& root);

}  // namespace quern::apps
