// The two halves of the filter table (text and numbers; sequences), and what they share.
#pragma once

#include <span>

#include "token/jinja_strings.h"

namespace quern::token::jinja {

struct FilterRow {
  std::string_view name;
  Native call;
};
std::span<const FilterRow> text_filters();
std::span<const FilterRow> sequence_filters();

// Looks up an attribute path such as "function.name" or "items.0", as filters with attribute= do.
class AttributePath {
 public:
  // `path`: a string, an integer, or none for the item itself.
  static Result<AttributePath> parse(Heap& heap, const Value& path);
  // `fallback`, where it is not none, stands in for what is undefined.
  Result<Value> get(Interp& interp, const Value& item, const Value& fallback = {}) const;

 private:
  std::vector<Value> parts_;
};

// The lower-case form of a string; anything else stays itself.
Result<Value> ignore_case(Heap& heap, const Value& value);

}  // namespace quern::token::jinja
