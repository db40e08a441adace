// What this machine can do at most: bytes read from memory and caches, multiply-adds of int8 and f32. Measured afresh
// in about two seconds; the best of several windows counts, since everything else on the machine only slows it down.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cpu.h"
#include "base/topology.h"

namespace quern::measure {

struct ReadRate {
  int n_threads = 0;
  double bytes_per_second = 0;
};

struct Roofline {
  Isa isa = Isa::generic;
  int n_threads = 0;
  std::vector<ReadRate> dram;           // thread counts ascending, the last is n_threads
  double l2 = 0, l3 = 0;                // bytes per second of all threads; 0 where there is no such cache
  uint64_t l2_bytes = 0, l3_bytes = 0;  // reachable by n_threads
  double int8_macs = 0, f32_macs = 0;   // per second, all threads

  double dram_best() const;
  // The read rate that weights of so many bytes, read once a run, can come at, and where they then lie.
  struct Source {
    const char* name;
    double bytes_per_second;
  };
  Source source_of(uint64_t bytes) const;
};

// Errors: out_of_memory. isa: a tier that this processor supports.
Result<Roofline> measure_roofline(Isa isa, int n_threads, const Topology& topology);

}  // namespace quern::measure
