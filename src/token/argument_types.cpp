#include "token/argument_types.h"

#include <algorithm>
#include <map>
#include <memory>

namespace quern::token {
namespace {

constexpr int kMaxLooks = 1000;  // at schemas: references may lead in circles

const Json* member(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() ? nullptr : &*found;
}

// What "#/..." points to; null where nothing does.
const Json* followed(const Json& root, const Json& ref) {
  if (!ref.is_string()) return nullptr;
  const auto& text = ref.get_ref<const std::string&>();
  if (!text.starts_with('#')) return nullptr;
  try {
    const Json::json_pointer pointer(text.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception&) {  // a pointer that is none
    return nullptr;
  }
}

bool may_be_text(const Json& schema, const Json& root, int& looks) {
  if (--looks < 0) return true;
  const auto holds_text = [](const Json& values) {
    return std::any_of(values.begin(), values.end(), [](const Json& value) { return value.is_string(); });
  };
  if (const Json* ref = member(schema, "$ref"); ref != nullptr) {
    const Json* target = followed(root, *ref);
    return target == nullptr || may_be_text(*target, root, looks);
  }
  if (const Json* type = member(schema, "type"); type != nullptr) {
    if (type->is_string()) return *type == "string";
    return std::any_of(type->begin(), type->end(), [](const Json& one) { return one == "string"; });
  }
  if (const Json* value = member(schema, "const"); value != nullptr) return value->is_string();
  if (const Json* values = member(schema, "enum"); values != nullptr && values->is_array()) return holds_text(*values);
  const auto branch = [&](const Json& one) { return may_be_text(one, root, looks); };
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const Json* branches = member(schema, keyword);
    if (branches != nullptr && branches->is_array()) return std::any_of(branches->begin(), branches->end(), branch);
  }
  const Json* all = member(schema, "allOf");
  return all == nullptr || !all->is_array() || std::all_of(all->begin(), all->end(), branch);
}

}  // namespace

bool is_text_argument(const Json& parameters, std::string_view key) {
  const Json* properties = member(parameters, "properties");
  const Json* schema = properties == nullptr ? nullptr : member(*properties, key);
  if (schema == nullptr) schema = member(parameters, "additionalProperties");
  int looks = kMaxLooks;
  return schema == nullptr || may_be_text(*schema, parameters, looks);
}

TextArguments text_arguments(const Json& tools) {
  auto parameters = std::make_shared<std::map<std::string, Json, std::less<>>>();
  for (const Json& tool : tools.is_array() ? tools : Json::array()) {
    const Json* function = member(tool, "function");
    const Json* name = function == nullptr ? nullptr : member(*function, "name");
    const Json* schema = function == nullptr ? nullptr : member(*function, "parameters");
    if (name != nullptr && name->is_string() && schema != nullptr) (*parameters)[name->get<std::string>()] = *schema;
  }
  return [parameters](std::string_view function, std::string_view key) {
    const auto found = parameters->find(function);
    return found == parameters->end() || is_text_argument(found->second, key);
  };
}

}  // namespace quern::token
