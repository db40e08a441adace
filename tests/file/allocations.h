// What this test program allocated through operator new, to show that the parser allocates little.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::file {

uint64_t allocation_count();
// The largest block since the last call, in bytes.
size_t take_largest_allocation();

}  // namespace quern::file
