// A JSON Schema's text as a checked tree: depth, duplicate keys, references. What keywords mean is schema_flat.h.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

namespace quern::grammar {

using Json = nlohmann::ordered_json;

// A schema in the document, and the JSON pointer that errors name it by.
struct SchemaRef {
  const Json* node = nullptr;
  std::string pointer;
  SchemaRef at(std::string_view keyword) const;  // a member; the node must have it
  SchemaRef at(size_t i) const;
  SchemaRef at(std::string_view name, const Json& member) const { return {&member, below(name)}; }
  std::string below(std::string_view name) const;  // the pointer of a member; very long ones are cut
};

Error schema_error(Status status, const std::string& pointer, const std::string& what);
// The same for equal values: 1 and 1.0, objects in any order.
std::string value_key(const Json& value);

class SchemaDocument {
 public:
  // The text's document; keeps no view of it. Errors: not JSON, nested too deep, a key given twice.
  static Result<SchemaDocument> parse(std::string_view text);

  SchemaRef root() const { return {root_.get(), ""}; }
  // What "$ref": ref at `from` points to, inside this document.
  Result<SchemaRef> resolve(const std::string& ref, const std::string& from) const;

 private:
  Result<SchemaRef> by_pointer(std::string_view pointer, const std::string& ref, const std::string& from) const;
  void find_anchors();
  const Json* member(const Json& object, const std::string& name) const;

  std::shared_ptr<const Json> root_;
  std::string id_;
  std::map<std::string, SchemaRef> anchors_;
  // Members by name of objects that have many: looking them up one by one would take the square of a text's length.
  mutable std::map<const Json*, std::unordered_map<std::string, const Json*>> members_;
};

}  // namespace quern::grammar
