// Schemas taken apart: what a conjunction of schemas demands, keyword by keyword, with allOf and $ref followed and
// anyOf and oneOf spread out. From this schema_compile.h makes rules. Also plain validation of values, for enum.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grammar/network.h"
#include "grammar/regex.h"
#include "grammar/schema_document.h"
#include "grammar/schema_number.h"

namespace quern::grammar {

// Types as bits; "number" is two of them.
enum TypeBit : uint8_t {
  kNullBit = 1,
  kBooleanBit = 2,
  kObjectBit = 4,
  kArrayBit = 8,
  kStringBit = 16,
  kIntegerBit = 32,
  kFractionBit = 64,
  kNumberBits = kIntegerBit | kFractionBit,
  kAllTypes = 127
};

using Conjunction = std::vector<SchemaRef>;

struct FlatProperty {
  std::string name;
  Conjunction schemas;
};

// Branches of which one (oneOf: exactly one) must hold; owner is the chain of schemas that led here.
struct SchemaChain {
  const Json* node;
  std::shared_ptr<const SchemaChain> above;
};
struct FlatGroup {
  Conjunction branches;
  bool exactly_one = false;
  std::string pointer;
  std::shared_ptr<const SchemaChain> owner;
};

struct FlatPattern {
  std::shared_ptr<const Regex> regex;
  std::string pointer;
};

struct FlatSchema {
  std::string pointer;       // of the first schema
  Conjunction sources;       // all schemas that took part
  bool never = false;        // a `false` schema took part
  size_t n_constraints = 0;  // keywords, without groups
  uint8_t types = kAllTypes;
  std::optional<std::vector<Json>> values;  // of enum and const
  NumberLimits number;
  uint32_t min_length = 0, max_length = kUnbounded;
  std::vector<FlatPattern> patterns;  // of pattern and format
  std::vector<Conjunction> prefix;    // schemas of the first items
  Conjunction items;                  // of the others
  uint32_t min_items = 0, max_items = kUnbounded;
  std::vector<FlatProperty> properties;
  std::map<std::string, size_t> property_index;
  std::set<std::string> required;
  Conjunction additional;  // of properties that are not listed
  bool lists_properties = false, says_additional = false;
  uint32_t min_properties = 0, max_properties = kUnbounded;
  std::vector<FlatGroup> groups;

  // Whether properties that are not listed may come: where they are spoken of, or nothing is listed.
  bool open() const { return says_additional || !lists_properties; }
  bool is_required(const std::string& name) const { return required.contains(name); }
};

class SchemaFlattener {
 public:
  explicit SchemaFlattener(const SchemaDocument& document) : document_(document) {}

  // A schema that is nothing but a reference, followed.
  Result<SchemaRef> followed(SchemaRef schema) const;
  // All of them at once; groups are left as they are.
  Result<FlatSchema> flatten(const Conjunction& schemas);
  // The same with groups spread out: a value fits if it fits one of these. What contradicts itself is left out, but an
  // error if nobody chose it. Errors also where the branches of a oneOf may hold together.
  Result<std::vector<FlatSchema>> alternatives(const Conjunction& schemas);
  Result<std::vector<FlatSchema>> alternatives(FlatSchema flat);
  // JSON Schema's own meaning.
  Result<bool> validates(const Json& value, const SchemaRef& schema, int depth = 0);
  // All patterns at once; errors name the first. Work on automata has one budget for a whole schema.
  Result<Dfa> dfa_of_all(const std::vector<FlatPattern>& patterns);
  DfaWork& dfa_work() { return dfa_work_; }

 private:
  static constexpr size_t kMaxAlternatives = 1024, kMaxWork = 500000, kMaxDfaWork = 60000000;
  static constexpr int kMaxChain = 200, kMaxNested = 400;
  struct Nesting {  // counts calls of spread that are under way
    explicit Nesting(int& n) : count(n) { ++count; }
    ~Nesting() { --count; }
    int& count;
  };
  using Chain = std::shared_ptr<const SchemaChain>;

  Result<void> apply(FlatSchema& flat, const SchemaRef& schema, const Chain& above);
  Result<void> apply_keyword(FlatSchema& flat, const SchemaRef& schema, const std::string& keyword, const Chain& chain);
  Result<void> apply_array(FlatSchema& flat, const SchemaRef& schema);
  Result<void> apply_object(FlatSchema& flat, const SchemaRef& schema);
  Result<void> apply_values(FlatSchema& flat, const SchemaRef& at, bool single);
  Result<void> spread(FlatSchema flat, std::vector<FlatSchema>& out);
  // Drops types and values that other keywords rule out; says what contradicts.
  Result<void> settle(FlatSchema& flat, std::string& contradiction);
  Result<void> require_exclusive(const FlatGroup& group);
  Result<bool> exclude(const Conjunction& a, const Conjunction& b, int depth);
  Result<bool> exclude(const FlatSchema& a, const FlatSchema& b, uint8_t type, int depth);
  Result<bool> exclude_strings(const FlatSchema& a, const FlatSchema& b);
  Result<bool> validates_keyword(const Json& value, const SchemaRef& schema, const std::string& keyword, int depth);
  Result<bool> validates_object(const Json& value, const SchemaRef& schema, int depth);
  Result<const Dfa*> dfa_at(const SchemaRef& at, bool is_format);
  Result<void> spend(const std::string& pointer, size_t n = 1);

  const SchemaDocument& document_;
  size_t work_ = 0;
  DfaWork dfa_work_{kMaxDfaWork};
  std::set<const Json*> checked_;  // schemas whose keywords validates() has looked over
  int n_nested_ = 0;
  std::set<const Json*> exclusive_;  // oneOf groups that have been proved
  std::map<const Json*, Dfa> dfas_;
  std::map<const Json*, std::set<std::string>> enum_keys_;
};

// The regular expression of a format's name, or null.
const char* format_pattern(const std::string& name);
uint8_t type_of(const Json& value);

}  // namespace quern::grammar
