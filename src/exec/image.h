// The prepared image (.quern): the packed matrices of one model file, written once (image_writer.h), read ever after.
// It is a cache: safe to delete, made again rather than migrated.
//
//   page 0    ImageHeader
//   page 1..  the table: n_entries of ImageEntry, then the strings that it and the header point to
//   then      one plane per entry in table order, each starting on a page
//
// Numbers are little-endian. Nothing read from the file is used before it is checked against the file's size. What is
// checked when: Image::open the header and the table, whole, by checksum; check_serves that they belong to this model
// file and these requests, and the first and last page of each plane; verify every byte (quern convert --verify).
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "file/gguf.h"
#include "plan/plan.h"

namespace quern::exec {

inline constexpr uint32_t kImageVersion = 1;   // of this file format
inline constexpr uint32_t kLayoutVersion = 2;  // raised when a packed layout changes its bytes (a test notices)
inline constexpr size_t kImagePage = 4096;
inline constexpr std::array<char, 8> kImageMagic{'Q', 'U', 'E', 'R', 'N', 'I', 'M', 'G'};

struct ImageHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t n_entries;
  uint64_t file_bytes;
  uint64_t table_bytes;  // the table starts at kImagePage
  std::array<uint64_t, 2> identity;
  uint64_t flavour;
  int64_t source_mtime_ns;  // of the newest shard when its weights were read
  uint32_t source_offset;   // in the table: path of the model file
  uint32_t source_bytes;
  uint64_t table_checksum;
  uint64_t header_checksum;  // of page 0 with 0 here
};
static_assert(sizeof(ImageHeader) == 88);

struct ImageEntry {
  uint64_t weight_offset;  // of the matrix as stored, in its shard
  uint32_t shard;
  uint32_t ggml_type;
  uint32_t layout;                   // kernels::Layout
  uint32_t name_offset, name_bytes;  // in the table: the weight's name
  uint32_t zero;
  int64_t rows, cols;
  uint64_t offset, bytes;  // of the plane, in the image
  uint64_t checksum;       // of the plane
  uint64_t ends_checksum;  // of its first and last page
  bool operator==(const ImageEntry&) const = default;
};
static_assert(sizeof(ImageEntry) == 80);

// What an image must have been made of to serve a model file.
struct ImageKey {
  std::array<uint64_t, 2> identity{};
  uint64_t flavour = 0;  // of the layouts alone: images of one model file for two kinds of processor live side by side
  int64_t source_mtime_ns = 0;
  std::string source;  // absolute path of the model file's first shard

  // "<stem of the model file>-<16 hex digits of the identity>.quern"
  std::string file_name() const;
  // "<stem of the model file>-": how the names of all images of a file of this name begin.
  std::string file_name_prefix() const;
};

// What `source` says of a model file: its path, absolute.
std::string image_source(const std::string& model_path);

// The identity does not depend on the file's name: the bytes before the first tensor of each shard (metadata and tensor
// records), the first and last page of each matrix to be packed, the requests, and the versions above. What it cannot
// see, a matrix changed in its middle, the time of the last change tells.
Result<ImageKey> image_key(const file::GgufFile& file, std::span<const plan::PackRequest> requests);

// The table for these requests as far as it is known before packing (checksums are 0), and its strings.
struct ImageTable {
  std::vector<ImageEntry> entries;
  std::string strings;
  uint32_t source_offset = 0;
  uint64_t file_bytes = 0;
  size_t table_bytes() const { return entries.size() * sizeof(ImageEntry) + strings.size(); }
};
ImageTable image_table(const file::GgufFile& file, std::span<const plan::PackRequest> requests,
                       const std::string& source);

uint64_t plane_checksum(std::span<const std::byte> plane);
uint64_t ends_checksum(std::span<const std::byte> plane);
uint64_t header_checksum(ImageHeader header);

class Image {
 public:
  // Errors: not_found where there is no file; unsupported for another version; invalid_file for any damage of header
  // or table. All are one line that names the file and what is wrong.
  static Result<Image> open(const std::string& path);
  // The same over bytes in memory, which must outlive the result.
  static Result<Image> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_.size(); }
  std::span<const std::byte> file() const { return bytes_; }
  std::string source() const { return text(header_.source_offset, header_.source_bytes); }
  const ImageHeader& header() const { return header_; }
  std::span<const ImageEntry> entries() const { return entries_; }
  std::string name(size_t entry) const { return text(entries_[entry].name_offset, entries_[entry].name_bytes); }
  std::span<const std::byte> plane(size_t entry) const {
    return bytes_.subspan(entries_[entry].offset, entries_[entry].bytes);
  }

  // Whether plane i is requests[i] packed, for every i. Errors as open(), saying what differs.
  Result<void> check_serves(const file::GgufFile& file, const ImageKey& key,
                            std::span<const plan::PackRequest> requests) const;
  // Reads every plane.
  Result<void> verify(const std::function<void(uint64_t done, uint64_t total)>& progress) const;

 private:
  Result<void> read_header();
  Result<void> read_table();
  Error damaged(const std::string& what) const;
  std::string text(uint64_t offset, uint64_t bytes) const;  // of the table

  std::string path_;
  MappedFile mapping_;  // empty where the bytes are the caller's
  std::span<const std::byte> bytes_;
  ImageHeader header_{};
  std::vector<ImageEntry> entries_;
};

}  // namespace quern::exec
