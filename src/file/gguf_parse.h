// The GGUF format of one file in memory: bytes -> checked metadata and tensor records. Shards and mappings: gguf.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "file/metadata.h"
#include "format/format.h"

namespace quern::file {

inline constexpr uint64_t kMaxNameBytes = 65535;  // of a key or a tensor name; GGUF's own bound for keys
inline constexpr uint32_t kMaxArrayDepth = 4;     // arrays in arrays; bounds the parser's stack
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr uint64_t kMinAlignment = 8;  // GGUF's own bound; keeps every scalar of a tensor aligned
inline constexpr uint64_t kMaxAlignment = 65536;

// One tensor record. Views point into the file.
struct Tensor {
  std::string_view name;
  uint32_t ggml_type = 0;
  std::optional<format::Format> format;  // nothing: a type that Quern lists but does not read
  uint32_t n_dims = 0;
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] is contiguous; 1 beyond n_dims
  uint64_t elements = 0;
  uint64_t bytes = 0;               // 0: unknown, because the type is
  uint64_t file_offset = 0;         // of the data, in its shard
  const std::byte* data = nullptr;  // [bytes]; null where bytes is unknown
  uint32_t shard = 0;

  uint64_t rows() const { return elements / shape[0]; }
  std::string type_name() const { return format::ggml_type_name(ggml_type); }
};

struct ParsedFile {
  uint32_t version = 0;
  uint64_t alignment = kDefaultAlignment;
  uint64_t data_offset = 0;
  Metadata metadata;
  std::vector<Tensor> tensors;  // in file order; names are unique, data lies inside the file and does not overlap
};

// `name` is the file in messages. May throw std::bad_alloc (bounded by a small multiple of the file's size); gguf.cpp
// turns that into an error.
Result<ParsedFile> parse_gguf(std::span<const std::byte> bytes, const std::string& name);

bool valid_alignment(uint64_t alignment);

}  // namespace quern::file
