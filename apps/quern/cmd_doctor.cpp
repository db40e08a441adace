// doctor: what this machine offers, and what Quern makes of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/quern/fit.h"
#include "apps/quern/inputs.h"
#include "apps/quern/machine.h"
#include "apps/quern/session_options.h"
#include "apps/quern/version.h"
#include "base/progress.h"
#include "engine/images.h"
#include "engine/tuning.h"
#include "measure/roofline.h"

namespace quern::apps {
namespace {

struct Findings {
  CpuInfo cpu;
  std::vector<TierReport> tiers;
  Isa chosen = Isa::generic;
  bool forced = false;
  Topology topology;
  std::vector<std::string> gpus;
  std::string image_folder;
  std::vector<engine::ImageStatus> images;
  std::optional<measure::Roofline> roofline;
  std::string tune_file;                 // where this machine's sidecar is or would be; "" without a cache folder
  std::optional<engine::Tuning> tuning;  // where it holds
  std::string tune_problem;              // why it does not
  std::string model_path;                // of -m; "" without it
  std::optional<Fit> fit;                // of that model
};

void look_at_tuning(const Options& options, Findings& f) {
  const std::string folder = tune_directory(options);
  if (folder.empty()) return;
  const engine::Machine machine = engine::this_machine(f.cpu, f.topology);
  f.tune_file = engine::tuning_path(folder, machine);
  auto tuning = engine::load_tuning(f.tune_file, machine, f.cpu.isa_mask);
  if (tuning.ok()) {
    f.tuning = *std::move(tuning);
  } else if (tuning.error().status != Status::not_found) {
    f.tune_problem = tuning.error().message;
  }
}

// Where -m names one.
Result<void> look_at_model(const Context& context, Findings& f) {
  const std::string& name = context.options.text("model");
  if (name.empty()) return {};
  QUERN_TRY(f.model_path, find_model(context, name));
  QUERN_TRY(const file::GgufFile file, file::GgufFile::open(f.model_path));
  QUERN_TRY(const auto model, model::load_model(file, 0));
  f.fit = fit_of(*model, f.topology);
  return {};
}

std::string tuning_state(const Findings& f) {
  if (f.tuning) return "valid";
  return f.tune_problem.empty() ? "none" : "ignored";
}

std::vector<int> usable_cpus(const Topology& topology) {
  std::vector<int> cpus;
  for (const Core& core : topology.cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

// "0-3,8,10-11"
std::string ranges_of(const std::vector<int>& sorted) {
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t j = i;
    while (j + 1 < sorted.size() && sorted[j + 1] == sorted[j] + 1) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : ",", sorted[i]);
    if (j > i) text += fmt::format("-{}", sorted[j]);
    i = j + 1;
  }
  return text;
}

std::string tier_state(const Findings& f, const TierReport& tier) {
  if (!tier.usable) return "no: " + tier.why_not;
  if (tier.isa == f.chosen) return f.forced ? "chosen, as asked for" : "chosen";
  return f.forced ? "usable" : fmt::format("usable; {} is faster", isa_name(f.chosen));
}

nlohmann::ordered_json roofline_json(const measure::Roofline& r) {
  nlohmann::ordered_json j = {{"isa", isa_name(r.isa)}, {"threads", r.n_threads}};
  for (const measure::ReadRate& rate : r.dram)
    j["memory"].push_back({{"threads", rate.n_threads}, {"bytes_per_second", rate.bytes_per_second}});
  j["l2_bytes_per_second"] = r.l2;
  j["l3_bytes_per_second"] = r.l3;
  j["int8_macs_per_second"] = r.int8_macs;
  j["f32_macs_per_second"] = r.f32_macs;
  return j;
}

std::string as_json(const Findings& f) {
  const Topology& t = f.topology;
  nlohmann::ordered_json j;
  j["quern"] = {{"version", build_version()}, {"commit", build_commit()}, {"compiler", build_compiler()}};
  j["cpu"] = {{"name", f.cpu.name}, {"features", f.cpu.features}};
  j["isa"]["chosen"] = isa_name(f.chosen);
  for (const TierReport& tier : f.tiers)
    j["isa"]["tiers"].push_back({{"name", isa_name(tier.isa)}, {"usable", tier.usable}, {"why_not", tier.why_not}});
  j["cores"] = {{"machine", t.n_cores_total},
                {"usable", t.cores.size()},
                {"packages", t.n_packages},
                {"numa_nodes", t.n_numa_nodes}};
  j["cores"]["kinds"] = nlohmann::ordered_json::array();
  for (const CoreKind& kind : t.kinds)
    j["cores"]["kinds"].push_back({{"name", kind.name}, {"efficiency", kind.efficiency}, {"cores", kind.n_cores}});
  j["cpus"] = {{"machine", t.n_cpus_total}, {"usable", usable_cpus(t)}};
  j["quota"] = {{"cores", nullptr}, {"source", t.quota_source}};
  if (t.quota_cores) j["quota"]["cores"] = *t.quota_cores;
  j["threads"] = default_threads(t);
  j["memory"] = {
      {"total", t.memory_total}, {"available", t.memory_available}, {"limit", nullptr}, {"huge_pages", t.huge_pages}};
  if (t.memory_limit) j["memory"]["limit"] = *t.memory_limit;
  j["caches"] = nlohmann::ordered_json::array();
  for (const CacheLevel& cache : t.caches)
    j["caches"].push_back({{"name", cache.name}, {"bytes", cache.bytes}, {"count", cache.count}});
  j["gpus"] = f.gpus;
  j["tuning"] = {{"state", tuning_state(f)}, {"file", f.tune_file}, {"problem", f.tune_problem}};
  if (f.tuning) {
    j["tuning"]["date"] = f.tuning->date;
    j["tuning"]["queries"] = f.tuning->entries.size();
    j["tuning"]["tuned"] = f.tuning->n_winners();
  }
  j["images"] = nlohmann::ordered_json::array();
  for (const engine::ImageStatus& image : f.images)
    j["images"].push_back(
        {{"path", image.path}, {"bytes", image.bytes}, {"model", image.model}, {"why_not", image.why_not}});
  j["model"] = nullptr;
  if (f.fit) j["model"] = fit_json(f.model_path, *f.fit);
  if (f.roofline) j["roofline"] = roofline_json(*f.roofline);
  return j.dump(2) + "\n";
}

std::string kinds_text(const Topology& t) {
  if (t.kinds.size() < 2) return "";
  std::string text;
  for (const CoreKind& kind : t.kinds) {
    text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", kind.n_cores,
                        kind.name.empty() ? fmt::format("of kind {}", kind.efficiency) : kind.name);
  }
  return text + ")";
}

std::string images_text(const Findings& f) {
  if (f.image_folder.empty()) return "no folder for prepared images";
  uint64_t bytes = 0, unusable = 0;
  for (const engine::ImageStatus& image : f.images) {
    bytes += image.bytes;
    unusable += image.why_not.empty() ? 0 : 1;
  }
  return fmt::format("{} prepared, {}{} in {}", f.images.size(), human_bytes(bytes),
                     unusable > 0 ? fmt::format(", {} of them unusable (quern convert --list)", unusable) : "",
                     f.image_folder);
}

std::string as_text(const Findings& f) {
  const Topology& t = f.topology;
  std::string text;
  const auto row = [&](const char* name, const std::string& value) { text += fmt::format("{:<13}{}\n", name, value); };
  row("quern", fmt::format("{} ({}, {})", build_version(), build_commit(), build_compiler()));
  row("processor", f.cpu.name);
  row("features", f.cpu.features.empty() ? "none that Quern uses" : fmt::format("{}", fmt::join(f.cpu.features, " ")));
  for (const TierReport& tier : f.tiers)
    row(tier.isa == f.tiers.front().isa ? "kernels" : "",
        fmt::format("{:<8} {}", isa_name(tier.isa), tier_state(f, tier)));
  row("cores", fmt::format("{} usable of {}{}, in {} package{}, {} memory node{}", t.cores.size(), t.n_cores_total,
                           kinds_text(t), t.n_packages, t.n_packages == 1 ? "" : "s", t.n_numa_nodes,
                           t.n_numa_nodes == 1 ? "" : "s"));
  row("affinity", fmt::format("processors {} of {}", ranges_of(usable_cpus(t)), t.n_cpus_total));
  row("quota", t.quota_cores ? fmt::format("{:.2f} cores ({})", *t.quota_cores, t.quota_source) : "none");
  row("threads", fmt::format("{} by default", default_threads(t)));
  std::string memory = fmt::format("{} available of {}", human_bytes(t.memory_available), human_bytes(t.memory_total));
  if (t.memory_limit) memory += fmt::format(", cgroup limit {}", human_bytes(*t.memory_limit));
  row("memory", memory);
  row("huge pages", t.huge_pages.empty() ? "unknown" : t.huge_pages);
  std::string caches;
  for (const CacheLevel& cache : t.caches)
    caches += fmt::format("{}{} {} x{}", caches.empty() ? "" : ", ", cache.name, human_bytes(cache.bytes), cache.count);
  row("caches", caches.empty() ? "unknown" : caches);
  if (f.roofline) {
    const measure::Roofline& r = *f.roofline;
    std::string dram;
    for (const measure::ReadRate& rate : r.dram)
      dram += fmt::format("{}{:.1f} GB/s by {}", dram.empty() ? "memory " : ", ", rate.bytes_per_second / 1e9,
                          rate.n_threads);
    row("reads", dram);
    if (r.l2 > 0) row("", fmt::format("L2 {:.1f} GB/s by {}", r.l2 / 1e9, r.n_threads));
    if (r.l3 > 0) row("", fmt::format("L3 {:.1f} GB/s by {}", r.l3 / 1e9, r.n_threads));
    row("arithmetic", fmt::format("int8 {:.0f} GMAC/s, f32 {:.0f} GMAC/s by {} ({})", r.int8_macs / 1e9,
                                  r.f32_macs / 1e9, r.n_threads, isa_name(r.isa)));
  }
  std::string tuned = "none (quern tune -m MODEL measures)";
  if (!f.tune_problem.empty()) tuned = f.tune_problem + "; ignored (quern tune measures afresh)";
  if (f.tuning)
    tuned = fmt::format("{} of {} kernel queries tuned, {} ({})", f.tuning->n_winners(), f.tuning->entries.size(),
                        f.tuning->date, f.tune_file);
  row("tuning", tuned);
  row("gpu", f.gpus.empty() ? "none" : fmt::format("{}", fmt::join(f.gpus, ", ")));
  row("images", images_text(f));
  if (f.fit) row("model", fmt::format("{}: {}", f.model_path, fit_line(*f.fit)));
  return text;
}

}  // namespace

int run_doctor(Context& context) {
  Findings f;
  f.cpu = detect_cpu();
  f.tiers = report_tiers(f.cpu);
  f.chosen = f.cpu.best;
  const std::string& isa = context.options.text("isa");
  if (isa != "auto") {
    const auto forced = parse_isa(isa);
    if (!forced.ok()) return context.fail(forced.error());
    if (!f.cpu.supports(*forced))
      return context.fail(
          {Status::unsupported, "this processor cannot run " + isa + " kernels (quern doctor without --isa says why)"});
    f.chosen = *forced;
    f.forced = true;
  }
  auto topology = read_topology();
  if (!topology.ok()) return context.fail(topology.error());
  f.topology = *std::move(topology);
  f.gpus = find_gpus("");
  look_at_tuning(context.options, f);
  f.image_folder = image_directory(context.options.text("cache"));
  engine::EngineOptions options;
  options.isa = isa;
  options.image_dir = f.image_folder;
  if (!f.image_folder.empty()) f.images = engine::list_images(options);
  if (const auto looked = look_at_model(context, f); !looked.ok()) return context.fail(looked.error());
  if (context.options.flag("roofline")) {
    auto roofline = measure::measure_roofline(f.chosen, default_threads(f.topology), f.topology);
    if (!roofline.ok()) return context.fail(roofline.error());
    f.roofline = *std::move(roofline);
  }
  context.out.write(context.options.flag("json") ? as_json(f) : as_text(f));
  return 0;
}

}  // namespace quern::apps
