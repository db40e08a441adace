// Objects: listed properties in the order of the schema, each at most once, then others where they are allowed.
//
// minProperties counts keys, and a text could give one unlisted key twice. So of unlisted ones only the first counts
// towards it, and they may begin only when it is met.
#include <algorithm>
#include <map>

#include "grammar/schema_compile.h"

namespace quern::grammar {

struct SchemaCompiler::ObjectPlan {
  struct Member {
    int32_t pair;
    bool required;
  };
  std::vector<Member> members;
  int32_t other = -1;  // the rule of a pair with an unlisted key
};

Result<int32_t> SchemaCompiler::pair_rule(const std::string& name, const Conjunction& schemas) {
  QUERN_TRY(const int32_t value, rule_of(schemas));
  const int32_t rule = b_.add_rule("property " + name), after = b_.add_state(), before = b_.add_state();
  b_.literal(b_.start(rule), after, spelled(name));
  colon(after, before);
  b_.call(before, b_.end(rule), value);
  return rule;
}

// Keys of characters that stand for themselves, so that none is a listed one in another spelling.
Result<int32_t> SchemaCompiler::other_pair_rule(const FlatSchema& flat) {
  struct Branch {
    std::map<uint32_t, size_t> next;
    bool is_name = false;
  };
  std::vector<Branch> names(1);
  for (const FlatProperty& property : flat.properties) {
    size_t at = 0;
    for (size_t i = 0; i < property.name.size();) {
      const auto code = static_cast<uint32_t>(next_code_point(property.name, &i));
      const auto [it, is_new] = names[at].next.try_emplace(code, names.size());
      at = it->second;
      if (is_new) names.emplace_back();
    }
    names[at].is_name = true;
  }
  QUERN_TRY(const int32_t value, rule_of(flat.additional));
  const int32_t rule = b_.add_rule("other property"), free = b_.add_state(), closing = b_.add_state();
  const int32_t after = b_.add_state(), before = b_.add_state();
  b_.repeat(free, closing, json_.set_rule(json_plain()), 0, kUnbounded);
  b_.literal(closing, after, "\"");
  colon(after, before);
  b_.call(before, b_.end(rule), value);
  const bool any_key = names[0].next.empty() && !names[0].is_name;
  const int32_t first = any_key ? free : b_.add_state();
  b_.literal(b_.start(rule), first, "\"");
  if (any_key) return rule;
  std::vector<std::pair<size_t, int32_t>> work{{0, first}};
  while (!work.empty()) {
    const auto [branch, state] = work.back();
    work.pop_back();
    CodeSet others = json_plain();
    for (const auto& [code, next] : names[branch].next) {
      if (!json_plain().contains(code)) continue;
      others = others.without(CodeSet::one(code));
      const int32_t target = b_.add_state();
      json_.set(state, target, CodeSet::one(code));
      work.emplace_back(next, target);
    }
    json_.set(state, free, others);
    if (!names[branch].is_name) b_.empty(state, closing);
  }
  return rule;
}

Result<SchemaCompiler::ObjectPlan> SchemaCompiler::plan_object(const FlatSchema& flat) {
  ObjectPlan plan;
  for (const FlatProperty& property : flat.properties) {
    const bool never = std::ranges::any_of(
        property.schemas, [](const SchemaRef& s) { return s.node->is_boolean() && !s.node->get<bool>(); });
    const bool required = flat.is_required(property.name);
    if (never && required) {
      return schema_error(Status::invalid_argument, flat.pointer,
                          "property \"" + property.name + "\" is required and not allowed");
    }
    if (never) continue;
    QUERN_TRY(const int32_t pair, pair_rule(property.name, property.schemas));
    plan.members.push_back({pair, required});
  }
  const bool closed = std::ranges::any_of(
      flat.additional, [](const SchemaRef& s) { return s.node->is_boolean() && !s.node->get<bool>(); });
  if (flat.open() && !closed) {
    QUERN_TRY(plan.other, other_pair_rule(flat));
  }
  return plan;
}

Result<void> SchemaCompiler::build_object(int32_t from, int32_t to, const FlatSchema& given) {
  FlatSchema flat = given;
  for (const std::string& name : flat.required) {  // required, but described only as an unlisted one
    if (flat.property_index.try_emplace(name, flat.properties.size()).second)
      flat.properties.push_back({name, flat.additional});
  }
  QUERN_TRY(const ObjectPlan plan, plan_object(flat));
  const size_t n = plan.members.size();
  if (flat.min_properties > n + (plan.other >= 0 ? 1 : 0)) {
    return schema_error(
        plan.other >= 0 ? Status::unsupported : Status::invalid_argument, flat.pointer,
        "minProperties: only listed properties and one more can be counted, since a text may give a key twice");
  }
  // How many there are so far: exactly up to a bound, or "at least so many" where there is none above.
  const bool bounded = flat.max_properties != kUnbounded && (plan.other >= 0 || flat.max_properties < n);
  const size_t cap = bounded ? flat.max_properties : std::max<size_t>(1, flat.min_properties);
  if ((n + 2) * (cap + 1) > kMaxObjectStates) {
    return schema_error(Status::limit_exceeded, flat.pointer, "minProperties or maxProperties is too large");
  }
  const auto row = [&] {
    std::vector<int32_t> states(cap + 1);
    for (int32_t& state : states) state = b_.add_state();
    return states;
  };
  const int32_t close = b_.add_state();
  b_.literal(close, to, "}");
  std::vector<int32_t> now = row();
  b_.literal(from, now[0], "{");
  const auto add = [&](const std::vector<int32_t>& sources, const std::vector<int32_t>& targets, int32_t pair,
                       size_t least) {
    for (size_t c = 0; c <= cap; ++c) {
      if ((bounded && c == cap) || c + 1 < least) continue;
      const int32_t before = b_.add_state();
      if (c == 0)
        gap(sources[c], before);
      else
        comma(sources[c], before);
      b_.call(before, targets[std::min(c + 1, cap)], pair);
    }
  };
  const auto end = [&](const std::vector<int32_t>& states, size_t least) {
    for (size_t c = 0; c <= cap; ++c) {
      if (c < least) continue;
      if (c == 0)
        b_.empty(states[c], close);
      else
        gap(states[c], close);
    }
  };
  for (const ObjectPlan::Member& member : plan.members) {
    const std::vector<int32_t> next = row();
    for (size_t c = 0; c <= cap && !member.required; ++c) b_.empty(now[c], next[c]);
    add(now, next, member.pair, 0);
    now = next;
  }
  end(now, flat.min_properties);
  if (plan.other < 0) return {};
  const std::vector<int32_t> others = row();
  add(now, others, plan.other, flat.min_properties);
  add(others, others, plan.other, 2);
  end(others, 1);
  return {};
}

}  // namespace quern::grammar
