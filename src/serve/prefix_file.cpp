#include "serve/prefix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

namespace quern::serve {

static_assert(std::endian::native == std::endian::little, "the file is read as it is");

namespace {

// A file that removes itself unless it is committed, locked while it is written.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (fd_ < 0) return;
    if (!committed_) ::unlink(path_.c_str());
    ::close(fd_);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  Result<void> create() {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) return failed("create");
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd_);
      fd_ = -1;
      return Error{Status::limit_exceeded, path_ + ": another process writes it"};
    }
    return ::ftruncate(fd_, 0) == 0 ? Result<void>() : failed("empty");
  }
  Result<void> write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed("write");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }
  Result<void> commit(const std::string& final_path) {
    if (::rename(path_.c_str(), final_path.c_str()) != 0) return failed("rename");
    committed_ = true;
    return {};
  }

 private:
  Error failed(const char* action) const {
    return {Status::io_error, path_ + ": cannot " + action + ": " + std::strerror(errno)};
  }
  std::string path_;
  int fd_ = -1;
  bool committed_ = false;
};

}  // namespace

uint64_t prefix_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t prefix_head_checksum(PrefixHeader header, std::span<const std::byte> rest) {
  header.head_checksum = 0;
  return XXH3_64bits_withSeed(rest.data(), rest.size(), prefix_checksum(std::as_bytes(std::span(&header, 1))));
}

Result<PrefixFile> PrefixFile::open(const std::string& path, const engine::KvPages& pages,
                                    const std::array<uint64_t, 2>& identity) {
  QUERN_TRY(MappedFile mapping, MappedFile::open(path));
  QUERN_TRY(PrefixFile file, parse(mapping.bytes(), path, pages, identity));
  file.mapping_ = std::move(mapping);
  return file;
}

Result<PrefixFile> PrefixFile::parse(std::span<const std::byte> bytes, const std::string& name,
                                     const engine::KvPages& pages, const std::array<uint64_t, 2>& identity) {
  PrefixFile file;
  file.path_ = name;
  file.bytes_ = bytes;
  try {
    QUERN_TRY_VOID(file.read_head(pages, identity));
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, name + ": not enough memory for its head"};
  }
  return file;
}

Result<void> PrefixFile::read_head(const engine::KvPages& pages, const std::array<uint64_t, 2>& identity) {
  PrefixHeader header{};
  if (bytes_.size() < sizeof header) return damaged("only " + std::to_string(bytes_.size()) + " bytes");
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (header.magic != kPrefixMagic) return damaged("its first bytes are others");
  if (header.identity != identity)
    return Error{Status::unsupported, path_ + ": made for another model file, context, processor or version"};
  if (header.file_bytes != bytes_.size())
    return damaged(std::to_string(bytes_.size()) + " bytes instead of " + std::to_string(header.file_bytes));
  const auto positions = static_cast<uint64_t>(pages.positions);
  const uint64_t room = bytes_.size() - sizeof header;
  if (header.n_tokens == 0 || header.n_tokens % positions != 0 || header.n_tokens > room / sizeof(int32_t) ||
      header.n_pages > (room - header.n_tokens * sizeof(int32_t)) / sizeof(PageRecord))
    return damaged("its head does not fit the file");
  const size_t token_bytes = header.n_tokens * sizeof(int32_t), record_bytes = header.n_pages * sizeof(PageRecord);
  const auto rest = bytes_.subspan(sizeof header, token_bytes + record_bytes);
  if (prefix_head_checksum(header, rest) != header.head_checksum) return damaged("the head's checksum is wrong");
  tokens_.resize(header.n_tokens);
  std::memcpy(tokens_.data(), rest.data(), token_bytes);
  records_.assign(pages.bytes.size(), std::vector<PageRecord>(header.n_tokens / positions));
  for (uint64_t i = 0; i < header.n_pages; ++i) {
    PageRecord record{};
    std::memcpy(&record, rest.data() + token_bytes + i * sizeof record, sizeof record);
    if (record.kind >= records_.size() || record.index >= records_[record.kind].size() ||
        record.bytes != pages.bytes[record.kind] || record.offset > bytes_.size() ||
        record.bytes > bytes_.size() - record.offset)
      return damaged("page " + std::to_string(i) + " lies outside the file");
    records_[record.kind][record.index] = record;
  }
  return {};
}

Result<void> PrefixFile::restore(engine::Session& session, size_t n) const {
  std::string bad;
  const auto page = [&](size_t kind, size_t index) -> std::span<const std::byte> {
    const PageRecord& record = records_[kind][index];
    const auto bytes = bytes_.subspan(record.offset, record.bytes);
    if (bytes.empty() || prefix_checksum(bytes) == record.checksum) return bytes;
    bad = "wrong bytes in page " + std::to_string(index);
    return {};
  };
  auto done = session.restore(std::span(tokens_).first(n), page);
  if (bad.empty()) return done;
  session.truncate(0);
  return damaged(bad);
}

Result<void> write_prefix_file(const std::string& path, const engine::Session& session, std::span<const int32_t> tokens,
                               const engine::KvPages& pages, const std::array<uint64_t, 2>& identity) {
  std::vector<PageRecord> records;
  const size_t n_each = tokens.size() / static_cast<size_t>(pages.positions);
  for (size_t kind = 0; kind < pages.bytes.size(); ++kind) {
    for (size_t index = 0; index < n_each; ++index) {
      const auto bytes = session.kv_page(kind, index);
      if (!bytes.empty())
        records.push_back(
            {static_cast<uint32_t>(kind), static_cast<uint32_t>(index), 0, bytes.size(), prefix_checksum(bytes)});
    }
  }
  PrefixHeader header{kPrefixMagic, identity, tokens.size(), records.size(), 0, 0};
  uint64_t offset = sizeof header + tokens.size_bytes() + records.size() * sizeof(PageRecord);
  for (PageRecord& record : records) {
    record.offset = offset;
    offset += record.bytes;
  }
  header.file_bytes = offset;
  std::vector<std::byte> rest(tokens.size_bytes() + records.size() * sizeof(PageRecord));
  std::memcpy(rest.data(), tokens.data(), tokens.size_bytes());
  if (!records.empty())
    std::memcpy(rest.data() + tokens.size_bytes(), records.data(), records.size() * sizeof(PageRecord));
  header.head_checksum = prefix_head_checksum(header, rest);

  Temporary file(path + ".part");
  QUERN_TRY_VOID(file.create());
  QUERN_TRY_VOID(file.write(std::as_bytes(std::span(&header, 1))));
  QUERN_TRY_VOID(file.write(rest));
  for (const PageRecord& record : records) QUERN_TRY_VOID(file.write(session.kv_page(record.kind, record.index)));
  return file.commit(path);
}

}  // namespace quern::serve
