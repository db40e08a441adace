#include "apps/quern/machine.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/file_io.h"

namespace quern::apps {
namespace {

namespace fs = std::filesystem;

struct Requirement {
  Isa isa;
  const char* architecture;
  std::vector<const char*> features;
};

const std::vector<Requirement>& requirements() {
  static const std::vector<Requirement> kRows = {
      {Isa::generic, "", {}},
      {Isa::avx2, "x86-64", {"avx2", "fma", "f16c"}},
      {Isa::avx512, "x86-64", {"avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vnni"}},
      {Isa::neon, "aarch64", {"asimd", "asimddp"}},
  };
  return kRows;
}

constexpr const char* kArchitecture =
#if defined(__x86_64__)
    "x86-64";
#elif defined(__aarch64__)
    "aarch64";
#else
    "other";
#endif

std::string value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t:", key.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string word(const std::string& path) {
  const auto text = read_file(path, 4096);
  return text.ok() ? text->substr(0, text->find_first_of(" \n")) : "";
}

}  // namespace

std::vector<TierReport> report_tiers(const CpuInfo& cpu) {
  std::vector<TierReport> reports;
  for (const Requirement& row : requirements()) {
    TierReport report{row.isa, cpu.supports(row.isa), ""};
    if (!report.usable && std::string(row.architecture) != kArchitecture) {
      report.why_not = std::string("for ") + row.architecture;
    } else if (!report.usable) {
      for (const char* feature : row.features) {
        if (std::find(cpu.features.begin(), cpu.features.end(), feature) != cpu.features.end()) continue;
        report.why_not += (report.why_not.empty() ? "lacks " : ", ") + std::string(feature);
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<std::string> find_gpus(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& gpu : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", error)) {
    const auto text = read_file(gpu.path().string() + "/information", 1 << 16);
    const std::string model = text.ok() ? value_of(*text, "Model") : "";
    names.push_back(model.empty() ? "NVIDIA device " + gpu.path().filename().string() : model);
  }
  if (names.empty()) {
    for (const auto& device : fs::directory_iterator(root + "/sys/bus/pci/devices", error)) {
      const std::string path = device.path().string();
      const std::string kind = word(path + "/class");
      if (word(path + "/vendor") != "0x10de" || kind.rfind("0x03", 0) != 0) continue;
      names.push_back("NVIDIA device " + device.path().filename().string() + " without a driver");
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace quern::apps
