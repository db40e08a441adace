// What holds, where the file is, what follows from it. Its text form is tuning_json.cpp's.
#include "engine/tuning.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "base/file_io.h"
#include "model/model.h"

namespace quern::engine {
namespace {

class Hash {  // FNV-1a
 public:
  void add(const std::string& text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
  }
  void add(uint64_t value) {
    for (int i = 0; i < 8; ++i) byte((value >> (8 * i)) & 0xff);
  }
  uint64_t value() const { return value_; }

 private:
  void byte(uint64_t b) { value_ = (value_ ^ b) * 0x100000001b3U; }
  uint64_t value_ = 0xcbf29ce484222325U;
};

std::string hex(uint64_t value, int digits) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return std::string(text).substr(0, static_cast<size_t>(digits));
}

// "AMD EPYC 9B45 64-Core" -> "amd-epyc-9b45-64-core"
std::string slug(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  while (!text.empty() && text.back() == '-') text.pop_back();
  return text.empty() ? "cpu" : text.substr(0, 60);
}

// Puts each of `fresh` in the place of the one with the same key, or at the end.
template <class T, class Same>
void replace_all(std::vector<T>& old, const std::vector<T>& fresh, const Same& same) {
  for (const T& item : fresh) {
    const auto it = std::find_if(old.begin(), old.end(), [&](const T& o) { return same(o, item); });
    if (it != old.end()) {
      *it = item;
    } else {
      old.push_back(item);
    }
  }
}

bool won(const TunedEntry& entry) {
  return entry.winner != entry.fallback;
}

}  // namespace

Machine this_machine(const CpuInfo& cpu, const Topology& topology) {
  Machine machine{cpu.name, cpu.features, topology.n_cores_total, 0, 0};
  for (const CacheLevel& cache : topology.caches) {
    if (cache.name == "L2") machine.l2_bytes = cache.bytes;
    if (cache.name == "L3") machine.l3_bytes = cache.bytes;
  }
  return machine;
}

size_t Tuning::n_winners() const {
  return static_cast<size_t>(std::count_if(entries.begin(), entries.end(), won));
}

Tuning new_tuning(const Machine& machine, const std::string& commit, const std::string& date) {
  return {machine, QUERN_VERSION, commit, hex(kernels::registry_hash(), 16), date, {}, {}, {}};
}

void merge_tuning(Tuning& old, const Tuning& fresh) {
  old.version = fresh.version;
  old.commit = fresh.commit;
  old.registry = fresh.registry;
  old.date = fresh.date;
  replace_all(old.entries, fresh.entries, [](const TunedEntry& a, const TunedEntry& b) {
    return a.query == b.query && a.n_threads == b.n_threads;
  });
  replace_all(old.knobs, fresh.knobs, [](const TunedKnobs& a, const TunedKnobs& b) {
    return a.model_key == b.model_key && a.default_threads == b.default_threads;
  });
  replace_all(old.proofs, fresh.proofs, [](const TunedProof& a, const TunedProof& b) {
    return a.model_key == b.model_key && a.phase == b.phase && a.n_threads == b.n_threads;
  });
}

std::string tuning_path(const std::string& dir, const Machine& machine) {
  Hash hash;
  hash.add(machine.cpu);
  for (const std::string& feature : machine.features) hash.add(feature);
  hash.add(static_cast<uint64_t>(machine.n_cores));
  hash.add(machine.l2_bytes);
  hash.add(machine.l3_bytes);
  return dir + "/" + slug(machine.cpu) + "-" + hex(hash.value(), 8) + ".json";
}

std::string why_stale(const Tuning& t, const Machine& machine) {
  if (t.machine.cpu != machine.cpu || t.machine.features != machine.features)
    return "measured on another processor (" + t.machine.cpu + "; this is " + machine.cpu + ")";
  if (t.machine != machine) return "measured on a machine with other cores or caches";
  if (t.version != QUERN_VERSION)
    return "measured with Quern " + t.version + " (this is " + std::string(QUERN_VERSION) + ")";
  if (t.registry != hex(kernels::registry_hash(), 16)) return "measured with another set of kernels";
  return "";
}

Result<Tuning> load_tuning(const std::string& path, const Machine& machine, uint32_t isa_mask) {
  QUERN_TRY(const std::string text, read_file(path, size_t{64} << 20));
  QUERN_TRY(Tuning tuning, parse_tuning(text, path));
  const std::string stale = why_stale(tuning, machine);
  if (!stale.empty()) return Error{Status::unsupported, path + ": " + stale};
  std::vector<kernels::Choice> choices;
  for (const TunedEntry& entry : tuning.entries) choices.push_back({entry.query, entry.winner});
  const auto known = kernels::Choices::create(choices, isa_mask);
  if (!known.ok()) return Error{Status::unsupported, path + ": " + known.error().message};
  return tuning;
}

Result<void> save_tuning(const std::string& path, const Tuning& tuning) {
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Status::io_error, folder.string() + ": cannot create the folder: " + error.message()};
  const std::string text = tuning_json(tuning);
  return write_file_atomic(path, std::as_bytes(std::span(text.data(), text.size())));
}

kernels::Choices tuned_choices(const Tuning& tuning, int n_threads, uint32_t isa_mask) {
  std::vector<kernels::Choice> choices;
  for (const TunedEntry& entry : tuning.entries) {
    const kernels::Kernel* fallback = kernels::find_kernel(entry.query, isa_mask);
    if (!won(entry) || entry.n_threads != n_threads || fallback == nullptr || entry.fallback != fallback->name)
      continue;
    const kernels::Choice choice{entry.query, entry.winner};
    if (kernels::Choices::create({choice}, isa_mask).ok()) choices.push_back(choice);
  }
  auto made = kernels::Choices::create(choices, isa_mask);
  return made.ok() ? *std::move(made) : kernels::Choices();
}

const TunedKnobs* tuned_knobs(const Tuning& tuning, const std::string& key, int default_threads) {
  for (const TunedKnobs& knobs : tuning.knobs) {
    if (knobs.model_key == key && knobs.default_threads == default_threads) return &knobs;
  }
  return nullptr;
}

std::string model_key(const model::Model& model) {
  Hash hash;
  hash.add(model.spec.arch);
  const auto add = [&](const model::WeightSet& weights) {
    for (size_t role = 0; role < model::kRoleCount; ++role) {
      const model::Weight* w = weights.get(static_cast<model::Role>(role));
      if (w == nullptr) continue;
      hash.add(role);
      hash.add(format::format_info(w->format).name);
      hash.add(static_cast<uint64_t>(w->rows));
      hash.add(static_cast<uint64_t>(w->cols));
    }
  };
  add(model.globals);
  for (const model::WeightSet& layer : model.layers) add(layer);
  return hex(hash.value(), 16);
}

}  // namespace quern::engine
