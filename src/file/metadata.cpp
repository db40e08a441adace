// Typed look-up of metadata.
#include "file/metadata.h"

#include <exception>
#include <type_traits>
#include <utility>

namespace quern::file {
namespace {

template <class T>
std::string wanted_name() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, std::string_view>) return "string";
  if constexpr (std::is_floating_point_v<T>) return "a number that fits f" + std::to_string(8 * sizeof(T));
  return std::string("an integer that fits ") + (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
}

// "i32 -5": what a scalar holds, for messages.
std::string describe(const Value& value) {
  std::string text = value.type_text();
  if (const auto i = value.as<int64_t>()) return text + " " + std::to_string(*i);
  if (const auto u = value.as<uint64_t>()) return text + " " + std::to_string(*u);
  if (const auto d = value.as<double>()) return text + " " + std::to_string(*d);
  if (const auto s = value.as<std::string_view>()) return text + " " + quoted(*s);
  return text;
}

Error wrong_type(const std::string& source, std::string_view key, const std::string& found, const std::string& wanted) {
  return {Status::invalid_file, source + ": key " + quoted(key) + " is " + found + ", expected " + wanted};
}

}  // namespace

Result<Metadata> Metadata::create(const std::string& source, std::vector<MetaEntry> entries) {
  try {
    Metadata metadata;
    metadata.source_ = source;
    metadata.entries_ = std::move(entries);
    std::vector<std::string_view> keys;
    keys.reserve(metadata.entries_.size());
    for (const MetaEntry& entry : metadata.entries_) keys.push_back(entry.key);
    if (const auto twice = metadata.index_.build(keys)) {
      return Error{Status::invalid_file, metadata.source_ + ": key " + quoted(keys[*twice]) + " is there twice"};
    }
    return metadata;
  } catch (const std::exception&) {
    return Error{Status::out_of_memory, source + ": out of memory while indexing its metadata"};
  }
}

const Value* Metadata::find(std::string_view key) const {
  const auto at = index_.find(key);
  return at ? &entries_[*at].value : nullptr;
}

Error Metadata::absent(std::string_view key) const {
  return {Status::not_found,
          source_ + ": key " + quoted(key) + " is missing; the file is incomplete or of another kind"};
}

template <class T>
Result<std::optional<T>> Metadata::get(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<T>();
  std::optional<T> converted = value->as<T>();
  if (!converted) return wrong_type(source_, key, describe(*value), wanted_name<T>());
  return converted;
}

template <class T>
Result<T> Metadata::get_or(std::string_view key, T otherwise) const {
  QUERN_TRY(const std::optional<T> value, get<T>(key));
  return value.value_or(otherwise);
}

template <class T>
Result<T> Metadata::require(std::string_view key) const {
  QUERN_TRY(const std::optional<T> value, get<T>(key));
  if (!value) return absent(key);
  return *value;
}

template <class T>
Result<std::optional<std::vector<T>>> Metadata::get_array(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<std::vector<T>>();
  const std::string wanted = "an array of elements, each " + wanted_name<T>();
  if (!value->is_array()) return wrong_type(source_, key, describe(*value), wanted);
  std::vector<T> converted;
  try {
    converted.reserve(value->size());
    for (const Value element : value->elements()) {
      const std::optional<T> item = element.as<T>();
      if (!item) {
        const std::string where = value->type_text() + " with element " + std::to_string(converted.size()) + " = ";
        return wrong_type(source_, key, where + describe(element), wanted);
      }
      converted.push_back(*item);
    }
  } catch (const std::exception&) {
    return Error{Status::out_of_memory, source_ + ": key " + quoted(key) + ": no memory for an array of " +
                                            std::to_string(value->size()) + " elements"};
  }
  return std::optional<std::vector<T>>(std::move(converted));
}

template <class T>
Result<std::vector<T>> Metadata::require_array(std::string_view key) const {
  QUERN_TRY(std::optional<std::vector<T>> values, get_array<T>(key));
  if (!values) return absent(key);
  return std::move(*values);
}

#define QUERN_METADATA_TYPE(T)                                                                   \
  template Result<std::optional<T>> Metadata::get<T>(std::string_view) const;                    \
  template Result<T> Metadata::get_or<T>(std::string_view, T) const;                             \
  template Result<T> Metadata::require<T>(std::string_view) const;                               \
  template Result<std::optional<std::vector<T>>> Metadata::get_array<T>(std::string_view) const; \
  template Result<std::vector<T>> Metadata::require_array<T>(std::string_view) const;
QUERN_METADATA_TYPE(uint8_t)
QUERN_METADATA_TYPE(int8_t)
QUERN_METADATA_TYPE(uint16_t)
QUERN_METADATA_TYPE(int16_t)
QUERN_METADATA_TYPE(uint32_t)
QUERN_METADATA_TYPE(int32_t)
QUERN_METADATA_TYPE(uint64_t)
QUERN_METADATA_TYPE(int64_t)
QUERN_METADATA_TYPE(float)
QUERN_METADATA_TYPE(double)
QUERN_METADATA_TYPE(bool)
QUERN_METADATA_TYPE(std::string_view)
#undef QUERN_METADATA_TYPE

}  // namespace quern::file
