#include "base/arena.h"

#include <sys/mman.h>

#include <string>

namespace quern {

void Buffer::Unmap::operator()(std::byte* data) const {
  ::munmap(data, bytes);
}

Result<Buffer> Buffer::allocate(size_t bytes, const char* what) {
  Buffer buffer;
  buffer.size_ = bytes;
  const size_t mapped = align_up(bytes == 0 ? 1 : bytes, 4096);
  void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Error{Status::out_of_memory, std::string("cannot allocate ") + std::to_string(bytes) + " bytes for " + what};
  }
  if (mapped >= (size_t{4} << 20)) ::madvise(data, mapped, MADV_HUGEPAGE);
  buffer.data_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(data), Unmap{mapped});
  return buffer;
}

}  // namespace quern
