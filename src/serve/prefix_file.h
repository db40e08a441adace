// The file of one kept timeline: its tokens and the pages of its keys and values. Format, reading and writing; which
// files there are is prefix_store.h's. Internal to serve/.
//
//   PrefixHeader, tokens [n_tokens] i32, PageRecord [n_pages], pages
//
// Numbers are little-endian. Nothing read from the file is used before it is checked: parse() checks the head (header,
// tokens, records) whole, by checksum; page() a page's bytes when they are asked for.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "engine/engine.h"

namespace quern::serve {

inline constexpr std::array<char, 8> kPrefixMagic{'Q', 'U', 'E', 'R', 'N', 'K', 'V', '1'};

struct PrefixHeader {
  std::array<char, 8> magic;
  std::array<uint64_t, 2> identity;  // Engine::kv_identity
  uint64_t n_tokens, n_pages;
  uint64_t file_bytes;
  uint64_t head_checksum;  // of the header with 0 here, the tokens and the records
};
static_assert(sizeof(PrefixHeader) == 56);

struct PageRecord {
  uint32_t kind, index;  // Session::kv_page
  uint64_t offset, bytes, checksum;
};
static_assert(sizeof(PageRecord) == 32);

uint64_t prefix_checksum(std::span<const std::byte> bytes);  // of a page
uint64_t prefix_head_checksum(PrefixHeader header, std::span<const std::byte> rest);

class PrefixFile {
 public:
  // Errors are one line that names the file: not_found; unsupported for another identity; invalid_file for any damage.
  static Result<PrefixFile> open(const std::string& path, const engine::KvPages& pages,
                                 const std::array<uint64_t, 2>& identity);
  // The same over bytes in memory, which must outlive the result.
  static Result<PrefixFile> parse(std::span<const std::byte> bytes, const std::string& name,
                                  const engine::KvPages& pages, const std::array<uint64_t, 2>& identity);

  const std::string& path() const { return path_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }  // whole pages
  // Makes the session the first n tokens, whole pages. Errors: damaged bytes; those of Session::restore.
  Result<void> restore(engine::Session& session, size_t n) const;

 private:
  Result<void> read_head(const engine::KvPages& pages, const std::array<uint64_t, 2>& identity);
  Error damaged(const std::string& what) const { return {Status::invalid_file, path_ + ": damaged: " + what}; }

  std::string path_;
  MappedFile mapping_;  // empty where the bytes are the caller's
  std::span<const std::byte> bytes_;
  std::vector<int32_t> tokens_;
  std::vector<std::vector<PageRecord>> records_;  // [kind][index]; bytes 0: not there
};

// Writes the first n tokens of a session, whole pages of them, under a temporary name beside the path, and renames it.
// Only its owner may read the file: it holds what people wrote. Errors: io_error; limit_exceeded where another process
// writes the same file.
Result<void> write_prefix_file(const std::string& path, const engine::Session& session, std::span<const int32_t> tokens,
                               const engine::KvPages& pages, const std::array<uint64_t, 2>& identity);

}  // namespace quern::serve
