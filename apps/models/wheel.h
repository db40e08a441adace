// Wheels (zip archives): hashing them, and taking one member out while hashing what comes out.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace quern::apps {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::span<const std::byte> bytes);
  std::string hex();  // ends the hash

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Result<std::string> sha256_of_file(const std::string& path);

// A file being written, with the hash and the length of what went in.
class HashingFile {
 public:
  static Result<HashingFile> create(const std::string& path);
  Result<void> add(std::span<const std::byte> bytes);
  Result<void> close();  // to disk, then closed
  uint64_t bytes() const { return bytes_; }
  Sha256& hash() { return *hash_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Sha256> hash_ = std::make_unique<Sha256>();
  uint64_t bytes_ = 0;
};

// Appends a member of a wheel to `out`; stops with an error once `out` would hold more than max_bytes. written(total)
// is called as it grows.
Result<void> extract_member(const std::string& wheel, const std::string& member, uint64_t max_bytes, HashingFile& out,
                            const std::function<void(uint64_t)>& written);

}  // namespace quern::apps
