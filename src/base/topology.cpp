// Topology through hwloc. Limits that hwloc does not know (quota, memory) come from cgroup.cpp.
#include "base/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/file_io.h"

namespace quern {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

Result<Handle> load(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    return Error{Status::io_error, "cannot read the machine's topology: hwloc does not start"};
  Handle topology(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0) {
    return Error{Status::invalid_argument, "not an hwloc description: " + synthetic};
  }
  // Counts of the machine need every processor; what is allowed is asked for apart.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) return Error{Status::io_error, "cannot read the machine's topology"};
  return topology;
}

// The processors this process may run on: its affinity mask within the allowed set (cpuset cgroups).
std::vector<bool> usable_cpus(hwloc_topology_t topology, bool synthetic) {
  hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
  hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  if (!synthetic && hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0 && !hwloc_bitmap_iszero(bound)) {
    hwloc_bitmap_and(set, set, bound);
  }
  std::vector<bool> usable;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    usable.resize(static_cast<size_t>(cpu) + 1);
    usable[static_cast<size_t>(cpu)] = true;
  }
  hwloc_bitmap_free(bound);
  hwloc_bitmap_free(set);
  return usable;
}

struct Kind {
  int efficiency = 0;
  std::string name;
};

Kind kind_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus) {
  Kind kind;
  const int index = hwloc_cpukinds_get_by_cpuset(topology, cpus, 0);
  if (index < 0) return kind;
  unsigned n_infos = 0;
  struct hwloc_info_s* infos = nullptr;
  if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(index), nullptr, &kind.efficiency, &n_infos, &infos, 0) !=
      0)
    return kind;
  for (unsigned i = 0; i < n_infos; ++i) {
    if (std::string(infos[i].name) == "CoreType") kind.name = infos[i].value;
  }
  kind.efficiency = std::max(kind.efficiency, 0);
  return kind;
}

void read_cores(hwloc_topology_t topology, const std::vector<bool>& usable, Topology& out) {
  std::map<int, CoreKind, std::greater<>> kinds;
  // A virtual machine may hide cores; each logical processor then counts as one.
  const hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  out.n_cores_total = hwloc_get_nbobjs_by_type(topology, type);
  for (hwloc_obj_t obj = nullptr; (obj = hwloc_get_next_obj_by_type(topology, type, obj)) != nullptr;) {
    Core core;
    for (int cpu = hwloc_bitmap_first(obj->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(obj->cpuset, cpu)) {
      if (static_cast<size_t>(cpu) < usable.size() && usable[static_cast<size_t>(cpu)]) core.cpus.push_back(cpu);
    }
    if (core.cpus.empty()) continue;
    const Kind kind = kind_of(topology, obj->cpuset);
    core.efficiency = kind.efficiency;
    const int node = obj->nodeset != nullptr ? hwloc_bitmap_first(obj->nodeset) : 0;
    core.numa_node = std::max(node, 0);
    CoreKind& entry = kinds[kind.efficiency];
    entry.efficiency = kind.efficiency;
    entry.name = kind.name;
    ++entry.n_cores;
    out.cores.push_back(std::move(core));
  }
  std::stable_sort(out.cores.begin(), out.cores.end(),
                   [](const Core& a, const Core& b) { return a.efficiency > b.efficiency; });
  for (auto& [efficiency, kind] : kinds) out.kinds.push_back(std::move(kind));
}

void read_caches(hwloc_topology_t topology, Topology& out) {
  constexpr struct {
    hwloc_obj_type_t type;
    const char* name;
  } kLevels[] = {
      {HWLOC_OBJ_L1ICACHE, "L1i"}, {HWLOC_OBJ_L1CACHE, "L1d"}, {HWLOC_OBJ_L2CACHE, "L2"}, {HWLOC_OBJ_L3CACHE, "L3"}};
  for (const auto& level : kLevels) {
    const int n = hwloc_get_nbobjs_by_type(topology, level.type);
    if (n <= 0) continue;
    const hwloc_obj_t obj = hwloc_get_obj_by_type(topology, level.type, 0);
    out.caches.push_back({level.name, obj->attr->cache.size, n});
  }
}

// "always [madvise] never" -> "madvise"
std::string bracketed(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? ""
             : text.substr(open + 1, close - open - 1);
}

}  // namespace

int Topology::n_usable_cpus() const {
  int n = 0;
  for (const Core& core : cores) n += static_cast<int>(core.cpus.size());
  return n;
}

Result<Topology> read_topology(const TopologySource& source) {
  QUERN_TRY(const Handle topology, load(source.synthetic));
  Topology out;
  out.n_packages = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PACKAGE);
  out.n_numa_nodes = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE);
  out.n_cpus_total = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PU);
  read_cores(topology.get(), usable_cpus(topology.get(), !source.synthetic.empty()), out);
  read_caches(topology.get(), out);
  const CgroupLimits limits = read_cgroup_limits(source.root);
  out.quota_cores = limits.cores;
  out.quota_source = limits.cores_source;
  out.memory_limit = limits.memory_bytes;
  const MemoryInfo memory = read_memory(source.root);
  out.memory_total = memory.total;
  out.memory_available = memory.available;
  const auto thp = read_file(source.root + "/sys/kernel/mm/transparent_hugepage/enabled", 4096);
  if (thp.ok()) out.huge_pages = bracketed(*thp);
  return out;
}

Topology detect_topology() {
  auto topology = read_topology();
  if (topology.ok()) return *std::move(topology);
  Topology out;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) out.cores.push_back({{cpu}, 0, 0});
    }
  }
  out.n_cores_total = out.n_cpus_total = static_cast<int>(out.cores.size());
  return out;
}

int default_threads(const Topology& topology) {
  int n = static_cast<int>(topology.cores.size());
  if (topology.quota_cores) n = std::min(n, static_cast<int>(std::floor(std::min(*topology.quota_cores, 1e6))));
  return std::max(n, 1);
}

std::vector<int> placement(const Topology& topology, int n_threads) {
  std::vector<int> cpus;
  for (size_t sibling = 0; static_cast<int>(cpus.size()) < n_threads; ++sibling) {
    const size_t before = cpus.size();
    for (const Core& core : topology.cores) {
      if (sibling < core.cpus.size() && static_cast<int>(cpus.size()) < n_threads) cpus.push_back(core.cpus[sibling]);
    }
    if (cpus.size() == before) break;
  }
  return cpus;
}

}  // namespace quern
