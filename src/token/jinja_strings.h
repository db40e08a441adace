// Python's string algorithms over string values, shared by methods and filters. Results keep which bytes are content.
#pragma once

#include "token/jinja_interp.h"

namespace quern::token::jinja {

// The byte position of `needle` in `text` at or behind `from`, or npos. Linear time.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from = 0);
size_t rfind_bytes(Heap& heap, std::string_view text, std::string_view needle);

// A string as the filters see it: a string stays itself, markup or not; anything else becomes str(value).
Result<Value> soft_string(Heap& heap, const Value& value);

// Markup of str(value) with & < > ' " replaced; markup stays as it is.
Result<Value> escape_html(Heap& heap, const Value& value);

struct StripSides {
  bool left = true, right = true;
};
// `chars`: a string of characters to take away, or none for white space.
Result<Value> strip(Heap& heap, const Value& string, const Value& chars, StripSides sides);
// `separator`: a string, or none for runs of white space; at most `limit` cuts, from the right where `from_right`.
Result<Value> split(Heap& heap, const Value& string, const Value& separator, int64_t limit, bool from_right);
Result<std::vector<Value>> split_lines(Heap& heap, const Value& string, bool keep_ends);
Result<Value> replace(Heap& heap, const Value& string, const Value& from, const Value& to, int64_t limit);
Result<Value> change_case(Heap& heap, const Value& string, CaseMap map);
Result<Value> capitalize(Heap& heap, const Value& string);
Result<Value> title_words(Heap& heap, const Value& string);    // the filter: words begin behind space or ( { [ < -
Result<Value> title_letters(Heap& heap, const Value& string);  // the method: words begin behind what is not a letter
Result<Value> swap_case(Heap& heap, const Value& string);
// Pads to `width` characters; `share` of the padding (in halves: 0, 1, 2) goes left.
Result<Value> pad(Heap& heap, const Value& string, int64_t width, std::string_view unit, int share);

Result<Value> format_percent(Interp& interp, const Value& format, const Value& arguments);  // format % arguments
Result<Value> format_braces(Interp& interp, const Value& format, const Args& args);         // format.format(...)

}  // namespace quern::token::jinja
