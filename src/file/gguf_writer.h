// Writes a GGUF version 3 file: keys, then tensor declarations, then tensor data streamed in the declared order, so
// that memory holds one piece of one tensor at a time. What to write is the caller's business.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "file/gguf_parse.h"
#include "file/output_file.h"
#include "file/owned_value.h"

namespace quern::file {

// Order of calls: create, add and declare (any mix), begin, write (until every tensor is full), finish.
// Errors come from names, shapes and the operating system; a wrong order of calls is a bug.
class GgufWriter {
 public:
  static Result<GgufWriter> create(const std::string& path);

  // The key general.alignment also sets the alignment of the file (32 without it).
  Result<void> add(std::string_view key, OwnedValue value);
  // shape: [1..4 dimensions], the contiguous one first.
  Result<void> declare(std::string_view name, uint32_t ggml_type, std::span<const uint64_t> shape);
  // Writes everything before the data.
  Result<void> begin();
  // The next bytes of the tensor being written; it may come in any number of pieces, none crossing into the next
  // tensor.
  Result<void> write(std::span<const std::byte> bytes);
  // The file appears under its name only here.
  Result<void> finish();

 private:
  struct Entry {
    std::string key;
    OwnedValue value;
  };
  struct Declared {
    std::string name;
    uint32_t ggml_type;
    uint32_t n_dims;
    std::array<uint64_t, 4> shape;
    uint64_t bytes;
  };

  explicit GgufWriter(OutputFile out) : out_(std::move(out)) {}
  Error fail(const std::string& text) const { return {Status::invalid_argument, out_.path() + ": " + text}; }
  Result<void> check_names() const;

  OutputFile out_;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<Entry> entries_;
  std::vector<Declared> tensors_;
  bool begun_ = false;
  size_t current_ = 0;    // tensor being written
  uint64_t written_ = 0;  // bytes of it
};

}  // namespace quern::file
