// A GGUF model file, opened: metadata and tensors of one file or of a whole set of shards, all of it checked.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "file/gguf_parse.h"
#include "file/metadata.h"

namespace quern::file {

// Movable. Keys, values, names and tensor data point into mappings that this object holds: they live as long as it.
class GgufFile {
 public:
  // Opens a file; where it is one of several shards (key split.count), all of them, found by their names
  // X-00001-of-00003.gguf. Metadata is that of the first shard.
  static Result<GgufFile> open(const std::string& path);
  // Reads one file from memory, which must outlive the result. split.* keys have no effect. `name`: for messages.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return shards_.front().path; }  // of the first shard
  std::vector<std::string> shard_paths() const;
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t bytes() const;  // of all shards

  const Metadata& metadata() const { return metadata_; }
  const Value* find(std::string_view key) const { return metadata_.find(key); }
  template <class T>
  Result<std::optional<T>> get(std::string_view key) const {
    return metadata_.get<T>(key);
  }
  template <class T>
  Result<T> get_or(std::string_view key, T otherwise) const {
    return metadata_.get_or<T>(key, otherwise);
  }
  template <class T>
  Result<T> require(std::string_view key) const {
    return metadata_.require<T>(key);
  }
  template <class T>
  Result<std::optional<std::vector<T>>> get_array(std::string_view key) const {
    return metadata_.get_array<T>(key);
  }
  template <class T>
  Result<std::vector<T>> require_array(std::string_view key) const {
    return metadata_.require_array<T>(key);
  }

  std::span<const Tensor> tensors() const { return tensors_; }  // shard by shard, in file order
  const Tensor* find_tensor(std::string_view name) const;
  Result<const Tensor*> require_tensor(std::string_view name) const;
  // The tensor's format, or why Quern does not read it.
  Result<format::Format> require_format(const Tensor& tensor) const;
  // An error that names the tensor and its file; `text` says what is wrong.
  Error tensor_error(Status status, const Tensor& tensor, const std::string& text) const;
  // Says that the tensor's bytes will not be read again soon; reading them still works.
  void release(const Tensor& tensor) const;

 private:
  struct Shard {
    std::string path;
    MappedFile mapping;  // empty where the bytes are the caller's
    uint64_t bytes = 0;
  };

  GgufFile() = default;
  static Result<GgufFile> open_all(const std::string& path);
  Result<void> add_other_shards(const std::string& opened, uint64_t count, std::vector<ParsedFile>& parsed);
  Result<void> adopt(std::vector<ParsedFile> parsed);

  std::vector<Shard> shards_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 0;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  NameIndex tensor_index_;
};

}  // namespace quern::file
