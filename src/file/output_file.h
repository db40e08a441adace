// A file being written: under a temporary name beside its own until commit(), so that no reader sees half of it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace quern::file {

class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path);
  // Only its owner may read it. The temporary name is always path + kUnfinished, and locked while it is written: what
  // another process left behind is written over, and can be told from what one is writing. Errors: io_error;
  // limit_exceeded where another process writes it.
  static Result<OutputFile> create_private(const std::string& path);
  static constexpr const char* kUnfinished = ".part";
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&& other) noexcept = delete;
  ~OutputFile();  // removes what was not committed

  const std::string& path() const { return path_; }
  uint64_t position() const { return position_; }  // bytes appended so far
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> append_zeros(uint64_t count);
  // Replaces bytes that were appended before; appending goes on at the end.
  Result<void> overwrite(uint64_t offset, std::span<const std::byte> bytes);
  Result<void> commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  OutputFile(std::string path, std::string temporary, File file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}
  Error os_error(const char* action) const;

  std::string path_;
  std::string temporary_;
  File file_;  // null once committed or moved from
  uint64_t position_ = 0;
};

}  // namespace quern::file
