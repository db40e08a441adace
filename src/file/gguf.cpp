// Opening files and sets of shards, and look-up over them. The format of one file: gguf_parse.cpp.
#include "file/gguf.h"

#include <exception>
#include <utility>

#include "file/shard_name.h"
#include "file/tensor_size.h"

namespace quern::file {
namespace {

constexpr const char* kSplitNo = "split.no";
constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitTensors = "split.tensors.count";

Error out_of_memory(const std::string& name) {
  return {Status::out_of_memory, name + ": out of memory while reading the file's records"};
}

// Compares a shard's own word on which shard it is with where it was found.
Result<void> check_shard(const Metadata& metadata, uint64_t number, uint64_t count) {
  QUERN_TRY(const uint64_t own_no, metadata.require<uint64_t>(kSplitNo));
  QUERN_TRY(const uint64_t own_count, metadata.require<uint64_t>(kSplitCount));
  const auto differs = [&](const char* key, uint64_t is, uint64_t should) {
    return Error{Status::invalid_file, metadata.source() + ": key " + quoted(key) + " is " + std::to_string(is) +
                                           ", but by its name this is shard " + std::to_string(number) + " of " +
                                           std::to_string(count) + ", so it should be " + std::to_string(should) +
                                           "; the file was renamed or belongs to another set"};
  };
  if (own_count != count) return differs(kSplitCount, own_count, count);
  if (own_no != number - 1) return differs(kSplitNo, own_no, number - 1);
  return {};
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path) {
  try {
    return open_all(path);
  } catch (const std::exception&) {
    return out_of_memory(path);
  }
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  try {
    GgufFile file;
    std::vector<ParsedFile> parsed;
    QUERN_TRY(ParsedFile one, parse_gguf(bytes, name));
    parsed.push_back(std::move(one));
    file.shards_.push_back({name, MappedFile(), bytes.size()});
    QUERN_TRY_VOID(file.adopt(std::move(parsed)));
    return file;
  } catch (const std::exception&) {
    return out_of_memory(name);
  }
}

Result<GgufFile> GgufFile::open_all(const std::string& path) {
  GgufFile file;
  std::vector<ParsedFile> parsed;
  QUERN_TRY(MappedFile mapping, MappedFile::open(path));
  QUERN_TRY(ParsedFile one, parse_gguf(mapping.bytes(), path));
  const uint64_t size = mapping.bytes().size();
  // Tools that join shards leave a count of 0 behind.
  QUERN_TRY(const uint64_t count, one.metadata.get_or<uint64_t>(kSplitCount, 0));
  parsed.push_back(std::move(one));
  file.shards_.push_back({path, std::move(mapping), size});
  if (count > 1) QUERN_TRY_VOID(file.add_other_shards(path, count, parsed));
  QUERN_TRY_VOID(file.adopt(std::move(parsed)));
  return file;
}

// On entry shards_ and parsed hold the opened shard only; on return all of them, in order.
Result<void> GgufFile::add_other_shards(const std::string& opened, uint64_t count, std::vector<ParsedFile>& parsed) {
  const auto name = parse_shard_name(opened);
  if (!name) {
    return Error{Status::invalid_file, opened + ": is one of " + std::to_string(count) +
                                           " shards (key 'split.count'), but its name does not end in "
                                           "-NNNNN-of-NNNNN.gguf, which is how the others are found; rename it back"};
  }
  QUERN_TRY_VOID(check_shard(parsed.front().metadata, name->number, name->count));
  std::vector<Shard> shards;
  std::vector<ParsedFile> all;
  for (uint64_t number = 1; number <= count; ++number) {
    if (number == name->number) {
      shards.push_back(std::move(shards_.front()));
      all.push_back(std::move(parsed.front()));
      continue;
    }
    const std::string path = shard_path(name->prefix, number, count);
    auto mapping = MappedFile::open(path);
    if (!mapping.ok() && mapping.error().status == Status::not_found) {
      return Error{Status::not_found, path + ": missing: shard " + std::to_string(number) + " of " +
                                          std::to_string(count) + "; put it beside " + opened};
    }
    if (!mapping.ok()) return mapping.error();
    QUERN_TRY(ParsedFile one, parse_gguf(mapping->bytes(), path));
    QUERN_TRY_VOID(check_shard(one.metadata, number, count));
    const uint64_t size = mapping->bytes().size();
    shards.push_back({path, std::move(*mapping), size});
    all.push_back(std::move(one));
  }
  shards_ = std::move(shards);
  parsed = std::move(all);
  return {};
}

Result<void> GgufFile::adopt(std::vector<ParsedFile> parsed) {
  version_ = parsed.front().version;
  alignment_ = parsed.front().alignment;
  std::vector<std::string_view> names;
  for (size_t s = 0; s < parsed.size(); ++s) {
    for (Tensor& tensor : parsed[s].tensors) {
      tensor.shard = static_cast<uint32_t>(s);
      names.push_back(tensor.name);
      tensors_.push_back(tensor);
    }
  }
  if (const auto twice = tensor_index_.build(names)) {
    return tensor_error(Status::invalid_file, tensors_[*twice], "is in an earlier shard too");
  }
  for (const ParsedFile& shard : parsed) {
    if (parsed.size() == 1) break;
    QUERN_TRY(const uint64_t total, shard.metadata.get_or<uint64_t>(kSplitTensors, tensors_.size()));
    if (total != tensors_.size()) {
      return Error{Status::invalid_file, shard.metadata.source() + ": key " + quoted(kSplitTensors) + " is " +
                                             std::to_string(total) + ", but the shards hold " +
                                             std::to_string(tensors_.size()) + " tensors; a shard is of another set"};
    }
  }
  metadata_ = std::move(parsed.front().metadata);
  return {};
}

std::vector<std::string> GgufFile::shard_paths() const {
  std::vector<std::string> paths;
  for (const Shard& shard : shards_) paths.push_back(shard.path);
  return paths;
}

uint64_t GgufFile::bytes() const {
  uint64_t total = 0;
  for (const Shard& shard : shards_) total += shard.bytes;
  return total;
}

const Tensor* GgufFile::find_tensor(std::string_view name) const {
  const auto at = tensor_index_.find(name);
  return at ? &tensors_[*at] : nullptr;
}

Result<const Tensor*> GgufFile::require_tensor(std::string_view name) const {
  const Tensor* tensor = find_tensor(name);
  if (tensor == nullptr) return Error{Status::not_found, path() + ": tensor " + quoted(name) + " is missing"};
  return tensor;
}

Error GgufFile::tensor_error(Status status, const Tensor& tensor, const std::string& text) const {
  return {status, shards_[tensor.shard].path + ": tensor " + quoted(tensor.name) + ": " + text};
}

Result<format::Format> GgufFile::require_format(const Tensor& tensor) const {
  if (!tensor.format) return tensor_error(Status::unsupported, tensor, unread_type_text(tensor.ggml_type));
  return *tensor.format;
}

void GgufFile::release(const Tensor& tensor) const {
  const Shard& shard = shards_[tensor.shard];
  if (tensor.bytes > 0 && !shard.mapping.bytes().empty()) shard.mapping.release(tensor.file_offset, tensor.bytes);
}

}  // namespace quern::file
