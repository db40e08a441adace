#include "apps/quern/bench_record.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>

#include "apps/models/wheel.h"
#include "base/cpu.h"
#include "base/file_io.h"
#include "file/gguf.h"

namespace quern::apps {
namespace {

// "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
std::string operating_system() {
  std::string text;
  const auto release = read_file("/etc/os-release", 1 << 16);
  if (release.ok()) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    size_t at = release->rfind(kKey, 0) == 0 ? 0 : release->find("\n" + std::string(kKey));
    if (at != std::string::npos) {
      at = release->find('=', at) + 1;
      for (const char c : release->substr(at, release->find('\n', at) - at)) {
        if (c != '"') text += c;
      }
    }
  }
  struct utsname name {};
  if (::uname(&name) == 0) text += (text.empty() ? "" : ", ") + std::string(name.sysname) + " " + name.release;
  return text;
}

uint64_t cache_bytes(const Topology& topology, const char* name) {
  for (const CacheLevel& cache : topology.caches) {
    if (cache.name == name) return cache.bytes * static_cast<uint64_t>(std::max(1, cache.count));
  }
  return 0;
}

}  // namespace

measure::Box this_box(const Topology& topology) {
  const CpuInfo cpu = detect_cpu();
  measure::Box box;
  box.cpu = cpu.name;
  box.name = measure::box_name(cpu.name, topology.n_usable_cpus());
  box.isa = isa_name(cpu.best);
  box.os = operating_system();
  box.cores = static_cast<int>(topology.cores.size());
  box.memory_bytes = topology.memory_total;
  box.l2_bytes = cache_bytes(topology, "L2");
  box.l3_bytes = cache_bytes(topology, "L3");
  return box;
}

std::string record_path(const std::string& where, const measure::Box& box) {
  const std::filesystem::path path(where);
  return path.extension() == ".json" ? where : (path / (box.name + ".json")).string();
}

Result<measure::RecordedModel> recorded_model(const std::string& path) {
  QUERN_TRY(const file::GgufFile file, file::GgufFile::open(path));
  measure::RecordedModel model;
  const std::filesystem::path as_path(file.path());
  const auto name = file.get<std::string_view>("general.name");
  model.name = name.ok() && name->has_value() ? std::string(**name) : as_path.stem().string();
  model.file = as_path.filename().string();
  model.bytes = file.bytes();
  QUERN_TRY(model.sha256, sha256_of_file(file.path()));
  return model;
}

}  // namespace quern::apps
