// GGUF bytes put together by hand, right or wrong: what the writer refuses to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "file/encode.h"

namespace quern::file {

class RawGguf {
 public:
  RawGguf() = default;
  RawGguf(uint64_t n_tensors, uint64_t n_keys, uint32_t version = 3) {
    text("GGUF").u32(version).u64(n_tensors).u64(n_keys);
  }

  RawGguf& u8(uint8_t value) { return scalar(value); }
  RawGguf& u32(uint32_t value) { return scalar(value); }
  RawGguf& u64(uint64_t value) { return scalar(value); }
  RawGguf& text(std::string_view characters) {
    put_bytes(bytes_, characters.data(), characters.size());
    return *this;
  }
  RawGguf& string(std::string_view characters) {
    put_text(bytes_, characters);
    return *this;
  }
  RawGguf& key(std::string_view name, uint32_t type) { return string(name).u32(type); }
  RawGguf& tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset) {
    string(name).u32(static_cast<uint32_t>(shape.size()));
    for (const uint64_t dimension : shape) u64(dimension);
    return u32(type).u64(offset);
  }
  // Zeros up to a multiple of `alignment`, then `bytes` more.
  RawGguf& data(size_t bytes, size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + bytes);
    return *this;
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class T>
  RawGguf& scalar(T value) {
    put(bytes_, value);
    return *this;
  }
  std::vector<std::byte> bytes_;
};

}  // namespace quern::file
