// Appends scalars and GGUF strings to a byte vector, as they lie in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace quern::file {

inline void put_bytes(std::vector<std::byte>& out, const void* from, size_t bytes) {
  const size_t at = out.size();
  out.resize(at + bytes);
  if (bytes > 0) std::memcpy(out.data() + at, from, bytes);
}

template <class T>
void put(std::vector<std::byte>& out, T value) {
  put_bytes(out, &value, sizeof value);
}

// u64 length and the characters.
inline void put_text(std::vector<std::byte>& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  put_bytes(out, text.data(), text.size());
}

}  // namespace quern::file
