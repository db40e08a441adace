#include "measure/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/arena.h"
#include "base/team.h"
#include "measure/roofline_tier.h"

namespace quern::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWindow = 0.03;  // seconds
constexpr int kWindows = 4;
constexpr uint64_t kLeastDram = uint64_t{256} << 20;

const TierProbe& probe_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::kProbe;
  if (isa == Isa::avx2) return avx2::kProbe;
#elif defined(__aarch64__)
  if (isa == Isa::neon) return neon::kProbe;
#endif
  return generic::kProbe;
}

// Units per second of all threads together: work(thread, repeats) gives the units it did.
template <class WorkFn>
double best_rate(Team& team, const WorkFn& work) {
  double best = 0;
  int64_t repeats = 1;
  for (int good = 0; good < kWindows;) {
    std::atomic<uint64_t> units{0};
    double seconds = 0;
    team.run([&](int thread) {
      team.barrier();  // all are awake
      const Clock::time_point start = Clock::now();
      units += work(thread, repeats);
      team.barrier();
      if (thread == 0) seconds = std::chrono::duration<double>(Clock::now() - start).count();
    });
    best = std::max(best, static_cast<double>(units.load()) / std::max(seconds, 1e-9));
    if (seconds >= kWindow / 2) {
      ++good;
    } else {
      repeats = std::max(repeats + 1, static_cast<int64_t>(static_cast<double>(repeats) *
                                                           std::min(16.0, kWindow / std::max(seconds, 1e-6))));
    }
  }
  return best;
}

// Every thread reads its own part of [bytes], again and again.
double read_rate(const TierProbe& probe, int n_threads, const std::byte* p, uint64_t bytes,
                 std::atomic<uint32_t>& sink) {
  Team team(n_threads);
  const size_t part = bytes / static_cast<size_t>(team.size()) / 4096 * 4096;
  return best_rate(team, [&](int thread, int64_t repeats) {
    uint32_t seen = 0;
    for (int64_t i = 0; i < repeats; ++i) seen ^= probe.read(p + part * static_cast<size_t>(thread), part);
    sink ^= seen;
    return part * static_cast<uint64_t>(repeats);
  });
}

uint64_t reachable(const Topology& topology, const char* name, int n_threads) {
  for (const CacheLevel& cache : topology.caches) {
    if (cache.name != name) continue;
    return cache.bytes * static_cast<uint64_t>(std::clamp(cache.count, 1, n_threads));
  }
  return 0;
}

void measure_peaks(const TierProbe& probe, Roofline& roofline) {
  Team team(roofline.n_threads);
  constexpr int64_t kRounds = 20000;
  alignas(64) float operands[2][256];
  for (auto& part : operands)
    std::fill(std::begin(part), std::end(part), 0x1.020202p-21F);  // bytes of 1 and 53; sums stay normal
  const std::byte* a = reinterpret_cast<const std::byte*>(operands[0]);
  const std::byte* b = reinterpret_cast<const std::byte*>(operands[1]);
  std::atomic<int32_t> sink{0};
  roofline.int8_macs = best_rate(team, [&](int, int64_t repeats) {
    int32_t out[16];
    const uint64_t macs = probe.int_dots(a, b, repeats * kRounds, out);
    sink ^= out[0];
    return macs;
  });
  roofline.f32_macs = best_rate(team, [&](int, int64_t repeats) {
    float out[16];
    const uint64_t macs = probe.float_fmas(operands[0], operands[1], repeats * kRounds, out);
    sink ^= static_cast<int32_t>(out[0] > 1);
    return macs;
  });
}

}  // namespace

double Roofline::dram_best() const {
  double best = 0;
  for (const ReadRate& rate : dram) best = std::max(best, rate.bytes_per_second);
  return best;
}

Roofline::Source Roofline::source_of(uint64_t bytes) const {
  // Activations, keys and values want room too.
  if (l2 > 0 && bytes <= l2_bytes / 4 * 3) return {"L2", l2};
  if (l3 > 0 && bytes <= l3_bytes / 4 * 3) return {"L3", l3};
  return {"memory", dram_best()};
}

Result<Roofline> measure_roofline(Isa isa, int n_threads, const Topology& topology) {
  const TierProbe& probe = probe_of(isa);
  Roofline roofline;
  roofline.isa = isa;
  roofline.n_threads = std::max(1, n_threads);
  roofline.l2_bytes = reachable(topology, "L2", roofline.n_threads);
  roofline.l3_bytes = reachable(topology, "L3", roofline.n_threads);
  uint64_t bytes = std::max(kLeastDram, 4 * roofline.l3_bytes);
  if (topology.memory_available > 0) bytes = std::min(bytes, topology.memory_available / 4);
  bytes = std::max<uint64_t>(bytes, 1 << 20);
  // Prefetches run a little past the end of what is read.
  QUERN_TRY(const Buffer buffer, Buffer::allocate(bytes + 8192, "memory to measure"));
  std::memset(buffer.data(), 1, bytes);
  std::atomic<uint32_t> sink{0};
  for (int n = 1; n < roofline.n_threads; n *= 2)
    roofline.dram.push_back({n, read_rate(probe, n, buffer.data(), bytes, sink)});
  roofline.dram.push_back({roofline.n_threads, read_rate(probe, roofline.n_threads, buffer.data(), bytes, sink)});
  if (roofline.l2_bytes > 0)
    roofline.l2 = read_rate(probe, roofline.n_threads, buffer.data(), std::min(bytes, roofline.l2_bytes / 2), sink);
  if (roofline.l3_bytes > roofline.l2_bytes)
    roofline.l3 = read_rate(probe, roofline.n_threads, buffer.data(), std::min(bytes, roofline.l3_bytes / 2), sink);
  measure_peaks(probe, roofline);
  return roofline;
}

}  // namespace quern::measure
