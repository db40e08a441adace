// The values a template computes with: Python's, as far as templates can see them. All objects live in the Heap of one
// render and die with it, so values are plain pairs that may form cycles, and strings may share bytes. Operations on
// them are in jinja_ops.h; this file only says what they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "token/jinja_ast.h"
#include "token/text_span.h"

namespace quern::token::jinja {

class Interp;
struct StringObj;
struct ListObj;
struct DictObj;

enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  floating,
  string,
  list,
  tuple,
  dict,
  range,
  view,
  generator,
  name_space,
  macro,
  function,
  loop,
  cycler,
  joiner,
};

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  Object* next = nullptr;  // all objects of a heap, newest first
};

// Sixteen bytes; copying copies the reference. Integers are 64-bit: arithmetic beyond that is an error, not a wrap.
struct Value {
  Kind kind = Kind::none;
  union {
    bool boolean;
    int64_t integer;
    double floating;
    Object* object;
  };
  Value() : object(nullptr) {}
  Value(Kind k, Object* o) : kind(k), object(o) {}
  static Value of(bool b) {
    Value value;
    value.kind = Kind::boolean;
    value.boolean = b;
    return value;
  }
  static Value of(int64_t i) {
    Value value;
    value.kind = Kind::integer;
    value.integer = i;
    return value;
  }
  static Value of(double f) {
    Value value;
    value.kind = Kind::floating;
    value.floating = f;
    return value;
  }
  bool is(Kind k) const { return kind == k; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
  bool is_number() const { return kind == Kind::boolean || kind == Kind::integer || kind == Kind::floating; }
  template <class T>
  T& as() const {
    return *static_cast<T*>(object);
  }
  const StringObj& str() const;
  std::string_view text() const;            // of a string
  const std::vector<Value>& items() const;  // of a list or tuple
  DictObj& dict() const;
};

struct UndefinedObj : Object {
  std::string hint;        // the whole message, or empty
  std::string name;        // as the message quotes it
  const char* owner = "";  // the type that lacks `name`; empty for a variable
  bool is_element = false;
};

// An immutable string. `bytes` is `storage` or a part of another string of the same heap.
struct StringObj : Object {
  std::string storage;
  std::string_view bytes;
  std::vector<TextSpan> content;  // which bytes came from input
  size_t n_chars = 0;
  bool markup = false;  // made by |safe or |escape: adding plain text to it escapes that text
  bool ascii() const { return n_chars == bytes.size(); }
};

struct ListObj : Object {  // list and tuple
  std::vector<Value> items;
  bool is_group = false;  // of groupby: .grouper and .list name its two items
};

// Keys in insertion order, found by hash (open addressing, linear probing).
struct DictObj : Object {
  struct Entry {
    Value key;
    Value value;
    uint64_t hash;
  };
  std::vector<Entry> entries;
  std::vector<uint32_t> table;  // entry index + 1, or 0; empty while there are few entries
};

struct RangeObj : Object {
  int64_t start = 0, stop = 0, step = 1, length = 0;
  int64_t at(int64_t i) const { return start + i * step; }
};

struct ViewObj : Object {  // dict.keys(), .values(), .items()
  enum class Part : uint8_t { keys, values, items } part = Part::keys;
  DictObj* dict = nullptr;
};

struct GeneratorObj : Object {  // what map, select, ... give: can be walked once
  std::vector<Value> items;
  size_t position = 0;
};

struct NamespaceObj : Object {
  DictObj* attributes = nullptr;
};

struct Scope : Object {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> variables;
  bool captured = false;  // a macro was defined in it or below it
};

struct MacroObj : Object {
  const Macro* macro = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

using Native = Result<Value> (*)(Interp&, const Value& self, const Args&);

struct FunctionObj : Object {
  std::string_view name;
  Native call = nullptr;
  Value self;
};

struct CyclerObj : Object {
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObj : Object {
  Value separator;
  bool used = false;
};

inline const StringObj& Value::str() const {
  return as<StringObj>();
}
inline std::string_view Value::text() const {
  return as<StringObj>().bytes;
}
inline const std::vector<Value>& Value::items() const {
  return as<ListObj>().items;
}
inline DictObj& Value::dict() const {
  return as<DictObj>();
}

// Owns every object of a render and counts what the render spends. Spending past a budget is noted here and turned into
// an error at the next check; whatever sizes an allocation by a number of the template's checks first (Interp::charge).
class Heap {
 public:
  Heap(uint64_t fuel, uint64_t bytes) : fuel_(fuel), bytes_(bytes) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  template <class T>
  T* make() {
    static_assert(std::is_base_of_v<Object, T>);
    auto* object = new T();
    object->next = objects_;
    objects_ = object;
    spend(1, sizeof(T));
    return object;
  }
  void spend(uint64_t fuel, uint64_t bytes) {
    fuel_ -= fuel < fuel_ ? fuel : fuel_;
    bytes_ -= bytes < bytes_ ? bytes : bytes_;
  }
  bool exhausted() const { return fuel_ == 0 || bytes_ == 0; }
  bool can_take(uint64_t bytes) const { return bytes < bytes_; }

  Value string(std::string text, std::vector<TextSpan> content = {});
  Value literal(std::string_view text);  // of bytes that outlive the heap
  // Bytes [begin, end) of `whole`, sharing them.
  Value substring(const Value& whole, size_t begin, size_t end);
  Value list(std::vector<Value> items, Kind kind = Kind::list);
  Value generator(std::vector<Value> items);
  Value function(std::string_view name, Native call, const Value& self = {});
  Value undefined(std::string hint);

 private:
  Object* objects_ = nullptr;
  uint64_t fuel_;   // units left
  uint64_t bytes_;  // bytes left
};

}  // namespace quern::token::jinja
