// Ranges and multiples of numbers, as automata over their decimal text.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/regex.h"

namespace quern::grammar {

// Digits of an exact decimal, without needless zeros: [-] whole [. fraction].
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
};
Decimal decimal_of(const nlohmann::ordered_json& number);
int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberLimits {
  std::optional<NumberBound> low, high;
  std::vector<Decimal> multiples;
  std::string pointer;                      // of the schema that said so
  void at_least(const NumberBound& bound);  // the stronger one stays
  void at_most(const NumberBound& bound);
  bool any() const { return low || high || !multiples.empty(); }
  bool contradictory() const;
};

// Texts of unlimited numbers.
extern const char* const kIntegerPattern;
extern const char* const kNumberPattern;
// Texts of numbers within limits. Errors: unsupported for multiples that are neither a whole number up to 10000 nor a
// power of a tenth.
Result<Dfa> number_dfa(const NumberLimits& limits, bool integer, DfaWork& work);

}  // namespace quern::grammar
