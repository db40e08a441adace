// Keywords of one schema after another laid over each other. Spreading groups and proving oneOf are in
// schema_spread.cpp, plain validation in schema_value.cpp.
#include "grammar/schema_flat.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "grammar/grammar.h"

namespace quern::grammar {
namespace {

// Say nothing about values, or are looked up where they are needed.
constexpr std::array kAnnotations = {"$schema",  "$comment",    "$defs",           "definitions",      "$anchor",
                                     "title",    "description", "default",         "examples",         "deprecated",
                                     "readOnly", "writeOnly",   "contentEncoding", "contentMediaType", "contentSchema"};

struct TypeName {
  const char* name;
  uint8_t bits;
};
constexpr TypeName kTypeNames[] = {{"null", kNullBit},     {"boolean", kBooleanBit}, {"object", kObjectBit},
                                   {"array", kArrayBit},   {"string", kStringBit},   {"integer", kIntegerBit},
                                   {"number", kNumberBits}};

Result<uint8_t> type_bits(const SchemaRef& at) {
  if (!at.node->is_string()) return schema_error(Status::invalid_argument, at.pointer, "a type must be a string");
  for (const TypeName& type : kTypeNames) {
    if (at.node->get_ref<const std::string&>() == type.name) return type.bits;
  }
  return schema_error(Status::invalid_argument, at.pointer, "there is no type \"" + at.node->get<std::string>() + "\"");
}

Result<uint8_t> types_of(const SchemaRef& at) {
  if (!at.node->is_array()) return type_bits(at);
  uint8_t bits = 0;
  for (size_t i = 0; i < at.node->size(); ++i) {
    QUERN_TRY(const uint8_t one, type_bits(at.at(i)));
    bits |= one;
  }
  if (bits == 0) return schema_error(Status::invalid_argument, at.pointer, "an empty list of types allows nothing");
  return bits;
}

// A count; ones that no text can reach become kUnbounded.
Result<uint32_t> count_of(const SchemaRef& at) {
  const Json& n = *at.node;
  const bool whole = n.is_number_unsigned() ||
                     (n.is_number_float() && n.get<double>() >= 0 && std::floor(n.get<double>()) == n.get<double>());
  if (!whole) return schema_error(Status::invalid_argument, at.pointer, "must be a whole number from 0 on");
  if (n.is_number_unsigned()) return static_cast<uint32_t>(std::min<uint64_t>(n.get<uint64_t>(), kUnbounded));
  return static_cast<uint32_t>(std::min(n.get<double>(), static_cast<double>(kUnbounded)));
}

Result<uint32_t> least_count_of(const SchemaRef& at) {
  QUERN_TRY(const uint32_t n, count_of(at));
  if (n == kUnbounded) return schema_error(Status::limit_exceeded, at.pointer, "is larger than any text");
  return n;
}

Result<void> apply_number(NumberLimits& limits, const SchemaRef& at, const std::string& keyword) {
  if (!at.node->is_number()) return schema_error(Status::invalid_argument, at.pointer, "must be a number");
  const Decimal value = decimal_of(*at.node);
  if (keyword == "minimum") limits.at_least({value, false});
  if (keyword == "exclusiveMinimum") limits.at_least({value, true});
  if (keyword == "maximum") limits.at_most({value, false});
  if (keyword == "exclusiveMaximum") limits.at_most({value, true});
  if (keyword == "multipleOf") {
    if (value.negative || compare(value, Decimal{}) == 0) {
      return schema_error(Status::invalid_argument, at.pointer, "must be above 0");
    }
    limits.multiples.push_back(value);
  }
  limits.pointer = at.pointer;
  return {};
}

Result<FlatPattern> pattern_at(const SchemaRef& at, const std::string& keyword) {
  if (!at.node->is_string()) return schema_error(Status::invalid_argument, at.pointer, "must be a string");
  const auto& text = at.node->get_ref<const std::string&>();
  const char* of_format = keyword == "format" ? format_pattern(text) : nullptr;
  if (keyword == "format" && of_format == nullptr) {
    return schema_error(Status::unsupported, at.pointer, "format \"" + text + "\" is not supported");
  }
  auto regex = parse_regex(of_format != nullptr ? of_format : text);
  if (!regex.ok()) return schema_error(regex.error().status, at.pointer, regex.error().message);
  return FlatPattern{std::make_shared<const Regex>(std::move(*regex)), at.pointer};
}

}  // namespace

Result<void> SchemaFlattener::spend(const std::string& pointer, size_t n) {
  work_ += n;
  if (work_ <= kMaxWork) return {};
  return schema_error(Status::limit_exceeded, pointer, "too many combinations of anyOf, oneOf, allOf and $ref");
}

Result<SchemaRef> SchemaFlattener::followed(SchemaRef schema) const {
  for (int i = 0; i < kMaxChain; ++i) {
    if (!schema.node->is_object() || !schema.node->contains("$ref")) return schema;
    for (const auto& [key, value] : schema.node->items()) {
      if (key != "$ref" && std::ranges::find(kAnnotations, key) == kAnnotations.end()) return schema;
    }
    const SchemaRef at = schema.at("$ref");
    if (!at.node->is_string()) return schema_error(Status::invalid_argument, at.pointer, "must be a string");
    QUERN_TRY(schema, document_.resolve(at.node->get<std::string>(), at.pointer));
  }
  return schema_error(Status::invalid_argument, schema.pointer, "$ref leads back to itself");
}

Result<FlatSchema> SchemaFlattener::flatten(const Conjunction& schemas) {
  FlatSchema flat;
  if (!schemas.empty()) flat.pointer = schemas[0].pointer;
  for (const SchemaRef& schema : schemas) {
    QUERN_TRY_VOID(apply(flat, schema, nullptr));
  }
  return flat;
}

Result<void> SchemaFlattener::apply(FlatSchema& flat, const SchemaRef& schema, const Chain& above) {
  size_t n_members = schema.node->size();
  for (const char* list : {"properties", "required", "enum"}) {
    if (schema.node->is_object() && schema.node->contains(list)) n_members += (*schema.node)[list].size();
  }
  QUERN_TRY_VOID(spend(schema.pointer, 1 + n_members / 16));
  int depth = 0;
  for (const SchemaChain* link = above.get(); link != nullptr; link = link->above.get()) {
    if (link->node == schema.node) {
      return schema_error(Status::invalid_argument, schema.pointer,
                          "refers to itself without a value between ($ref, allOf, anyOf or oneOf)");
    }
    if (++depth > kMaxChain)
      return schema_error(Status::limit_exceeded, schema.pointer, "$ref, allOf, anyOf and oneOf nest too deep");
  }
  if (schema.node->is_boolean()) {
    flat.never = flat.never || !schema.node->get<bool>();
    return {};
  }
  if (!schema.node->is_object())
    return schema_error(Status::invalid_argument, schema.pointer, "a schema must be an object, true or false");
  flat.sources.push_back(schema);
  const Chain chain = std::make_shared<SchemaChain>(SchemaChain{schema.node, above});
  QUERN_TRY_VOID(apply_array(flat, schema));
  QUERN_TRY_VOID(apply_object(flat, schema));
  for (const auto& [keyword, value] : schema.node->items()) {
    QUERN_TRY_VOID(apply_keyword(flat, schema, keyword, chain));
  }
  return {};
}

Result<void> SchemaFlattener::apply_keyword(FlatSchema& flat, const SchemaRef& schema, const std::string& keyword,
                                            const Chain& chain) {
  const auto is = [&](auto... names) { return ((keyword == names) || ...); };
  if (std::ranges::find(kAnnotations, keyword) != kAnnotations.end() || keyword.starts_with("x-")) return {};
  const SchemaRef at = schema.at(keyword);
  const Json& value = *at.node;
  if (is("$id") && schema.pointer.empty()) return {};
  if (is("uniqueItems") && value == Json(false)) return {};
  if (is("patternProperties") && value.is_object() && value.empty()) return {};
  if (is("$ref")) {
    if (!value.is_string()) return schema_error(Status::invalid_argument, at.pointer, "must be a string");
    QUERN_TRY(const SchemaRef target, document_.resolve(value.get<std::string>(), at.pointer));
    return apply(flat, target, chain);
  }
  if (is("allOf", "anyOf", "oneOf")) {
    if (!value.is_array() || value.empty())
      return schema_error(Status::invalid_argument, at.pointer, "must be a list of schemas");
    FlatGroup group{{}, is("oneOf"), at.pointer, chain};
    for (size_t i = 0; i < value.size(); ++i) {
      if (!is("allOf"))
        group.branches.push_back(at.at(i));
      else
        QUERN_TRY_VOID(apply(flat, at.at(i), chain));
    }
    if (!is("allOf")) flat.groups.push_back(std::move(group));
    return {};
  }
  ++flat.n_constraints;
  if (is("prefixItems", "items", "properties", "required", "additionalProperties")) return {};
  if (is("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
    return apply_number(flat.number, at, keyword);
  if (is("enum", "const")) return apply_values(flat, at, is("const"));
  if (is("type")) {
    QUERN_TRY(const uint8_t bits, types_of(at));
    flat.types &= bits;
  } else if (is("pattern", "format")) {
    QUERN_TRY(FlatPattern pattern, pattern_at(at, keyword));
    flat.patterns.push_back(std::move(pattern));
  } else if (is("minLength", "minItems", "minProperties")) {
    QUERN_TRY(const uint32_t n, least_count_of(at));
    uint32_t& least = is("minLength") ? flat.min_length : is("minItems") ? flat.min_items : flat.min_properties;
    least = std::max(least, n);
  } else if (is("maxLength", "maxItems", "maxProperties")) {
    QUERN_TRY(const uint32_t n, count_of(at));
    uint32_t& most = is("maxLength") ? flat.max_length : is("maxItems") ? flat.max_items : flat.max_properties;
    most = std::min(most, n);
  } else {
    return schema_error(Status::unsupported, at.pointer, "keyword \"" + keyword + "\" is not supported");
  }
  return {};
}

Result<void> SchemaFlattener::apply_values(FlatSchema& flat, const SchemaRef& at, bool single) {
  if (!single && (!at.node->is_array() || at.node->empty())) {
    return schema_error(Status::invalid_argument, at.pointer, "must be a list of at least one value");
  }
  std::vector<Json> values;
  if (single)
    values.push_back(*at.node);
  else
    values.assign(at.node->begin(), at.node->end());
  if (!flat.values) {
    flat.values = std::move(values);
    return {};
  }
  std::set<std::string> keys;
  for (const Json& value : values) keys.insert(value_key(value));
  std::erase_if(*flat.values, [&](const Json& v) { return !keys.contains(value_key(v)); });
  return {};
}

Result<void> SchemaFlattener::apply_array(FlatSchema& flat, const SchemaRef& schema) {
  const Json& node = *schema.node;
  if (node.contains("items") && node["items"].is_array()) {
    return schema_error(Status::unsupported, schema.pointer + "/items",
                        "a list of schemas is the old form; prefixItems is the new one");
  }
  size_t n = 0;
  if (node.contains("prefixItems")) {
    const SchemaRef prefix = schema.at("prefixItems");
    if (!prefix.node->is_array() || prefix.node->empty())
      return schema_error(Status::invalid_argument, prefix.pointer, "must be a list of schemas");
    n = prefix.node->size();
    while (flat.prefix.size() < n) flat.prefix.push_back(flat.items);
    for (size_t i = 0; i < n; ++i) flat.prefix[i].push_back(prefix.at(i));
  }
  if (!node.contains("items")) return {};
  const SchemaRef items = schema.at("items");
  for (size_t i = n; i < flat.prefix.size(); ++i) flat.prefix[i].push_back(items);
  flat.items.push_back(items);
  return {};
}

Result<void> SchemaFlattener::apply_object(FlatSchema& flat, const SchemaRef& schema) {
  const Json& node = *schema.node;
  const bool has_additional = node.contains("additionalProperties");
  const Json* listed = nullptr;
  if (node.contains("properties")) {
    const SchemaRef at = schema.at("properties");
    if (!at.node->is_object()) return schema_error(Status::invalid_argument, at.pointer, "must be an object");
    listed = at.node;
    flat.lists_properties = true;
    for (const auto& [name, value] : listed->items()) {
      const auto [it, is_new] = flat.property_index.try_emplace(name, flat.properties.size());
      if (is_new) flat.properties.push_back({name, flat.additional});
      flat.properties[it->second].schemas.push_back(at.at(name, value));
    }
  }
  if (has_additional) {
    flat.says_additional = true;
    const SchemaRef at = schema.at("additionalProperties");
    std::set<std::string> own;
    if (listed != nullptr) {
      for (const auto& [name, value] : listed->items()) own.insert(name);
    }
    for (FlatProperty& property : flat.properties) {
      if (!own.contains(property.name)) property.schemas.push_back(at);
    }
    flat.additional.push_back(at);
  }
  if (!node.contains("required")) return {};
  const SchemaRef required = schema.at("required");
  if (!required.node->is_array())
    return schema_error(Status::invalid_argument, required.pointer, "must be a list of names");
  for (size_t i = 0; i < required.node->size(); ++i) {
    const Json& name = (*required.node)[i];
    if (!name.is_string()) return schema_error(Status::invalid_argument, required.pointer, "must be a list of names");
    flat.required.insert(name.get<std::string>());
  }
  return {};
}

}  // namespace quern::grammar
