// The ways to compute the same thing: thread counts, chunks, fusions, instruction sets. Bits must not depend on them.
#pragma once

#include <cstring>

#include "plan/plan.h"
#include "tiny.h"

namespace quern::engine {

struct Variant {
  std::string name;
  EngineOptions options;
};

inline EngineOptions base_options() {
  EngineOptions options;
  options.n_threads = 1;
  options.n_ctx = 512;
  options.n_chunk = 64;
  return options;
}

inline std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto with = [&](const std::string& name, auto change) {
    Variant v{name, base_options()};
    change(v.options);
    all.push_back(std::move(v));
  };
  for (const int n : {2, 3}) with(std::to_string(n) + " threads", [n](EngineOptions& o) { o.n_threads = n; });
  for (const int n : {1, 7, 33}) with("chunk " + std::to_string(n), [n](EngineOptions& o) { o.n_chunk = n; });
  with("no fusion", [](EngineOptions& o) { o.no_fuse = {"all"}; });
  for (const plan::Fusion& fusion : plan::all_fusions()) {
    with(std::string("without ") + fusion.name, [&](EngineOptions& o) { o.no_fuse = {fusion.name}; });
  }
  const CpuInfo cpu = detect_cpu();
  for (int i = 0; i < kIsaCount; ++i) {
    const auto isa = static_cast<Isa>(i);
    if (isa != cpu.best && cpu.supports(isa)) with(isa_name(isa), [isa](EngineOptions& o) { o.isa = isa_name(isa); });
  }
  return all;
}

inline bool same(const std::vector<float>& a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace quern::engine
