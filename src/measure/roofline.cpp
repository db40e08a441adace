#include "measure/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <numeric>

#include "base/arena.h"
#include "base/team.h"
#include "measure/roofline_tier.h"

namespace quern::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWindow = 0.01;  // seconds
constexpr int kWindows = 12;
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

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// What bounds the threads: something they share, or each its own core. In the latter case each is measured on its own
// processor time, and what else the machine does is left out of it.
enum class Bound { shared, own };

// Units per second of all threads together: work(thread, repeats) gives the units it did.
template <class WorkFn>
double best_rate(Team& team, Bound bound, const WorkFn& work) {
  double best = 0;
  int64_t repeats = 1;
  std::vector<double> rates(static_cast<size_t>(team.size()));
  for (int good = 0; good < kWindows;) {
    double seconds = 0;
    std::vector<double> units(rates.size());
    team.run([&](int thread) {
      const auto t = static_cast<size_t>(thread);
      team.barrier();  // all are awake
      const Clock::time_point start = Clock::now();
      const double own = cpu_seconds();
      units[t] = static_cast<double>(work(thread, repeats));
      rates[t] = units[t] / std::max(cpu_seconds() - own, 1e-9);
      team.barrier();
      if (thread == 0) seconds = std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
    });
    const double rate = bound == Bound::own ? std::accumulate(rates.begin(), rates.end(), 0.0)
                                            : std::accumulate(units.begin(), units.end(), 0.0) / seconds;
    if (seconds >= kWindow / 2) {
      best = std::max(best, rate);
      ++good;
    } else {
      repeats = std::max(repeats + 1, static_cast<int64_t>(static_cast<double>(repeats) *
                                                           std::min(16.0, kWindow / std::max(seconds, 1e-6))));
    }
  }
  return best;
}

// Every thread reads its own part of [bytes], again and again.
double read_rate(const TierProbe& probe, int n_threads, Bound bound, const std::byte* p, uint64_t bytes,
                 std::atomic<uint32_t>& sink) {
  Team team(n_threads);
  const size_t part = bytes / static_cast<size_t>(team.size()) / 4096 * 4096;
  return best_rate(team, bound, [&](int thread, int64_t repeats) {
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

// Memory that no cache holds, every page of it touched. `bytes` becomes what may be read.
Result<Buffer> memory_to_read(const Topology& topology, uint64_t l3_bytes, uint64_t* bytes) {
  *bytes = std::max(kLeastDram, 4 * l3_bytes);
  if (topology.memory_available > 0) *bytes = std::min(*bytes, topology.memory_available / 4);
  *bytes = std::max<uint64_t>(*bytes, 1 << 20);
  // Prefetches run a little past the end of what is read.
  QUERN_TRY(Buffer buffer, Buffer::allocate(*bytes + 8192, "memory to measure"));
  std::memset(buffer.data(), 1, *bytes);
  return buffer;
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
  roofline.int8_macs = best_rate(team, Bound::own, [&](int, int64_t repeats) {
    int32_t out[16];
    const uint64_t macs = probe.int_dots(a, b, repeats * kRounds, out);
    sink ^= out[0];
    return macs;
  });
  roofline.f32_macs = best_rate(team, Bound::own, [&](int, int64_t repeats) {
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
  uint64_t bytes = 0;
  QUERN_TRY(const Buffer buffer, memory_to_read(topology, roofline.l3_bytes, &bytes));
  std::atomic<uint32_t> sink{0};
  for (int n = 1; n < roofline.n_threads; n *= 2)
    roofline.dram.push_back({n, read_rate(probe, n, Bound::shared, buffer.data(), bytes, sink)});
  roofline.dram.push_back(
      {roofline.n_threads, read_rate(probe, roofline.n_threads, Bound::shared, buffer.data(), bytes, sink)});
  if (roofline.l2_bytes > 0)
    roofline.l2 =
        read_rate(probe, roofline.n_threads, Bound::own, buffer.data(), std::min(bytes, roofline.l2_bytes / 2), sink);
  if (roofline.l3_bytes > roofline.l2_bytes)
    roofline.l3 = read_rate(probe, roofline.n_threads, Bound::shared, buffer.data(),
                            std::min(bytes, roofline.l3_bytes / 2), sink);
  measure_peaks(probe, roofline);
  return roofline;
}

Result<DramProbe> DramProbe::create(Isa isa, int n_threads, const Topology& topology) {
  const int n = std::max(1, n_threads);
  uint64_t bytes = 0;
  QUERN_TRY(Buffer buffer, memory_to_read(topology, reachable(topology, "L3", n), &bytes));
  return DramProbe(isa, n, std::move(buffer), bytes);
}

double DramProbe::read() const {
  std::atomic<uint32_t> sink{0};
  return read_rate(probe_of(isa_), n_threads_, Bound::shared, buffer_.data(), bytes_, sink);
}

}  // namespace quern::measure
