#include "api/fields.h"

namespace quern::api {

std::string Fields::name_of(std::string_view field) const {
  return where_.empty() ? std::string(field) : where_ + "." + std::string(field);
}

void Fields::refuse(std::string_view field, std::string_view why, std::string code) {
  if (problem_->has_value()) return;
  const std::string name = name_of(field);
  *problem_ = Problem{.message = name + ": " + std::string(why), .field = name, .code = std::move(code)};
}

const Json* Fields::any(std::string_view field) {
  known_.emplace(field);
  if (!good()) return nullptr;
  const auto at = object_->find(std::string(field));
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

const Json* Fields::object(std::string_view field) {
  const Json* value = any(field);
  if (value == nullptr || value->is_object()) return value;
  refuse(field, "must be an object");
  return nullptr;
}

const Json* Fields::array(std::string_view field) {
  const Json* value = any(field);
  if (value == nullptr || value->is_array()) return value;
  refuse(field, "must be an array");
  return nullptr;
}

bool Fields::text(std::string_view field, std::string* out) {
  const Json* value = any(field);
  if (value == nullptr) return false;
  if (!value->is_string()) {
    refuse(field, "must be a string");
    return false;
  }
  *out = value->get_ref<const std::string&>();
  return true;
}

bool Fields::flag(std::string_view field, bool* out) {
  const Json* value = any(field);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    refuse(field, "must be true or false");
    return false;
  }
  *out = value->get<bool>();
  return true;
}

bool Fields::integer(std::string_view field, int64_t min, int64_t max, int64_t* out) {
  const Json* value = any(field);
  if (value == nullptr) return false;
  // 5.0 is an integer for JSON Schema, and some clients write it.
  const bool whole = value->is_number_float() && value->get<double>() == std::floor(value->get<double>()) &&
                     std::abs(value->get<double>()) < 9e15;
  if (!value->is_number_integer() && !whole) {
    refuse(field, "must be an integer");
    return false;
  }
  const bool huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = huge ? INT64_MAX : whole ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
  if (huge || number < min || number > max) {
    refuse(field, "must be from " + std::to_string(min) + " to " + std::to_string(max));
    return false;
  }
  *out = number;
  return true;
}

bool Fields::number(std::string_view field, double min, double max, float* out) {
  const Json* value = any(field);
  if (value == nullptr) return false;
  if (!value->is_number()) {
    refuse(field, "must be a number");
    return false;
  }
  const double number = value->get<double>();
  if (!(number >= min && number <= max)) {
    refuse(field, "must be from " + Json(min).dump() + " to " + Json(max).dump());
    return false;
  }
  *out = static_cast<float>(number);
  return true;
}

bool Fields::choice(std::string_view field, std::initializer_list<std::string_view> allowed, std::string* out) {
  std::string word;
  if (!text(field, &word)) return false;
  std::string list;
  for (const std::string_view name : allowed) {
    if (word == name) {
      *out = word;
      return true;
    }
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  refuse(field, "must be one of: " + list);
  return false;
}

void Fields::required(std::string_view field) {
  if (good() && any(field) == nullptr) refuse(field, "is required", "missing_required_parameter");
}

void Fields::without_effect(std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) known_.emplace(field);
}

void Fields::unsupported(std::string_view field, std::string_view why) {
  if (any(field) != nullptr) refuse(field, why, "unsupported_parameter");
}

void Fields::only(std::string_view field, const Json& value, std::string_view why) {
  const Json* given = any(field);
  if (given != nullptr && *given != value) refuse(field, why, "unsupported_parameter");
}

void Fields::finish() {
  if (!good()) return;
  for (const auto& item : object_->items()) {
    if (known_.contains(item.key())) continue;
    refuse(item.key().substr(0, 100), "is not a field of this request", "unknown_parameter");
    return;
  }
}

}  // namespace quern::api
