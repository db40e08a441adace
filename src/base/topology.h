// The machine as far as thread placement and memory budgets need it: cores and their kinds, caches, NUMA nodes, what
// this process may use of them (affinity mask, cgroup quota), memory. Reads; decides only the default thread count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quern {

// One physical core: the logical processors on it that this process may run on.
struct Core {
  std::vector<int> cpus;  // operating-system numbers, ascending
  int efficiency = 0;     // rank of its kind, higher is faster; 0 where all are alike
  int numa_node = 0;
};

struct CoreKind {
  int n_cores = 0;     // physical, usable by this process
  int efficiency = 0;  // as Core::efficiency
  std::string name;    // "IntelCore", "IntelAtom", or ""
};

struct CacheLevel {
  std::string name;    // "L1d"
  uint64_t bytes = 0;  // of one
  int count = 0;       // on the whole machine
};

struct Topology {
  int n_packages = 0, n_numa_nodes = 0;
  int n_cores_total = 0, n_cpus_total = 0;  // of the machine
  std::vector<Core> cores;                  // usable ones, fastest kind first, then by number
  std::vector<CoreKind> kinds;              // fastest first
  std::vector<CacheLevel> caches;
  std::optional<double> quota_cores;  // cgroup CPU bandwidth; 1.5 means one and a half
  std::string quota_source;           // the file that sets it
  uint64_t memory_total = 0, memory_available = 0;
  std::optional<uint64_t> memory_limit;  // cgroup
  std::string huge_pages;                // "always", "madvise", "never", or "" where unknown

  int n_usable_cpus() const;
};

// Where a test reads another machine. An empty `synthetic` means this one.
struct TopologySource {
  std::string root;       // put before /proc and /sys paths; "" for this machine
  std::string synthetic;  // an hwloc synthetic description, "pack:1 core:4 pu:2"
};

Result<Topology> read_topology(const TopologySource& source = {});
// This machine; where it cannot be read, what the scheduler says: every allowed processor is a core.
Topology detect_topology();

// The tightest CPU quota of the process's cgroup and its ancestors, v2 (cpu.max) or v1 (cpu.cfs_quota_us), in cores.
struct CgroupLimits {
  std::optional<double> cores;
  std::string cores_source;
  std::optional<uint64_t> memory_bytes;
};
CgroupLimits read_cgroup_limits(const std::string& root);

struct MemoryInfo {
  uint64_t total = 0, available = 0;
};
MemoryInfo read_memory(const std::string& root);

// Physical cores within affinity and quota (rounded down), at least 1.
int default_threads(const Topology& topology);
// The logical processor for each of n threads: one per core, fastest first; beyond that, second hardware threads.
std::vector<int> placement(const Topology& topology, int n_threads);

}  // namespace quern
