// PrefixFile::parse on any bytes, then with the head's checksum made right, so that the checks behind it are reached.
#include <algorithm>
#include <cstring>
#include <vector>

#include "serve/prefix_file.h"

using namespace quern::serve;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const quern::engine::KvPages pages{64, {16, 48}};
  const std::array<uint64_t, 2> identity{1, 2};
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first, first + size);
  (void)PrefixFile::parse(bytes, "raw", pages, identity);
  if (size < sizeof(PrefixHeader)) return 0;
  PrefixHeader header{};
  std::memcpy(&header, data, sizeof header);
  header.magic = kPrefixMagic;
  header.identity = identity;
  header.file_bytes = size;
  header.n_tokens = header.n_tokens % 4 * 64;
  header.n_pages %= 16;
  const size_t head = header.n_tokens * sizeof(int32_t) + header.n_pages * sizeof(PageRecord);
  const auto rest = std::span<const std::byte>(bytes).subspan(sizeof header);
  header.head_checksum = prefix_head_checksum(header, rest.first(std::min(rest.size(), head)));
  std::memcpy(bytes.data(), &header, sizeof header);
  const auto file = PrefixFile::parse(bytes, "x", pages, identity);
  if (!file.ok()) {
    QUERN_CHECK(file.error().message.find('\n') == std::string::npos);
    return 0;
  }
  QUERN_CHECK(!file->tokens().empty() && file->tokens().size() % 64 == 0);
  return 0;
}
