// Python's operations on values: truth, equality, order, hashing, walking, printing. None of them can see variables or
// call anything. Recursion into nested values is bounded by kMaxValueDepth.
#pragma once

#include <string>

#include "token/jinja_text.h"
#include "token/jinja_value.h"

namespace quern::token::jinja {

inline constexpr int kMaxValueDepth = 200;

// Builds a string out of pieces, keeping which of its bytes came from input. It stops growing when the heap's byte
// budget is used up, and value() then is an error.
class StringBuilder {
 public:
  explicit StringBuilder(Heap& heap) : heap_(heap) {}
  void append(std::string_view text, bool is_content = false);
  void append(const StringObj& piece) { append(piece, 0, piece.bytes.size()); }
  void append(const StringObj& piece, size_t begin, size_t end);  // bytes [begin, end) of piece
  void append_char(uint32_t c, bool is_content);
  void append_case(uint32_t c, CaseMap map, bool is_content);
  void fill(std::string_view unit, uint64_t count, bool is_content = false);
  Result<Value> value();
  size_t size() const { return text_.size(); }
  std::string_view text() const { return text_; }
  bool full() const { return full_; }
  Heap& heap() const { return heap_; }

  // For the output of a render: the pieces themselves.
  std::string take_text() { return std::move(text_); }
  std::vector<TextSpan> take_content() { return std::move(content_); }

 private:
  bool reserve(uint64_t bytes);
  Heap& heap_;
  std::string text_;
  std::vector<TextSpan> content_;
  bool full_ = false;
};

// Is byte `pos` of the string from input? Queries must come in ascending order.
class ContentCursor {
 public:
  explicit ContentCursor(const StringObj& string) : spans_(string.content) {}
  bool at(size_t pos) {
    while (next_ < spans_.size() && spans_[next_].end <= pos) ++next_;
    return next_ < spans_.size() && spans_[next_].begin <= pos;
  }

 private:
  const std::vector<TextSpan>& spans_;
  size_t next_ = 0;
};

// Walks what a for loop can walk, holding no copy of it.
class Iterator {
 public:
  // Fails for what Python cannot iterate.
  static Result<Iterator> over(const Value& value);
  // False at the end.
  bool next(Heap& heap, Value& item);
  // Items in all, where Python's len() works; -1 for a generator.
  int64_t length() const { return length_; }

 private:
  Value value_;
  size_t position_ = 0;
  int64_t length_ = 0;
};

Error type_error(const std::string& what);
Error limit_error();
const char* type_name(const Value& value);          // Python's: "str", "NoneType"
std::string undefined_message(const Value& value);  // "'x' is undefined"

bool truthy(const Value& value);
Result<int64_t> length_of(const Value& value);
Result<bool> equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
// Negative, zero or positive; an error for what Python does not order.
Result<int> compare(Heap& heap, const Value& a, const Value& b, int depth = 0);
// a < b and its like; comparisons with NaN are false.
Result<bool> ordered(Heap& heap, CompareOp op, const Value& a, const Value& b);
Result<uint64_t> hash_of(Heap& heap, const Value& value, int depth = 0);
Result<bool> contains(Heap& heap, const Value& container, const Value& item);
Result<std::vector<Value>> to_vector(Heap& heap, const Value& value);

Result<const Value*> dict_find(Heap& heap, const DictObj& dict, const Value& key);  // null where absent
const Value* dict_find(const DictObj& dict, std::string_view key);
Result<void> dict_set(Heap& heap, DictObj& dict, const Value& key, const Value& value);

std::string float_text(double value);  // Python's repr
// str(value) and repr(value), appended.
Result<void> append_str(StringBuilder& out, const Value& value);
Result<void> append_repr(StringBuilder& out, const Value& value, bool ascii = false, int depth = 0);
// str(value): strings stay themselves, markup included only where `soft`.
Result<Value> to_str(Heap& heap, const Value& value);

struct JsonStyle {
  bool ascii = false;
  bool has_indent = false;
  std::string indent;
  Value item_separator, key_separator;  // strings, or none for the default
  bool sort_keys = false;
};
Result<void> append_json(StringBuilder& out, const Value& value, const JsonStyle& style, int depth = 0);

}  // namespace quern::token::jinja
