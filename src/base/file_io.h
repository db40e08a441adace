// Files as the rest of Quern sees them: a read-only mapping, or one whole string.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace quern {

// A whole file mapped read-only and private; unmapped on destruction. The file must not shrink while mapped.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Tells the kernel that [offset, offset + bytes) will not be read again soon (its pages may be dropped).
  void release(size_t offset, size_t bytes) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Asks the system to bring this part of a mapping into memory, without waiting for it. Other memory: nothing happens.
void read_ahead(std::span<const std::byte> mapped);

Result<std::string> read_file(const std::string& path, size_t max_bytes = size_t{1} << 30);
// Writes to a temporary name beside it and renames, so a reader sees the old file or the whole new one.
Result<void> write_file_atomic(const std::string& path, std::span<const std::byte> bytes);

}  // namespace quern
