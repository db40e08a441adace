// GGUF from memory: any bytes give an error or a file of which every value and every tensor byte is readable.
#include "file/gguf.h"

namespace {

uint64_t walk(const quern::file::Value& value) {
  uint64_t sum = value.type_text().size() + value.as<uint64_t>().value_or(0) + value.as<bool>().value_or(false);
  if (!value.is_array()) {
    for (const std::byte b : value.encoded()) sum += std::to_integer<uint64_t>(b);
    return sum;
  }
  for (const auto element : value.elements()) sum += walk(element);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = quern::file::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!file.ok()) {
    QUERN_CHECK(file.error().message.find('\n') == std::string::npos);
    return 0;
  }
  volatile uint64_t sum = 0;
  for (const auto& entry : file->metadata().entries()) {
    sum = sum + walk(entry.value);
    QUERN_CHECK(file->find(entry.key) == &entry.value);
    (void)file->get_array<int32_t>(entry.key).ok();
    (void)file->get_array<std::string_view>(entry.key).ok();
    (void)file->get<float>(entry.key).ok();
  }
  for (const auto& tensor : file->tensors()) {
    for (uint64_t i = 0; i < tensor.bytes; ++i) sum = sum + std::to_integer<uint64_t>(tensor.data[i]);
    QUERN_CHECK(file->find_tensor(tensor.name) == &tensor);
    (void)file->require_format(tensor).ok();
    file->release(tensor);
  }
  return 0;
}
