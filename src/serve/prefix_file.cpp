#include "serve/prefix_file.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <new>

#include "file/output_file.h"

namespace quern::serve {

static_assert(std::endian::native == std::endian::little, "the file is read as it is");

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

  QUERN_TRY(file::OutputFile file, file::OutputFile::create_private(path));
  QUERN_TRY_VOID(file.append(std::as_bytes(std::span(&header, 1))));
  QUERN_TRY_VOID(file.append(rest));
  for (const PageRecord& record : records) QUERN_TRY_VOID(file.append(session.kv_page(record.kind, record.index)));
  return file.commit();
}

}  // namespace quern::serve
