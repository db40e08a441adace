// Memory with a stated alignment, taken once and given back whole.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"

namespace quern {

inline constexpr size_t kCacheLine = 64;
inline constexpr size_t align_up(size_t n, size_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// A zeroed, 64-byte aligned (2 MB aligned and huge-page advised when large) block of bytes.
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> allocate(size_t bytes, const char* what);  // `what` names the use in the error
  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Unmap> data_{nullptr, Unmap{0}};
  size_t size_ = 0;
};

}  // namespace quern
