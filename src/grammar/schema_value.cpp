// Whether a value satisfies a schema, as JSON Schema means it. Only keywords that are compiled are known here, too.
#include <algorithm>

#include "grammar/schema_flat.h"

namespace quern::grammar {
namespace {

constexpr int kMaxValueDepth = 400;

uint32_t length_of(const std::string& text) {
  uint32_t n = 0;
  for (size_t at = 0; at < text.size(); ++n) next_code_point(text, &at);
  return n;
}

bool is_multiple(const Json& value, const Json& divisor) {
  // Both as whole numbers of the same power of a tenth.
  Decimal a = decimal_of(value), b = decimal_of(divisor);
  const size_t places = std::max(a.fraction.size(), b.fraction.size());
  const auto scaled = [places](Decimal d) {
    d.fraction.resize(places, '0');
    return d.whole + d.fraction;
  };
  const std::string by = scaled(b);
  if (by.size() > 18) return false;
  const uint64_t m = std::stoull(by);
  uint64_t rest = 0;
  for (const char c : scaled(a))
    rest = static_cast<uint64_t>((static_cast<__uint128_t>(rest) * 10 + static_cast<unsigned>(c - '0')) % m);
  return rest == 0;
}

}  // namespace

uint8_t type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return kNullBit;
    case Json::value_t::boolean:
      return kBooleanBit;
    case Json::value_t::object:
      return kObjectBit;
    case Json::value_t::array:
      return kArrayBit;
    case Json::value_t::string:
      return kStringBit;
    default:
      return decimal_of(value).fraction.empty() ? kIntegerBit : kFractionBit;
  }
}

Result<const Dfa*> SchemaFlattener::dfa_at(const SchemaRef& at, bool is_format) {
  const auto found = dfas_.find(at.node);
  if (found != dfas_.end()) return &found->second;
  const auto& text = at.node->get_ref<const std::string&>();
  const char* of_format = is_format ? format_pattern(text) : nullptr;
  auto regex = parse_regex(of_format != nullptr ? of_format : text);
  if (!regex.ok()) return schema_error(regex.error().status, at.pointer, regex.error().message);
  auto dfa = dfa_of(*regex, dfa_work_);
  if (!dfa.ok()) return schema_error(dfa.error().status, at.pointer, dfa.error().message);
  return &dfas_.emplace(at.node, std::move(*dfa)).first->second;
}

Result<bool> SchemaFlattener::validates(const Json& value, const SchemaRef& schema, int depth) {
  QUERN_TRY_VOID(spend(schema.pointer));
  if (depth > kMaxValueDepth) return schema_error(Status::limit_exceeded, schema.pointer, "$ref leads too deep");
  if (schema.node->is_boolean()) return schema.node->get<bool>();
  if (checked_.insert(schema.node).second) {
    FlatSchema own;  // refuses what is not supported or malformed
    QUERN_TRY_VOID(apply(own, schema, nullptr));
  }
  for (const auto& [keyword, ignored] : schema.node->items()) {
    QUERN_TRY(const bool fits, validates_keyword(value, schema, keyword, depth));
    if (!fits) return false;
  }
  return true;
}

Result<bool> SchemaFlattener::validates_keyword(const Json& value, const SchemaRef& schema, const std::string& keyword,
                                                int depth) {
  const auto is = [&](auto... names) { return ((keyword == names) || ...); };
  const SchemaRef at = schema.at(keyword);
  const Json& wanted = *at.node;
  if (is("$ref")) {
    QUERN_TRY(const SchemaRef target, document_.resolve(wanted.get<std::string>(), at.pointer));
    return validates(value, target, depth + 1);
  }
  if (is("allOf", "anyOf", "oneOf")) {
    size_t n = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      QUERN_TRY(const bool fits, validates(value, at.at(i), depth + 1));
      n += fits;
    }
    return is("allOf") ? n == wanted.size() : is("anyOf") ? n > 0 : n == 1;
  }
  if (is("const")) return value_key(value) == value_key(wanted);
  if (is("enum")) {
    auto& keys = enum_keys_[&wanted];
    if (keys.empty()) {
      for (const Json& one : wanted) keys.insert(value_key(one));
    }
    return keys.contains(value_key(value));
  }
  if (is("type")) {
    FlatSchema flat;
    QUERN_TRY_VOID(apply_keyword(flat, schema, keyword, nullptr));
    return (flat.types & type_of(value)) != 0;
  }
  if (value.is_number()) {
    if (is("multipleOf")) return is_multiple(value, wanted);
    if (!is("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")) return true;
    const int order = compare(decimal_of(value), decimal_of(wanted));
    return is("minimum") ? order >= 0 : is("maximum") ? order <= 0 : is("exclusiveMinimum") ? order > 0 : order < 0;
  }
  const auto count = [&] { return wanted.get<double>(); };
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (is("minLength")) return length_of(text) >= count();
    if (is("maxLength")) return length_of(text) <= count();
    if (!is("pattern", "format")) return true;
    QUERN_TRY(const Dfa* dfa, dfa_at(at, is("format")));
    return dfa->matches(text);
  }
  if (value.is_array()) {
    if (is("minItems")) return static_cast<double>(value.size()) >= count();
    if (is("maxItems")) return static_cast<double>(value.size()) <= count();
    if (!is("items", "prefixItems")) return true;
    const size_t n_prefix = schema.node->contains("prefixItems") ? (*schema.node)["prefixItems"].size() : 0;
    for (size_t i = is("items") ? n_prefix : 0; i < (is("items") ? value.size() : std::min(n_prefix, value.size()));
         ++i) {
      QUERN_TRY(const bool fits, validates(value[i], is("items") ? at : at.at(i), depth + 1));
      if (!fits) return false;
    }
    return true;
  }
  if (value.is_object()) {
    if (is("minProperties")) return static_cast<double>(value.size()) >= count();
    if (is("maxProperties")) return static_cast<double>(value.size()) <= count();
    if (is("required"))
      return std::ranges::all_of(wanted, [&](const Json& name) { return value.contains(name.get<std::string>()); });
    // Both keywords together, at the first of them.
    const bool other_comes = is("additionalProperties") && schema.node->contains("properties");
    if (is("properties", "additionalProperties") && !other_comes) return validates_object(value, schema, depth);
  }
  return true;
}

Result<bool> SchemaFlattener::validates_object(const Json& value, const SchemaRef& schema, int depth) {
  for (const auto& [name, member] : value.items()) {
    const bool listed = schema.node->contains("properties") && (*schema.node)["properties"].contains(name);
    if (!listed && !schema.node->contains("additionalProperties")) continue;
    const SchemaRef at = listed ? schema.at("properties").at(name) : schema.at("additionalProperties");
    QUERN_TRY(const bool fits, validates(member, at, depth + 1));
    if (!fits) return false;
  }
  return true;
}

}  // namespace quern::grammar
