#include "apps/models/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace quern::apps {

namespace fs = std::filesystem;

Result<std::string> cache_directory(const std::string& chosen) {
  QUERN_TRY(const std::string path, cache_location(chosen));
  std::error_code error;
  fs::create_directories(path + "/models", error);
  if (error)
    return Error{Status::io_error,
                 path + ": cannot create the cache folder: " + error.message() + " (QUERN_CACHE chooses another)"};
  return path;
}

std::string model_path(const std::string& cache, const CatalogEntry& entry) {
  return cache + "/models/" + entry.file_name;
}

bool have_model(const std::string& cache, const CatalogEntry& entry) {
  std::error_code error;
  const auto bytes = fs::file_size(model_path(cache, entry), error);
  return !error && bytes == entry.bytes;
}

Result<void> remove_model(const std::string& cache, const CatalogEntry& entry) {
  const std::string path = model_path(cache, entry);
  std::error_code error;
  if (!fs::remove(path, error) && !error)
    return Error{Status::not_found, std::string(entry.name) + ": not in the cache (" + path + ")"};
  if (error) return Error{Status::io_error, path + ": cannot remove: " + error.message()};
  return {};
}

Result<FileLock> FileLock::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Error{Status::io_error, path + ": cannot create: " + std::strerror(errno)};
  return FileLock(fd);
}

bool FileLock::try_lock() const {
  return ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

Result<void> FileLock::lock(const std::string& path) const {
  while (::flock(fd_, LOCK_EX) != 0) {
    if (errno != EINTR) return Error{Status::io_error, path + ": cannot lock: " + std::strerror(errno)};
  }
  return {};
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace quern::apps
