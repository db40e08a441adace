// Models in the user's cache folder (base/cache_location.h says where that is).
#pragma once

#include <string>

#include "apps/models/catalog.h"
#include "base/cache_location.h"
#include "base/result.h"

namespace quern::apps {

// cache_location, created if absent.
Result<std::string> cache_directory(const std::string& chosen);
std::string model_path(const std::string& cache, const CatalogEntry& entry);
// The file is there and has the right size (its hash was checked before it got its name).
bool have_model(const std::string& cache, const CatalogEntry& entry);
Result<void> remove_model(const std::string& cache, const CatalogEntry& entry);

// An exclusive lock on a file, held while the object lives; waits for another holder.
class FileLock {
 public:
  // waiting(): called once where another process holds the lock.
  template <class Waiting>
  static Result<FileLock> acquire(const std::string& path, Waiting waiting) {
    QUERN_TRY(FileLock lock, open(path));
    if (!lock.try_lock()) {
      waiting();
      QUERN_TRY_VOID(lock.lock(path));
    }
    return lock;
  }
  FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  static Result<FileLock> open(const std::string& path);
  bool try_lock() const;
  Result<void> lock(const std::string& path) const;
  int fd_;
};

}  // namespace quern::apps
