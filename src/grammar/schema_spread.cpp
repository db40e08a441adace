// anyOf and oneOf: every choice as a schema of its own, and the proof that branches of a oneOf cannot hold together.
#include <algorithm>

#include "grammar/schema_flat.h"

namespace quern::grammar {

Result<std::vector<FlatSchema>> SchemaFlattener::alternatives(const Conjunction& schemas) {
  QUERN_TRY(FlatSchema flat, flatten(schemas));
  return alternatives(std::move(flat));
}

Result<std::vector<FlatSchema>> SchemaFlattener::alternatives(FlatSchema flat) {
  const bool has_choice = !flat.groups.empty();
  std::vector<FlatSchema> spread_out, result;
  QUERN_TRY_VOID(spread(std::move(flat), spread_out));
  std::string first;
  for (FlatSchema& one : spread_out) {
    std::string contradiction;
    QUERN_TRY_VOID(settle(one, contradiction));
    if (first.empty()) first = contradiction;
    if (one.types != 0) result.push_back(std::move(one));
  }
  if (!first.empty() && (!has_choice || result.empty())) return Error{Status::invalid_argument, first};
  return result;
}

Result<void> SchemaFlattener::spread(FlatSchema flat, std::vector<FlatSchema>& out) {
  QUERN_TRY_VOID(spend(flat.pointer));
  if (flat.never) return {};
  if (flat.groups.empty()) {
    out.push_back(std::move(flat));
    if (out.size() <= kMaxAlternatives) return {};
    return schema_error(Status::limit_exceeded, out[0].pointer, "more than 1024 combinations of anyOf and oneOf");
  }
  const FlatGroup group = flat.groups.back();
  const Nesting nesting(n_nested_);
  if (n_nested_ > kMaxNested)
    return schema_error(Status::limit_exceeded, group.pointer,
                        "too many groups of anyOf and oneOf depend on each other");
  flat.groups.pop_back();
  if (group.exactly_one) QUERN_TRY_VOID(require_exclusive(group));
  for (const SchemaRef& branch : group.branches) {
    FlatSchema copy = flat;
    QUERN_TRY_VOID(apply(copy, branch, group.owner));
    QUERN_TRY_VOID(spread(std::move(copy), out));
  }
  return {};
}

namespace {

// What cannot hold whatever the value: the name of the keywords, or "".
std::string conflict(const FlatSchema& flat, uint8_t type) {
  switch (type) {
    case kStringBit:
      return flat.min_length > flat.max_length ? "minLength is above maxLength" : "";
    case kArrayBit:
      return flat.min_items > flat.max_items ? "minItems is above maxItems" : "";
    case kObjectBit:
      if (flat.min_properties > flat.max_properties) return "minProperties is above maxProperties";
      return flat.required.size() > flat.max_properties ? "more properties are required than maxProperties allows" : "";
    case kIntegerBit:
    case kFractionBit:
      return flat.number.contradictory() ? "minimum and maximum leave no number" : "";
    default:
      return "";
  }
}

}  // namespace

Result<void> SchemaFlattener::settle(FlatSchema& flat, std::string& contradiction) {
  const auto say = [&](const std::string& what) {
    if (contradiction.empty()) contradiction = schema_error(Status::invalid_argument, flat.pointer, what).message;
  };
  if (flat.types == 0) say("the types of \"type\" and \"allOf\" exclude each other");
  for (uint8_t bit = 1; bit < kAllTypes; bit = static_cast<uint8_t>(bit << 1)) {
    const std::string what = (flat.types & bit) != 0 ? conflict(flat, bit) : "";
    if (what.empty()) continue;
    say(what);
    flat.types = static_cast<uint8_t>(flat.types & ~bit);
  }
  if (!flat.values) return {};
  std::vector<Json> kept;
  for (Json& value : *flat.values) {
    bool fits = true;
    for (size_t i = 0; fits && i < flat.sources.size(); ++i) {
      QUERN_TRY(fits, validates(value, flat.sources[i]));
    }
    if (fits) kept.push_back(std::move(value));
  }
  flat.values = std::move(kept);
  if (!flat.values->empty()) return {};
  say("no value of \"enum\" or \"const\" satisfies the other keywords");
  flat.types = 0;
  return {};
}

Result<void> SchemaFlattener::require_exclusive(const FlatGroup& group) {
  const Json* key = group.branches[0].node;
  // A group met again while it is being proved is taken as proved: it recurs below a value.
  if (!exclusive_.insert(key).second) return {};
  for (size_t i = 0; i < group.branches.size(); ++i) {
    for (size_t j = i + 1; j < group.branches.size(); ++j) {
      QUERN_TRY(const bool apart, exclude({group.branches[i]}, {group.branches[j]}, 0));
      if (apart) continue;
      return schema_error(Status::unsupported, group.pointer,
                          "oneOf: branches " + std::to_string(i) + " and " + std::to_string(j) +
                              " may hold together; anyOf says that this is allowed");
    }
  }
  return {};
}

// Whether no text made for one of the two satisfies the other. False where that is not clear.
Result<bool> SchemaFlattener::exclude(const Conjunction& a, const Conjunction& b, int depth) {
  constexpr int kMaxDepth = 6;
  if (depth > kMaxDepth) return false;
  const auto spread_of = [&](const Conjunction& schemas) -> Result<std::vector<FlatSchema>> {
    QUERN_TRY(FlatSchema flat, flatten(schemas));
    std::vector<FlatSchema> out;
    QUERN_TRY_VOID(spread(std::move(flat), out));
    std::string ignored;
    for (FlatSchema& one : out) QUERN_TRY_VOID(settle(one, ignored));
    return out;
  };
  QUERN_TRY(const auto as, spread_of(a));
  QUERN_TRY(const auto bs, spread_of(b));
  for (const FlatSchema& x : as) {
    for (const FlatSchema& y : bs) {
      QUERN_TRY_VOID(spend(x.pointer));
      for (uint8_t bit = 1; bit < kAllTypes; bit = static_cast<uint8_t>(bit << 1)) {
        if ((x.types & y.types & bit) == 0) continue;
        QUERN_TRY(const bool apart, exclude(x, y, bit, depth));
        if (!apart) return false;
      }
    }
  }
  return true;
}

Result<bool> SchemaFlattener::exclude(const FlatSchema& a, const FlatSchema& b, uint8_t type, int depth) {
  if (a.values || b.values) {
    const FlatSchema &listed = a.values ? a : b, &other = a.values ? b : a;
    for (const Json& value : *listed.values) {
      if ((type_of(value) & type) == 0) continue;
      bool fits = true;
      for (size_t i = 0; fits && i < other.sources.size(); ++i) {
        QUERN_TRY(fits, validates(value, other.sources[i]));
      }
      if (fits) return false;
    }
    return true;
  }
  if (type == kStringBit) return exclude_strings(a, b);
  if (type == kArrayBit) return a.min_items > b.max_items || b.min_items > a.max_items;
  if (type == kIntegerBit || type == kFractionBit) {
    NumberLimits both = a.number;
    if (b.number.low) both.at_least(*b.number.low);
    if (b.number.high) both.at_most(*b.number.high);
    return both.contradictory();
  }
  if (type != kObjectBit) return false;
  // A key that one requires and the other's texts never have, both ways; or a key of both whose values differ.
  const auto lacks_one = [](const FlatSchema& x, const FlatSchema& y) {
    return !x.open() && std::ranges::any_of(y.required, [&](const std::string& name) {
      return !x.property_index.contains(name) && !x.is_required(name);
    });
  };
  if (lacks_one(a, b) && lacks_one(b, a)) return true;
  for (const std::string& name : a.required) {
    if (!b.is_required(name)) continue;
    const auto schemas = [&](const FlatSchema& flat) {
      const auto it = flat.property_index.find(name);
      return it != flat.property_index.end() ? flat.properties[it->second].schemas : flat.additional;
    };
    QUERN_TRY(const bool apart, exclude(schemas(a), schemas(b), depth + 1));
    if (apart) return true;
  }
  return false;
}

Result<bool> SchemaFlattener::exclude_strings(const FlatSchema& a, const FlatSchema& b) {
  if (a.min_length > b.max_length || b.min_length > a.max_length) return true;
  if (a.patterns.empty() || b.patterns.empty()) return false;
  std::vector<FlatPattern> all = a.patterns;
  all.insert(all.end(), b.patterns.begin(), b.patterns.end());
  const auto both = dfa_of_all(all);
  return both.ok() && both->empty();
}

Result<Dfa> SchemaFlattener::dfa_of_all(const std::vector<FlatPattern>& patterns) {
  Dfa all;
  for (size_t i = 0; i < patterns.size(); ++i) {
    auto dfa = dfa_of(*patterns[i].regex, dfa_work_);
    if (dfa.ok() && i > 0) dfa = intersect(all, *dfa, dfa_work_);
    if (!dfa.ok()) return schema_error(dfa.error().status, patterns[0].pointer, dfa.error().message);
    all = std::move(*dfa);
  }
  return all;
}

}  // namespace quern::grammar
