#include "exec/image_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/topology.h"

namespace quern::exec {
namespace {

constexpr size_t kStep = size_t{8} << 20;  // copied by one thread between two reports
constexpr int kPopulateRead = 22;          // MADV_POPULATE_READ, newer than some C libraries

}  // namespace

uint64_t weight_room(uint64_t available) {
  return available / 4 * 3;
}

uint64_t available_memory() {
  const uint64_t machine = read_memory("").available;
  const auto limit = read_cgroup_limits("").memory_bytes;
  return limit ? std::min(machine, *limit) : machine;
}

Result<Buffer> copy_mapping(std::span<const std::byte> mapping, Team& team,
                            const std::function<void(uint64_t, uint64_t)>& progress) {
  QUERN_TRY(Buffer memory, Buffer::allocate(mapping.size(), "packed weights"));
  const size_t step = kStep * static_cast<size_t>(team.size());
  for (size_t at = 0; at < mapping.size(); at += step) {
    team.run([&](int thread) {
      const size_t begin = at + kStep * static_cast<size_t>(thread);
      if (begin >= mapping.size()) return;
      const size_t bytes = std::min(kStep, mapping.size() - begin);
      auto* from = const_cast<std::byte*>(mapping.data()) + begin;
      ::madvise(from, bytes, kPopulateRead);  // one call instead of a fault for every few pages
      std::memcpy(memory.data() + begin, from, bytes);
      ::madvise(from, bytes, MADV_DONTNEED);
    });
    if (progress) progress(std::min(at + step, mapping.size()), mapping.size());
  }
  return memory;
}

}  // namespace quern::exec
