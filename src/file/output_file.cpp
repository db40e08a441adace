// Buffered writing with an atomic end, for GGUF and .npy files.
#include "file/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace quern::file {

Result<OutputFile> OutputFile::create(const std::string& path) {
  std::string temporary = path + ".tmp" + std::to_string(::getpid());
  File file(std::fopen(temporary.c_str(), "wbe"));
  if (file == nullptr) {
    const Status status = errno == ENOENT ? Status::not_found : Status::io_error;
    return Error{status, path + ": cannot create: " + std::strerror(errno)};
  }
  return OutputFile(path, std::move(temporary), std::move(file));
}

Result<OutputFile> OutputFile::create_private(const std::string& path) {
  std::string temporary = path + kUnfinished;
  const auto failed = [&](const char* action) {
    return Error{Status::io_error, temporary + ": cannot " + action + ": " + std::strerror(errno)};
  };
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return failed("create");
  File file(::fdopen(fd, "wb"));
  if (file == nullptr) {
    Error error = failed("open");
    ::close(fd);
    return error;
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    return Error{Status::limit_exceeded, temporary + ": another process writes it"};
  if (::ftruncate(fd, 0) != 0) return failed("empty");
  return OutputFile(path, std::move(temporary), std::move(file));
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) ::unlink(temporary_.c_str());  // before a lock is given back
}

Error OutputFile::os_error(const char* action) const {
  return {Status::io_error, path_ + ": cannot " + action + ": " + std::strerror(errno)};
}

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return os_error("write");
  position_ += bytes.size();
  return {};
}

Result<void> OutputFile::append_zeros(uint64_t count) {
  constexpr std::array<std::byte, 4096> kZeros{};
  while (count > 0) {
    const uint64_t step = std::min<uint64_t>(count, kZeros.size());
    QUERN_TRY_VOID(append(std::span(kZeros).first(step)));
    count -= step;
  }
  return {};
}

Result<void> OutputFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  QUERN_CHECK(offset + bytes.size() <= position_);
  if (std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) != 0) return os_error("seek");
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return os_error("write");
  if (std::fseek(file_.get(), 0, SEEK_END) != 0) return os_error("seek");
  return {};
}

Result<void> OutputFile::commit() {
  if (std::fflush(file_.get()) != 0) return os_error("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return os_error("rename into place");
  file_.reset();
  return {};
}

}  // namespace quern::file
