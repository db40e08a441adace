// From schemas to rules of a network: one rule for each conjunction of schemas that some value must satisfy.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/schema_flat.h"
#include "grammar/text_emit.h"

namespace quern::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(NetworkBuilder& builder, const SchemaDocument& document, const SchemaOptions& options);
  // The rule of a whole text, with everything it needs; only objects, where a caller wants that.
  Result<int32_t> compile(bool only_objects = false);
  // The same for objects whose members stand in tags.
  Result<int32_t> compile_tagged(const ArgumentTags& tags);

 private:
  static constexpr size_t kMaxRules = 50000, kMaxObjectStates = 200000;

  // The rule of values that satisfy all of them; built later, so that recursion is only a call.
  Result<int32_t> rule_of(const Conjunction& schemas);
  Result<void> build(int32_t rule, const Conjunction& schemas);
  Result<void> build_flat(int32_t from, int32_t to, const FlatSchema& flat);
  Result<void> build_string(int32_t from, int32_t to, const FlatSchema& flat);
  Result<void> build_number(int32_t from, int32_t to, const FlatSchema& flat);
  Result<void> build_array(int32_t from, int32_t to, const FlatSchema& flat);
  Result<void> build_object(int32_t from, int32_t to, const FlatSchema& flat);
  void build_values(int32_t from, int32_t to, const std::vector<Json>& values);
  std::string spelled(const Json& value) const;
  Result<void> build_pending();
  // Members in tags (schema_tags.cpp).
  Result<void> build_tagged(int32_t from, int32_t to, const FlatSchema& flat, const ArgumentTags& tags);
  Result<int32_t> tagged_rule(const FlatProperty& property, bool any_key, const ArgumentTags& tags);
  Result<void> tagged_text(int32_t from, int32_t to, const FlatProperty& property, const ArgumentTags& tags);
  void build_literals(int32_t from, int32_t to, std::vector<std::string> texts);

  struct ObjectPlan;
  Result<ObjectPlan> plan_object(const FlatSchema& flat);
  Result<int32_t> pair_rule(const std::string& name, const Conjunction& schemas);
  Result<int32_t> other_pair_rule(const FlatSchema& flat);

  void gap(int32_t from, int32_t to);     // after '{', '[', ',' and before '}', ']'
  void colon(int32_t from, int32_t to);   // with its space
  void comma(int32_t from, int32_t to) {  // with its gap
    const int32_t after = b_.add_state();
    b_.literal(from, after, ",");
    spaced_gap(after, to);
  }
  void spaced_gap(int32_t from, int32_t to);  // after ','

  NetworkBuilder& b_;
  const SchemaDocument& document_;
  SchemaFlattener flattener_;
  JsonSpace space_;
  Spelling spelling_;
  TextEmitter json_;
  int32_t json_char_, indent_;
  std::map<std::vector<const Json*>, int32_t> rules_;
  std::deque<std::pair<int32_t, Conjunction>> to_build_;
};

}  // namespace quern::grammar
