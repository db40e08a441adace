// NumPy .npy files of float32 and int32: rows streamed out, whole arrays mapped in. No other types, no pickles.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "file/output_file.h"

namespace quern::file {

// Writes f32 [n_rows, n_columns], n_rows being known only at the end.
class NpyWriter {
 public:
  static Result<NpyWriter> create(const std::string& path, uint64_t n_columns);
  Result<void> append(std::span<const float> rows);  // [any number of rows, n_columns] f32
  // Writes the number of rows into the header; the file appears under its name only here.
  Result<void> finish();
  uint64_t n_rows() const { return n_rows_; }

 private:
  NpyWriter(OutputFile out, uint64_t n_columns) : out_(std::move(out)), n_columns_(n_columns) {}
  OutputFile out_;
  uint64_t n_columns_;
  uint64_t n_rows_ = 0;
};

enum class NpyType : uint8_t { f32, i32 };

// A mapped array, C order. Views live as long as this object.
class NpyFile {
 public:
  static Result<NpyFile> open(const std::string& path);
  // From memory that outlives the result and is aligned to 4 bytes; `name` for messages.
  static Result<NpyFile> parse(std::span<const std::byte> bytes, const std::string& name);

  NpyType type() const { return type_; }
  const std::vector<uint64_t>& shape() const { return shape_; }
  // All elements; an error that names the file where it holds the other type.
  Result<std::span<const float>> floats() const;
  Result<std::span<const int32_t>> ints() const;

 private:
  NpyFile() = default;
  MappedFile mapping_;  // empty where the bytes are the caller's
  std::string name_;
  NpyType type_ = NpyType::f32;
  std::vector<uint64_t> shape_;
  std::span<const std::byte> data_;
};

}  // namespace quern::file
