// What Linux's control groups and /proc/meminfo grant this process. Pure readers of files under a root folder.
#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/file_io.h"
#include "base/topology.h"

namespace quern {
namespace {

std::string slurp(const std::string& path) {
  auto text = read_file(path, 1 << 20);
  if (!text.ok()) return "";
  return *std::move(text);
}

std::optional<double> to_number(const std::string& text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return x;
}

std::string first_word(const std::string& text) {
  return text.substr(0, text.find_first_of(" \t\n"));
}

struct Paths {
  std::optional<std::string> v2;
  std::string v1_cpu, v1_memory;
};

// Lines of /proc/self/cgroup: "0::/path" for v2, "4:cpu,cpuacct:/path" for v1.
Paths parse_paths(const std::string& text) {
  Paths paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = std::string(",").append(line, first + 1, second - first - 1).append(",");
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") paths.v2 = path;
    if (controllers.find(",cpu,") != std::string::npos) paths.v1_cpu = path;
    if (controllers.find(",memory,") != std::string::npos) paths.v1_memory = path;
  }
  return paths;
}

// The folder of the group and each ancestor up to the mount: "/a/b", "/a", "". Inside a container the path of
// /proc/self/cgroup may not exist below the mount; the mount itself (the last one) is then the container's group.
std::vector<std::string> ancestors(std::string path) {
  std::vector<std::string> all;
  while (!path.empty() && path != "/") {
    all.push_back(path);
    path.erase(path.find_last_of('/'));
  }
  all.emplace_back();
  return all;
}

void tighten_cores(CgroupLimits& limits, double quota, double period, const std::string& source) {
  if (!(quota > 0) || !(period > 0)) return;
  const double cores = quota / period;
  if (limits.cores && *limits.cores <= cores) return;
  limits.cores = cores;
  limits.cores_source = source;
}

void tighten_memory(CgroupLimits& limits, const std::string& text) {
  constexpr double kUnlimited = 1e18;  // v1 writes a number near 2^63 for "no limit"
  const auto bytes = to_number(first_word(text));
  if (!bytes || *bytes >= kUnlimited || *bytes < 0) return;
  const auto whole = static_cast<uint64_t>(*bytes);
  limits.memory_bytes = std::min(limits.memory_bytes.value_or(whole), whole);
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const Paths paths = parse_paths(slurp(root + "/proc/self/cgroup"));
  const std::string mount = "/sys/fs/cgroup";
  for (const std::string& group : ancestors(paths.v2.value_or(""))) {
    const std::string file = mount + group + "/cpu.max";
    const std::string text = slurp(root + file);
    const size_t space = text.find(' ');
    if (space != std::string::npos) {
      tighten_cores(limits, to_number(text.substr(0, space)).value_or(0), to_number(text.substr(space + 1)).value_or(0),
                    file);
    }
    tighten_memory(limits, slurp(root + mount + group + "/memory.max"));
  }
  for (const char* controller : {"/cpu", "/cpu,cpuacct"}) {
    for (const std::string& group : ancestors(paths.v1_cpu)) {
      const std::string folder = mount + controller + group;
      tighten_cores(limits, to_number(slurp(root + folder + "/cpu.cfs_quota_us")).value_or(0),
                    to_number(slurp(root + folder + "/cpu.cfs_period_us")).value_or(0), folder + "/cpu.cfs_quota_us");
    }
  }
  for (const std::string& group : ancestors(paths.v1_memory)) {
    tighten_memory(limits, slurp(root + mount + "/memory" + group + "/memory.limit_in_bytes"));
  }
  return limits;
}

MemoryInfo read_memory(const std::string& root) {
  MemoryInfo info;
  std::istringstream lines(slurp(root + "/proc/meminfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (!(words >> key >> kib)) continue;
    if (key == "MemTotal:") info.total = kib * 1024;
    if (key == "MemAvailable:") info.available = kib * 1024;
  }
  return info;
}

}  // namespace quern
