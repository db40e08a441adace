// Image::parse on any bytes. The checksums are made right first, so that the checks behind them are reached; then
// everything the result offers is read.
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/image.h"

using namespace quern::exec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first, first + size);
  (void)Image::parse(bytes, "raw");
  // The input is the header's fields, then the table, then planes.
  if (size < sizeof(ImageHeader)) return 0;
  ImageHeader header{};
  std::memcpy(&header, data, sizeof header);
  bytes.assign(kImagePage, std::byte{0});
  bytes.insert(bytes.end(), first + sizeof header, first + size);
  header.magic = kImageMagic;
  header.version = kImageVersion;
  header.file_bytes = bytes.size();
  header.table_checksum =
      XXH3_64bits(bytes.data() + kImagePage, std::min<uint64_t>(header.table_bytes, bytes.size() - kImagePage));
  header.header_checksum = header_checksum(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  const auto image = Image::parse(bytes, "x");
  if (!image.ok()) {
    QUERN_CHECK(image.error().message.find('\n') == std::string::npos);
    return 0;
  }
  size_t sum = image->source().size();
  for (size_t i = 0; i < image->entries().size(); ++i) {
    sum += image->name(i).size();
    for (const std::byte b : image->plane(i)) sum += std::to_integer<size_t>(b);
  }
  (void)image->verify({});
  return sum == SIZE_MAX ? 1 : 0;
}
