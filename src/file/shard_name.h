// The naming rule of GGUF shards: PREFIX-00001-of-00003.gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quern::file {

struct ShardName {
  std::string prefix;   // with the folder
  uint64_t number = 0;  // from 1
  uint64_t count = 0;
};

std::optional<ShardName> parse_shard_name(const std::string& path);
std::string shard_path(const std::string& prefix, uint64_t number, uint64_t count);

}  // namespace quern::file
