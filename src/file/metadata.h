// A file's keys and values, with typed look-up whose errors name the file and the key. What keys mean is model's and
// token's business.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "file/name_index.h"
#include "file/value.h"

namespace quern::file {

struct MetaEntry {
  std::string_view key;
  Value value;
};

// T below: an integer type, float, double, bool or std::string_view, converted as Value::as does.
class Metadata {
 public:
  Metadata() = default;
  // `source` names the file in messages. Two entries of one key are an error, as is running out of memory.
  static Result<Metadata> create(const std::string& source, std::vector<MetaEntry> entries);

  const std::string& source() const { return source_; }
  std::span<const MetaEntry> entries() const { return entries_; }  // in file order
  const Value* find(std::string_view key) const;

  // Nothing where the key is absent; an error where it is there with another type or a value that does not fit.
  template <class T>
  Result<std::optional<T>> get(std::string_view key) const;
  template <class T>
  Result<T> get_or(std::string_view key, T otherwise) const;
  // An absent key is an error too.
  template <class T>
  Result<T> require(std::string_view key) const;
  // The same for arrays; strings in the vector view the file.
  template <class T>
  Result<std::optional<std::vector<T>>> get_array(std::string_view key) const;
  template <class T>
  Result<std::vector<T>> require_array(std::string_view key) const;

 private:
  Error absent(std::string_view key) const;
  std::string source_;
  std::vector<MetaEntry> entries_;
  NameIndex index_;
};

}  // namespace quern::file
