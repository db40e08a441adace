#include "exec/image_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/file_io.h"
#include "base/topology.h"

namespace quern::exec {
namespace {

constexpr size_t kStep = size_t{8} << 20;  // copied by one thread between two reports
constexpr double kEnoughHuge = 0.8;
constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, newer than some C libraries

// The number after "name:" in a line of smaps, in kB.
bool read_field(std::string_view line, std::string_view name, uint64_t& kb) {
  if (!line.starts_with(name)) return false;
  const size_t digit = line.find_first_of("0123456789");
  return digit != std::string_view::npos &&
         std::from_chars(line.data() + digit, line.data() + line.size(), kb).ec == std::errc{};
}

// "7f31d8c00000-7f32025a3000 r--p ...": true and the addresses where the line begins a mapping.
bool read_range(std::string_view line, uint64_t& begin, uint64_t& end) {
  const char* last = line.data() + line.size();
  const auto first = std::from_chars(line.data(), last, begin, 16);
  if (first.ec != std::errc{} || first.ptr == last || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, last, end, 16);
  return second.ec == std::errc{} && second.ptr != last && *second.ptr == ' ';
}

}  // namespace

double huge_share(std::span<const std::byte> mapping, const std::string& smaps) {
  const auto from = reinterpret_cast<uint64_t>(mapping.data()), to = from + mapping.size();
  uint64_t resident = 0, huge = 0;
  bool inside = false;
  for (size_t at = 0; at < smaps.size();) {
    const size_t stop = std::min(smaps.find('\n', at), smaps.size());
    const std::string_view line(smaps.data() + at, stop - at);
    at = stop + 1;
    uint64_t begin = 0, end = 0, kb = 0;
    if (read_range(line, begin, end)) {
      inside = begin < to && end > from;
    } else if (inside && read_field(line, "Rss:", kb)) {
      resident += kb;
    } else if (inside && read_field(line, "FilePmdMapped:", kb)) {
      huge += kb;
    }
  }
  return resident > 0 ? static_cast<double>(huge) / static_cast<double>(resident) : 0;
}

bool wants_copy(std::span<const std::byte> mapping) {
  const auto smaps = read_file("/proc/self/smaps");
  if (smaps.ok() && huge_share(mapping, *smaps) >= kEnoughHuge) return false;
  uint64_t room = read_memory("").available;
  if (const auto limit = read_cgroup_limits("").memory_bytes) room = std::min(room, *limit);
  return mapping.size() <= room / 4 * 3;
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
