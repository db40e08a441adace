// Where the bytes of a mapped image are read from while computing: the mapping itself where the kernel backs it with
// huge pages, else a copy in memory that has them. A pass over a mapping in 4 KB pages is a tenth slower.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/arena.h"
#include "base/team.h"

namespace quern::exec {

// What share of the mapping's resident bytes lies in huge pages, from 0 to 1. `smaps`: the text of /proc/self/smaps.
// 0 where it says nothing about the mapping.
double huge_share(std::span<const std::byte> mapping, const std::string& smaps);

// Whether the mapping should be copied: its pages are small, and the machine has the memory.
bool wants_copy(std::span<const std::byte> mapping);

// A copy, made by the team. Pages of the mapping are let go as they are copied. The function may be empty.
Result<Buffer> copy_mapping(std::span<const std::byte> mapping, Team& team,
                            const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace quern::exec
