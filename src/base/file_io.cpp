#include "base/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quern {
namespace {

Error os_error(const std::string& path, const char* action) {
  const Status status = errno == ENOENT ? Status::not_found : Status::io_error;
  return {status, path + ": cannot " + action + ": " + std::strerror(errno)};
}

struct Fd {
  int fd;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return os_error(path, "open");
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return os_error(path, "stat");
  if (!S_ISREG(info.st_mode)) return Error{Status::invalid_file, path + ": not a regular file"};
  MappedFile mapped;
  mapped.path_ = path;
  mapped.size_ = static_cast<size_t>(info.st_size);
  if (mapped.size_ > 0) {
    void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return os_error(path, "map");
    mapped.data_ = static_cast<const std::byte*>(data);
  }
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(size_t offset, size_t bytes) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes) / page * page;
  if (end > begin && end <= size_) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void read_ahead(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(mapped.data()) + mapped.size();
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);  // NOLINT(performance-no-int-to-ptr)
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return os_error(path, "open");
  std::string text;
  char buffer[1 << 16];
  size_t n = 0;
  while ((n = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
    text.append(buffer, n);
    if (text.size() > max_bytes) break;
  }
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return os_error(path, "read");
  if (text.size() > max_bytes)
    return Error{Status::limit_exceeded, path + ": larger than " + std::to_string(max_bytes) + " bytes"};
  return text;
}

Result<void> write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  {
    const Fd file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) return os_error(temporary, "create");
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(file.fd, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        Error error = os_error(temporary, "write");
        ::unlink(temporary.c_str());
        return error;
      }
      done += static_cast<size_t>(n);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = os_error(path, "rename into place");
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

}  // namespace quern
