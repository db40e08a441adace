// .npy from memory: any bytes give an error or an array of which every element is readable.
#include <cstring>
#include <vector>

#include "file/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint32_t> aligned((size + 3) / 4);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto file = quern::file::NpyFile::parse(std::as_bytes(std::span(aligned)).first(size), "fuzz.npy");
  if (!file.ok()) return 0;
  volatile double sum = 0;
  if (const auto floats = file->floats(); floats.ok()) {
    for (const float value : *floats) sum = sum + static_cast<double>(value);
  }
  if (const auto ints = file->ints(); ints.ok()) {
    for (const int32_t value : *ints) sum = sum + value;
  }
  return 0;
}
