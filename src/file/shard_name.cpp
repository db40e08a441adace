// Shard file names, taken apart and put together; whether the files exist is gguf.cpp's business.
#include "file/shard_name.h"

#include <algorithm>
#include <string_view>

namespace quern::file {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kEnd = ".gguf";

std::optional<uint64_t> number_of(std::string_view digits) {
  uint64_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

std::string padded(uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

}  // namespace

std::optional<ShardName> parse_shard_name(const std::string& path) {
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (path.size() < kTail) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  const auto number = number_of(tail.substr(1, kDigits));
  const auto count = number_of(tail.substr(1 + kDigits + kOf.size(), kDigits));
  const bool shaped =
      tail[0] == '-' && tail.substr(1 + kDigits, kOf.size()) == kOf && tail.substr(kTail - kEnd.size()) == kEnd;
  if (!shaped || !number || !count) return std::nullopt;
  return ShardName{path.substr(0, path.size() - kTail), *number, *count};
}

std::string shard_path(const std::string& prefix, uint64_t number, uint64_t count) {
  return prefix + "-" + padded(number) + std::string(kOf) + padded(count) + std::string(kEnd);
}

}  // namespace quern::file
