// base/topology on made-up machines: hwloc's synthetic descriptions and fake /proc and /sys trees.
#include "base/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/progress.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

// A folder that plays the root of a machine, removed afterwards.
class FakeRoot {
 public:
  FakeRoot() : path_(fs::path(::testing::TempDir()) / ("quern_root_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~FakeRoot() { fs::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  void put(const std::string& name, const std::string& text) const {
    const fs::path file = path_ / name.substr(1);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string str() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(Cgroup, NoFilesMeansNoLimit) {
  const FakeRoot root;
  const CgroupLimits limits = read_cgroup_limits(root.str());
  EXPECT_FALSE(limits.cores);
  EXPECT_FALSE(limits.memory_bytes);
}

TEST(Cgroup, V2TakesTheTightestAncestor) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "0::/user.slice/app\n");
  root.put("/sys/fs/cgroup/user.slice/app/cpu.max", "max 100000\n");
  root.put("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  root.put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  root.put("/sys/fs/cgroup/user.slice/app/memory.max", "1073741824\n");
  const CgroupLimits limits = read_cgroup_limits(root.str());
  EXPECT_DOUBLE_EQ(limits.cores.value(), 1.5);
  EXPECT_EQ(limits.cores_source, "/sys/fs/cgroup/user.slice/cpu.max");
  EXPECT_EQ(limits.memory_bytes, uint64_t{1} << 30);
}

TEST(Cgroup, V2InsideAContainerReadsTheMount) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "0::/docker/abc\n");  // a path of the host that is not below the mount
  root.put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root.str()).cores.value(), 2);
}

TEST(Cgroup, V1QuotaAndUnlimitedMemory) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "4:cpu,cpuacct:/job\n3:memory:/job\n0::/\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  const CgroupLimits limits = read_cgroup_limits(root.str());
  EXPECT_DOUBLE_EQ(limits.cores.value(), 3);
  EXPECT_FALSE(limits.memory_bytes);
}

TEST(Cgroup, RubbishIsIgnored) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "rubbish\n0::/a\n");
  root.put("/sys/fs/cgroup/a/cpu.max", "ten hundred\n");
  root.put("/sys/fs/cgroup/cpu.max", "0 0\n");
  EXPECT_FALSE(read_cgroup_limits(root.str()).cores);
}

TEST(Topology, CoresThreadsAndNodesOfAMadeUpMachine) {
  const FakeRoot root;
  root.put("/proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\n");
  root.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const auto machine = read_topology({root.str(), "numa:2 l3:1(size=32MB) core:4 pu:2"});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->n_cores_total, 8);
  EXPECT_EQ(machine->n_cpus_total, 16);
  EXPECT_EQ(machine->n_usable_cpus(), 16);
  EXPECT_EQ(machine->n_numa_nodes, 2);
  EXPECT_EQ(machine->cores[7].numa_node, 1);
  EXPECT_EQ(machine->memory_total, 1024U * 1024U);
  EXPECT_EQ(machine->memory_available, 512U * 1024U);
  EXPECT_EQ(machine->huge_pages, "madvise");
  EXPECT_EQ(default_threads(*machine), 8);
  EXPECT_EQ(placement(*machine, 3), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(placement(*machine, 9), (std::vector<int>{0, 2, 4, 6, 8, 10, 12, 14, 1}));
  EXPECT_EQ(placement(*machine, 99).size(), 16U);
}

TEST(Topology, QuotaBoundsTheThreads) {
  Topology machine;
  machine.cores.resize(8);
  EXPECT_EQ(default_threads(machine), 8);
  machine.quota_cores = 2.5;
  EXPECT_EQ(default_threads(machine), 2);
  machine.quota_cores = 0.5;
  EXPECT_EQ(default_threads(machine), 1);
  machine.quota_cores = 100;
  EXPECT_EQ(default_threads(machine), 8);
  EXPECT_EQ(default_threads(Topology{}), 1);
}

TEST(Topology, ThisMachineHasACoreAndABadDescriptionIsAnError) {
  const auto machine = read_topology();
  ASSERT_TRUE(machine.ok());
  EXPECT_GE(machine->cores.size(), 1U);
  EXPECT_GE(machine->n_cpus_total, machine->n_usable_cpus());
  EXPECT_GT(machine->memory_total, 0U);
  EXPECT_EQ(detect_topology().n_usable_cpus(), machine->n_usable_cpus());
  EXPECT_FALSE(read_topology({"", "not a machine"}).ok());
}

TEST(Progress, LineFitsTheTerminal) {
  EXPECT_EQ(progress_line("get", 50, 100, 0, 60), "get  [###################-------------------]  50 B / 100 B");
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LT(static_cast<int>(progress_line("a title", 5, 10, 1, columns).size()), std::max(columns, 2));
  }
  EXPECT_EQ(progress_line("get", 2048, 0, 0, 80), "get  2.0 KiB");
  EXPECT_EQ(human_bytes(98362432), "93.8 MiB");
}

TEST(Progress, DrawsNothingWhereThereIsNoTerminal) {
  const std::string path = ::testing::TempDir() + "quern_progress";
  std::FILE* file = std::fopen(path.c_str(), "w+");
  ASSERT_NE(file, nullptr);
  {
    Progress bar("x", 10, ::fileno(file));
    bar.update(5);
  }
  std::fseek(file, 0, SEEK_END);
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace quern
