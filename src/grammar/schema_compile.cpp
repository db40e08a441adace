// Rules of values: scalars and arrays; objects are in schema_object.cpp.
#include "grammar/schema_compile.h"

#include <algorithm>
#include <new>

namespace quern::grammar {

SchemaCompiler::SchemaCompiler(NetworkBuilder& builder, const SchemaDocument& document, const SchemaOptions& options)
    : b_(builder),
      document_(document),
      flattener_(document),
      space_(options.space),
      spelling_(options.in_tags ? Spelling::json_in_tags : Spelling::json),
      json_(builder, spelling_) {
  json_char_ = add_json_char_rule(b_, spelling_);
  indent_ = b_.add_rule("space");
  b_.literal(b_.start(indent_), b_.end(indent_), " ");
}

void SchemaCompiler::gap(int32_t from, int32_t to) {
  b_.empty(from, to);
  if (space_ != JsonSpace::indented) return;
  const int32_t line = b_.add_state();
  b_.literal(from, line, "\n");
  b_.repeat(line, to, indent_, 0, kMaxIndent);
}

void SchemaCompiler::spaced_gap(int32_t from, int32_t to) {
  gap(from, to);
  if (space_ != JsonSpace::compact) b_.literal(from, to, " ");
}

void SchemaCompiler::colon(int32_t from, int32_t to) {
  const int32_t after = b_.add_state();
  b_.literal(from, after, ":");
  b_.empty(after, to);
  if (space_ != JsonSpace::compact) b_.literal(after, to, " ");
}

Result<int32_t> SchemaCompiler::compile(bool only_objects) {
  static const Json kObject = {{"type", "object"}};
  Conjunction wanted{document_.root()};
  if (only_objects) wanted.push_back({&kObject, ""});
  QUERN_TRY(const int32_t root, rule_of(wanted));
  QUERN_TRY_VOID(build_pending());
  return root;
}

Result<void> SchemaCompiler::build_pending() {
  for (; !to_build_.empty() && !b_.full(); to_build_.pop_front()) {
    QUERN_TRY_VOID(build(to_build_.front().first, to_build_.front().second));
  }
  return {};
}

Result<int32_t> SchemaCompiler::rule_of(const Conjunction& schemas) {
  Conjunction wanted;
  std::vector<const Json*> key;
  for (const SchemaRef& schema : schemas) {
    QUERN_TRY(SchemaRef followed, flattener_.followed(schema));
    const bool allows_all = (followed.node->is_boolean() && followed.node->get<bool>()) ||
                            (followed.node->is_object() && followed.node->empty());
    if (allows_all || std::ranges::find(key, followed.node) != key.end()) continue;
    key.push_back(followed.node);
    wanted.push_back(std::move(followed));
  }
  std::sort(key.begin(), key.end());
  const auto found = rules_.find(key);
  if (found != rules_.end()) return found->second;
  if (rules_.size() >= kMaxRules) {
    return schema_error(Status::limit_exceeded, wanted.empty() ? "" : wanted[0].pointer,
                        "the schema needs more than 50000 rules");
  }
  const int32_t rule = b_.add_rule(wanted.empty() ? "any JSON" : "#" + wanted[0].pointer);
  rules_[key] = rule;
  to_build_.emplace_back(rule, std::move(wanted));
  return rule;
}

Result<void> SchemaCompiler::build(int32_t rule, const Conjunction& schemas) {
  const int32_t from = b_.start(rule), to = b_.end(rule);
  QUERN_TRY(FlatSchema flat, flattener_.flatten(schemas));
  if (flat.never) return {};
  // Nothing but a choice: each branch is a rule, so that recursion through it stays a call.
  if (flat.groups.size() == 1 && flat.n_constraints == 0) {
    if (flat.groups[0].exactly_one) QUERN_TRY_VOID(flattener_.alternatives(flat));
    for (const SchemaRef& branch : flat.groups[0].branches) {
      QUERN_TRY(const int32_t called, rule_of({branch}));
      b_.call(from, to, called);
    }
    return {};
  }
  QUERN_TRY(const std::vector<FlatSchema> alternatives, flattener_.alternatives(std::move(flat)));
  for (const FlatSchema& one : alternatives) QUERN_TRY_VOID(build_flat(from, to, one));
  return {};
}

Result<void> SchemaCompiler::build_flat(int32_t from, int32_t to, const FlatSchema& flat) {
  if (flat.values) {
    build_values(from, to, *flat.values);
    return {};
  }
  if ((flat.types & kNullBit) != 0) b_.literal(from, to, "null");
  if ((flat.types & kBooleanBit) != 0) build_literals(from, to, {"true", "false"});
  if ((flat.types & kNumberBits) != 0) QUERN_TRY_VOID(build_number(from, to, flat));
  if ((flat.types & kStringBit) != 0) QUERN_TRY_VOID(build_string(from, to, flat));
  if ((flat.types & kArrayBit) != 0) QUERN_TRY_VOID(build_array(from, to, flat));
  if ((flat.types & kObjectBit) != 0) QUERN_TRY_VOID(build_object(from, to, flat));
  return {};
}

void SchemaCompiler::build_values(int32_t from, int32_t to, const std::vector<Json>& values) {
  std::vector<std::string> texts;
  for (const Json& value : values) texts.push_back(spelled(value));
  build_literals(from, to, std::move(texts));
}

std::string SchemaCompiler::spelled(const Json& value) const {
  std::string text = value.dump();
  for (size_t at = 0; spelling_ == Spelling::json_in_tags && (at = text.find('<', at)) != text.npos;)
    text.replace(at, 1, "\\u003c");
  return text;
}

// A tree, so that equal beginnings are read once.
void SchemaCompiler::build_literals(int32_t from, int32_t to, std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::vector<int32_t> path{from};  // states after the first bytes of the last text
  std::string_view last;
  for (const std::string& text : texts) {
    size_t common = 0;
    while (common < last.size() && common + 1 < text.size() && last[common] == text[common]) ++common;
    path.resize(std::min(path.size(), common + 1));
    for (size_t i = path.size() - 1; i + 1 < text.size(); ++i) {
      const int32_t next = b_.add_state();
      b_.literal(path.back(), next, std::string_view(text).substr(i, 1));
      path.push_back(next);
    }
    b_.literal(path.back(), to, std::string_view(text).substr(text.size() - 1));
    last = text;
  }
}

Result<void> SchemaCompiler::build_number(int32_t from, int32_t to, const FlatSchema& flat) {
  const bool integer = (flat.types & kFractionBit) == 0;
  TextEmitter plain(b_, Spelling::plain);
  if (!flat.number.any()) {
    QUERN_TRY(const Regex regex, parse_regex(integer ? kIntegerPattern : kNumberPattern));
    plain.regex(from, to, regex);
    return {};
  }
  auto dfa = number_dfa(flat.number, integer, flattener_.dfa_work());
  if (!dfa.ok()) return schema_error(dfa.error().status, flat.number.pointer, dfa.error().message);
  if (dfa->empty()) {
    return schema_error(Status::invalid_argument, flat.number.pointer,
                        "no number of at most 19 digits is within the limits");
  }
  plain.dfa(from, to, *dfa);
  return {};
}

Result<void> SchemaCompiler::build_string(int32_t from, int32_t to, const FlatSchema& flat) {
  const int32_t inside = b_.add_state(), last = b_.add_state();
  b_.literal(from, inside, "\"");
  b_.literal(last, to, "\"");
  if (flat.patterns.empty()) {
    b_.repeat(inside, last, json_char_, flat.min_length, flat.max_length);
    return {};
  }
  const bool has_length = flat.min_length > 0 || flat.max_length != kUnbounded;
  if (flat.patterns.size() == 1 && !has_length) {
    json_.regex(inside, last, *flat.patterns[0].regex);
    return {};
  }
  const std::string& pointer = flat.patterns[0].pointer;
  QUERN_TRY(Dfa all, flattener_.dfa_of_all(flat.patterns));
  if (!all.empty() && has_length) {
    const LengthBounds bounds = length_bounds(all);
    const bool holds_anyway = bounds.shortest >= flat.min_length && bounds.longest <= flat.max_length;
    if (holds_anyway && flat.patterns.size() == 1) {
      json_.regex(inside, last, *flat.patterns[0].regex);
      return {};
    }
    if (!holds_anyway) {
      auto bounded = with_length(all, flat.min_length, flat.max_length, flattener_.dfa_work());
      if (!bounded.ok()) return schema_error(bounded.error().status, pointer, bounded.error().message);
      all = std::move(*bounded);
    }
  }
  if (all.empty()) {
    return schema_error(Status::invalid_argument, pointer, "pattern, format and lengths leave no string");
  }
  json_.dfa(inside, last, all);
  return {};
}

Result<void> SchemaCompiler::build_array(int32_t from, int32_t to, const FlatSchema& flat) {
  const uint32_t min = flat.min_items, max = flat.max_items;
  const int32_t open = b_.add_state(), close = b_.add_state();
  b_.literal(from, open, "[");
  b_.literal(close, to, "]");
  if (min == 0) b_.empty(open, close);
  if (max == 0) return {};
  const auto n_prefix = static_cast<uint32_t>(std::min<size_t>(flat.prefix.size(), max));
  int32_t before = b_.add_state(), after = before;
  gap(open, before);
  const uint32_t n_first = std::max<uint32_t>(n_prefix, 1);  // items that are not part of the repetition
  for (uint32_t i = 0; i < n_first; ++i) {
    QUERN_TRY(const int32_t item, rule_of(i < n_prefix ? flat.prefix[i] : flat.items));
    after = b_.add_state();
    b_.call(before, after, item);
    if (i + 1 == n_first) break;
    if (i + 1 >= min) gap(after, close);
    before = b_.add_state();
    comma(after, before);
  }
  QUERN_TRY(const int32_t item, rule_of(flat.items));
  const int32_t more = b_.add_rule("next item"), value = b_.add_state(), end = b_.add_state();
  comma(b_.start(more), value);
  b_.call(value, b_.end(more), item);
  const uint32_t left = max == kUnbounded ? kUnbounded : max - n_first;
  b_.repeat(after, end, more, min > n_first ? min - n_first : 0, left);
  gap(end, close);
  return {};
}

Result<Grammar> Grammar::from_schema(std::string_view schema, const SchemaOptions& options) {
  try {
    QUERN_TRY(const SchemaDocument document, SchemaDocument::parse(schema));
    NetworkBuilder builder;
    QUERN_TRY(const int32_t root, SchemaCompiler(builder, document, options).compile());
    QUERN_TRY(auto network, builder.finish(root));
    return Grammar(std::move(network));
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to compile a schema"};
  }
}

}  // namespace quern::grammar
