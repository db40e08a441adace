// ECMA-262 regular expressions, as far as they are regular: a syntax tree, and deterministic automata over code points
// for what needs an intersection (several patterns at once, lengths, numbers in a range). How a network reads either is
// text_emit.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/code_set.h"

namespace quern::grammar {

struct RegexNode {
  enum class Kind : uint8_t { set, sequence, alternatives, repeat };
  Kind kind = Kind::sequence;
  CodeSet set;
  std::vector<int32_t> children;  // indices into Regex::nodes
  uint32_t min = 0, max = 0;      // repeat; max may be kUnbounded
};

// One of the ways to match: a tree, and whether any text may stand before and after what it matches.
struct RegexBranch {
  int32_t node = 0;
  bool open_left = true, open_right = true;
};

struct Regex {
  static constexpr size_t kMaxText = 65536, kMaxDepth = 100;
  std::vector<RegexNode> nodes;
  std::vector<RegexBranch> branches;
};

// With Unicode semantics: an escape of a letter or sign that means nothing is an error. Errors: invalid_argument with
// the place, unsupported for what is not regular (look-around, back references, word borders, \p).
Result<Regex> parse_regex(std::string_view pattern);

// Invariant: state 0 is the start; symbol i is the code points from cuts[i] to the next cut.
struct Dfa {
  std::vector<uint32_t> cuts{0};
  std::vector<int32_t> next;    // [states, cuts], -1: none
  std::vector<uint8_t> accept;  // [states]
  size_t size() const { return accept.size(); }
  CodeSet symbol(size_t i) const;
  int32_t step(int32_t state, uint32_t code) const;
  bool matches(std::string_view text) const;  // valid UTF-8
  bool empty() const { return accept.empty(); }
};

// What may be spent on building automata, in table entries and members of sets; shared by all of one grammar.
struct DfaWork {
  uint64_t left;
  bool spend(uint64_t n) {
    left = n > left ? 0 : left - n;
    return left > 0;
  }
};

// Errors: limit_exceeded where they become too large. What cannot lead to an end is cut away; empty() if nothing can.
Result<Dfa> dfa_of(const Regex& regex, DfaWork& work);
Result<Dfa> intersect(const Dfa& a, const Dfa& b, DfaWork& work);
Result<Dfa> with_length(const Dfa& dfa, uint32_t min, uint32_t max, DfaWork& work);
// Decimal integers, any number of '-' before them, whose value is a multiple of `divisor` (1 to 10000).
Dfa multiples_of(uint32_t divisor);
Dfa trimmed(Dfa dfa);
// The shortest and the longest text, in code points; longest may be kUnbounded. dfa is not empty.
struct LengthBounds {
  uint32_t shortest, longest;
};
LengthBounds length_bounds(const Dfa& dfa);

}  // namespace quern::grammar
