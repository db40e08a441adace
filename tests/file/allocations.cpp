// Replaces operator new of the program; a translation unit of its own, so that no call of it is inlined.
#include "allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> count{0};
std::atomic<size_t> largest{0};
}  // namespace

void* operator new(size_t bytes) {
  ++count;
  largest = std::max(largest.load(), bytes);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace quern::file {

uint64_t allocation_count() {
  return count;
}
size_t take_largest_allocation() {
  return largest.exchange(0);
}

}  // namespace quern::file
