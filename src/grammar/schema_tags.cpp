// Objects as a list of keys and values in tags, for calls that are written so. What is text there has no quotes, and
// ends where the tag does; so of a string's keywords only enum and const can be kept.
#include <algorithm>

#include "grammar/free_text.h"
#include "grammar/schema_compile.h"
#include "token/argument_types.h"

namespace quern::grammar {

Result<int32_t> SchemaCompiler::compile_tagged(const ArgumentTags& tags) {
  static const Json kObject = {{"type", "object"}};
  QUERN_TRY(const std::vector<FlatSchema> alternatives,
            flattener_.alternatives({document_.root(), SchemaRef{&kObject, ""}}));
  const int32_t rule = b_.add_rule("arguments in tags");
  for (const FlatSchema& flat : alternatives) {
    if (!flat.never) QUERN_TRY_VOID(build_tagged(b_.start(rule), b_.end(rule), flat, tags));
  }
  QUERN_TRY_VOID(build_pending());
  return rule;
}

Result<void> SchemaCompiler::build_tagged(int32_t from, int32_t to, const FlatSchema& given, const ArgumentTags& tags) {
  const auto refuse = [&](const char* what) {
    return schema_error(Status::unsupported, given.pointer,
                        std::string(what) + " cannot be kept for arguments in tags, as this model writes them");
  };
  FlatSchema flat = given;
  if (flat.values) return refuse("enum and const of objects");
  for (const std::string& name : flat.required) {
    if (flat.property_index.try_emplace(name, flat.properties.size()).second)
      flat.properties.push_back({name, flat.additional});
  }
  if (flat.min_properties > flat.required.size()) return refuse("minProperties");
  // Others come only where none is listed, so that no key can be given twice in two ways.
  const bool others = flat.open() && flat.properties.empty();
  if (flat.max_properties < flat.properties.size() || (others && flat.max_properties != kUnbounded))
    return refuse("maxProperties");
  int32_t at = from;
  for (const FlatProperty& property : flat.properties) {
    QUERN_TRY(const int32_t argument, tagged_rule(property, false, tags));
    const int32_t next = b_.add_state();
    b_.call(at, next, argument);
    if (!flat.is_required(property.name)) b_.empty(at, next);
    at = next;
  }
  if (!others) return b_.empty(at, to), Result<void>();
  QUERN_TRY(const int32_t argument, tagged_rule({"", flat.additional}, true, tags));
  b_.repeat(at, to, argument, 0, kUnbounded);
  return {};
}

// any_key: of a property that is not listed.
Result<int32_t> SchemaCompiler::tagged_rule(const FlatProperty& property, bool any_key, const ArgumentTags& tags) {
  const int32_t rule = b_.add_rule("argument " + property.name);
  const int32_t key = b_.add_state(), named = b_.add_state(), value = b_.add_state();
  add_pieces(b_, b_.start(rule), key, tags.before_key);
  if (any_key) {
    const int32_t one = b_.add_rule("character of a key");
    b_.code_points(b_.start(one), b_.end(one), CodeSet{{'-', '.'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    b_.repeat(key, named, one, 1, 64);
  } else {
    if (property.name.empty() || property.name.size() > 256 || property.name.find_first_of("<>\n") != std::string::npos)
      return schema_error(Status::unsupported, "",
                          "property \"" + property.name.substr(0, 100) + "\" cannot be the key of an argument in tags");
    b_.literal(key, named, property.name);
  }
  add_pieces(b_, named, value, tags.before_value);
  if (token::is_text_argument(*document_.root().node, property.name)) {
    QUERN_TRY_VOID(tagged_text(value, b_.end(rule), property, tags));
    return rule;
  }
  QUERN_TRY(const int32_t json, rule_of(property.schemas));
  const int32_t read = b_.add_state(), end = b_.add_state();
  b_.call(value, read, json);
  add_pieces(b_, read, end, tags.behind_json);
  add_pieces(b_, end, b_.end(rule), tags.end);
  return rule;
}

Result<void> SchemaCompiler::tagged_text(int32_t from, int32_t to, const FlatProperty& property,
                                         const ArgumentTags& tags) {
  QUERN_TRY(const std::vector<FlatSchema> alternatives, flattener_.alternatives(property.schemas));
  const std::vector<std::string> ends = {grammar::spelled(tags.end[0]), tags.end[0].text};
  for (const FlatSchema& flat : alternatives) {
    if (flat.never || (flat.types & kStringBit) == 0) continue;
    if (!flat.values) {
      if (!flat.patterns.empty() || flat.min_length > 0 || flat.max_length != kUnbounded)
        return schema_error(
            Status::unsupported, flat.patterns.empty() ? flat.pointer : flat.patterns[0].pointer,
            "pattern, format and lengths of a string cannot be kept in an argument in tags, as this model writes them");
      const int32_t nowhere = b_.add_state(), found = b_.add_state();
      add_free_text(b_, from, nowhere, found, ends, false);
      add_pieces(b_, found, to, std::span(tags.end).subspan(1));
      continue;
    }
    const int32_t read = b_.add_state(), end = b_.add_state();
    for (const Json& value : *flat.values) {
      if (!value.is_string()) continue;
      const auto& text = value.get_ref<const std::string&>();
      if (text.find(tags.end[0].text) == text.npos) b_.literal(from, read, text);
    }
    add_pieces(b_, read, end, tags.behind_json);
    add_pieces(b_, end, to, tags.end);
  }
  return {};
}

}  // namespace quern::grammar
