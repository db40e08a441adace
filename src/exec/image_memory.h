// A mapped image copied into memory with huge pages, from which kernels read faster than from a mapping: 7 % on a large
// model where the mapping has small pages, 1 % where the file system backs it with huge ones (docs/PERFORMANCE.md).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/arena.h"
#include "base/team.h"

namespace quern::exec {

// What weights may take of the memory that is available: a quarter is left to the machine (or the cgroup).
uint64_t weight_room(uint64_t available);
uint64_t available_memory();

// A copy, made by the team. Pages of the mapping are let go as they are copied. The function may be empty.
Result<Buffer> copy_mapping(std::span<const std::byte> mapping, Team& team,
                            const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace quern::exec
