// The heap, and the operations that look inside values: truth, length, equality, order, hashes, walking.
#include "token/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "token/jinja_ops.h"

namespace quern::token::jinja {

Heap::~Heap() {
  while (objects_ != nullptr) {
    Object* next = objects_->next;
    delete objects_;
    objects_ = next;
  }
}

Value Heap::string(std::string text, std::vector<TextSpan> content) {
  auto* object = make<StringObj>();
  object->storage = std::move(text);
  object->bytes = object->storage;
  object->content = std::move(content);
  object->n_chars = count_chars(object->bytes);
  spend(object->bytes.size() / 16, object->bytes.size() + object->content.size() * sizeof(TextSpan));
  return {Kind::string, object};
}

Value Heap::literal(std::string_view text) {
  auto* object = make<StringObj>();
  object->bytes = text;
  object->n_chars = count_chars(text);
  spend(text.size() / 16, 0);
  return {Kind::string, object};
}

Value Heap::substring(const Value& whole, size_t begin, size_t end) {
  const StringObj& source = whole.str();
  if (begin == 0 && end == source.bytes.size()) return whole;
  auto* object = make<StringObj>();
  object->bytes = source.bytes.substr(begin, end - begin);
  object->markup = source.markup;
  object->n_chars = source.ascii() ? object->bytes.size() : count_chars(object->bytes);
  spend(object->bytes.size() / 16, 0);
  auto span = std::lower_bound(source.content.begin(), source.content.end(), begin,
                               [](const TextSpan& s, size_t pos) { return s.end <= pos; });
  for (; span != source.content.end() && span->begin < end; ++span) {
    add_span(object->content, std::max(span->begin, begin) - begin, std::min(span->end, end) - begin);
  }
  spend(object->content.size() / 4, object->content.size() * sizeof(TextSpan));
  return {Kind::string, object};
}

Value Heap::list(std::vector<Value> items, Kind kind) {
  auto* object = make<ListObj>();
  object->items = std::move(items);
  spend(object->items.size(), object->items.size() * sizeof(Value));
  return {kind, object};
}

Value Heap::generator(std::vector<Value> items) {
  auto* object = make<GeneratorObj>();
  object->items = std::move(items);
  spend(object->items.size(), object->items.size() * sizeof(Value));
  return {Kind::generator, object};
}

Value Heap::function(std::string_view name, Native call, const Value& self) {
  auto* object = make<FunctionObj>();
  object->name = name;
  object->call = call;
  object->self = self;
  return {Kind::function, object};
}

Value Heap::undefined(std::string hint) {
  auto* object = make<UndefinedObj>();
  object->hint = std::move(hint);
  return {Kind::undefined, object};
}

Error type_error(const std::string& what) {
  return Error{Status::invalid_argument, what};
}
Error limit_error() {
  return Error{Status::limit_exceeded, "the chat template did more work than its limit (fuel or memory)"};
}

const char* type_name(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::floating:
      return "float";
    case Kind::string:
      return value.str().markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::generator:
      return "generator";
    case Kind::name_space:
      return "Namespace";
    case Kind::macro:
      return "Macro";
    case Kind::function:
      return "builtin_function_or_method";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
    case Kind::view:
      break;
  }
  const auto part = value.as<ViewObj>().part;
  return part == ViewObj::Part::keys ? "dict_keys" : part == ViewObj::Part::values ? "dict_values" : "dict_items";
}

std::string undefined_message(const Value& value) {
  const auto& undefined = value.as<UndefinedObj>();
  if (!undefined.hint.empty()) return undefined.hint;
  if (undefined.owner[0] == '\0') return undefined.name + " is undefined";
  if (undefined.is_element) return std::string(undefined.owner) + " has no element " + undefined.name;
  return "'" + std::string(undefined.owner) + "' has no attribute " + undefined.name;
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::floating:
      return value.floating != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return !value.dict().entries.empty();
    case Kind::range:
      return value.as<RangeObj>().length > 0;
    case Kind::view:
      return !value.as<ViewObj>().dict->entries.empty();
    default:
      return true;
  }
}

Result<int64_t> length_of(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return int64_t{0};
    case Kind::string:
      return static_cast<int64_t>(value.str().n_chars);
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::range:
      return value.as<RangeObj>().length;
    case Kind::view:
      return static_cast<int64_t>(value.as<ViewObj>().dict->entries.size());
    default:
      return type_error(std::string("object of type '") + type_name(value) + "' has no len()");
  }
}

namespace {

int64_t as_integer(const Value& value) {
  return value.is(Kind::boolean) ? (value.boolean ? 1 : 0) : value.integer;
}

// Exact: converting the integer to double could round it onto the other number.
int compare_mixed(int64_t a, double b) {
  if (b >= 9223372036854775808.0) return -1;
  if (b < -9223372036854775808.0) return 1;
  const double whole = std::trunc(b);
  const auto integer = static_cast<int64_t>(whole);
  if (a != integer) return a < integer ? -1 : 1;
  return b > whole ? -1 : b < whole ? 1 : 0;
}

// Order of two numbers; neither is NaN.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::floating) && b.is(Kind::floating)) {
    return a.floating < b.floating ? -1 : a.floating > b.floating ? 1 : 0;
  }
  if (a.is(Kind::floating)) return -compare_mixed(as_integer(b), a.floating);
  if (b.is(Kind::floating)) return compare_mixed(as_integer(a), b.floating);
  const int64_t x = as_integer(a);
  const int64_t y = as_integer(b);
  return x < y ? -1 : x > y ? 1 : 0;
}

bool is_nan(const Value& value) {
  return value.is(Kind::floating) && std::isnan(value.floating);
}

Result<bool> equal_dicts(Heap& heap, const DictObj& a, const DictObj& b, int depth) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& entry : a.entries) {
    QUERN_TRY(const Value* other, dict_find(heap, b, entry.key));
    if (other == nullptr) return false;
    QUERN_TRY(const bool same, equal(heap, entry.value, *other, depth + 1));
    if (!same) return false;
  }
  return true;
}

bool equal_ranges(const RangeObj& a, const RangeObj& b) {
  if (a.length != b.length) return false;
  return a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step));
}

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 29);
}

}  // namespace

Result<bool> equal(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.spend(1, 0);
  if (depth > kMaxValueDepth || heap.exhausted()) return limit_error();
  if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      heap.spend(a.text().size() / 16, 0);
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple: {
      if (a.object == b.object) return true;
      if (a.items().size() != b.items().size()) return false;
      for (size_t i = 0; i < a.items().size(); ++i) {
        QUERN_TRY(const bool same, equal(heap, a.items()[i], b.items()[i], depth + 1));
        if (!same) return false;
      }
      return true;
    }
    case Kind::dict:
      return a.object == b.object ? Result<bool>(true) : equal_dicts(heap, a.dict(), b.dict(), depth);
    case Kind::range:
      return equal_ranges(a.as<RangeObj>(), b.as<RangeObj>());
    default:
      return a.object == b.object;
  }
}

Result<int> compare(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.spend(1, 0);
  if (depth > kMaxValueDepth || heap.exhausted()) return limit_error();
  if (a.is(Kind::undefined)) return type_error(undefined_message(a));
  if (b.is(Kind::undefined)) return type_error(undefined_message(b));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is(Kind::string) && b.is(Kind::string)) {
    heap.spend(std::min(a.text().size(), b.text().size()) / 16, 0);
    const int order = a.text().compare(b.text());  // byte order of UTF-8 is code point order
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_sequence() && a.kind == b.kind) {
    const size_t shared = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < shared; ++i) {
      QUERN_TRY(const bool same, equal(heap, a.items()[i], b.items()[i], depth + 1));
      if (!same) return compare(heap, a.items()[i], b.items()[i], depth + 1);
    }
    return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size() ? 1 : 0;
  }
  return type_error(std::string("values of type '") + type_name(a) + "' and '" + type_name(b) +
                    "' have no order between them");
}

Result<uint64_t> hash_of(Heap& heap, const Value& value, int depth) {
  heap.spend(1, 0);
  if (depth > kMaxValueDepth || heap.exhausted()) return limit_error();
  switch (value.kind) {
    case Kind::none:
      return uint64_t{0x6E6F6E65};
    case Kind::undefined:
      return uint64_t{0x756E6465};
    case Kind::boolean:
    case Kind::integer:
      return mix(static_cast<uint64_t>(as_integer(value)));
    case Kind::floating: {
      const double f = value.floating;
      if (f >= -9e18 && f <= 9e18 && std::trunc(f) == f) return mix(static_cast<uint64_t>(static_cast<int64_t>(f)));
      uint64_t bits = 0;
      std::memcpy(&bits, &f, sizeof bits);
      return mix(bits);
    }
    case Kind::string: {
      heap.spend(value.text().size() / 16, 0);
      uint64_t hash = 0xCBF29CE484222325ULL;
      for (const char c : value.text()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
      return mix(hash);
    }
    case Kind::tuple: {
      uint64_t hash = 0x7475706C65ULL;
      for (const auto& item : value.items()) {
        QUERN_TRY(const uint64_t part, hash_of(heap, item, depth + 1));
        hash = mix(hash * 31 + part);
      }
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      return type_error(std::string("unhashable type: '") + type_name(value) + "'");
    default:
      return mix(reinterpret_cast<uintptr_t>(value.object));
  }
}

namespace {

constexpr size_t kLinearEntries = 8;  // up to this many, looking at every entry is faster than a table

// The index of the entry with this hash for which `same` holds, or npos.
template <class Same>
size_t find_entry(const DictObj& dict, uint64_t hash, Same same) {
  if (dict.table.empty()) {
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (dict.entries[i].hash == hash && same(dict.entries[i])) return i;
    }
    return SIZE_MAX;
  }
  const size_t mask = dict.table.size() - 1;
  for (size_t slot = hash & mask; dict.table[slot] != 0; slot = (slot + 1) & mask) {
    const size_t i = dict.table[slot] - 1;
    if (dict.entries[i].hash == hash && same(dict.entries[i])) return i;
  }
  return SIZE_MAX;
}

void place(DictObj& dict, size_t index) {
  const size_t mask = dict.table.size() - 1;
  size_t slot = dict.entries[index].hash & mask;
  while (dict.table[slot] != 0) slot = (slot + 1) & mask;
  dict.table[slot] = static_cast<uint32_t>(index + 1);
}

void grow_table(Heap& heap, DictObj& dict) {
  const size_t n = dict.entries.size();
  if (n <= kLinearEntries) return;
  if (n * 2 <= dict.table.size()) return place(dict, n - 1);
  size_t slots = 32;
  while (slots < n * 4) slots *= 2;
  dict.table.assign(slots, 0);
  heap.spend(0, slots * sizeof(uint32_t));
  for (size_t i = 0; i < n; ++i) place(dict, i);
}

Result<size_t> find_index(Heap& heap, const DictObj& dict, const Value& key, uint64_t hash) {
  Error failure;
  bool failed = false;
  const size_t index = find_entry(dict, hash, [&](const DictObj::Entry& entry) {
    auto same = equal(heap, entry.key, key);
    if (!same.ok()) {
      failed = true;
      failure = same.error();
      return true;
    }
    return *same;
  });
  if (failed) return failure;
  return index;
}

}  // namespace

Result<const Value*> dict_find(Heap& heap, const DictObj& dict, const Value& key) {
  QUERN_TRY(const uint64_t hash, hash_of(heap, key));
  QUERN_TRY(const size_t index, find_index(heap, dict, key, hash));
  return index == SIZE_MAX ? nullptr : &dict.entries[index].value;
}

const Value* dict_find(const DictObj& dict, std::string_view key) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  const size_t index = find_entry(dict, mix(hash), [&](const DictObj::Entry& entry) {
    return entry.key.is(Kind::string) && entry.key.text() == key;
  });
  return index == SIZE_MAX ? nullptr : &dict.entries[index].value;
}

Result<void> dict_set(Heap& heap, DictObj& dict, const Value& key, const Value& value) {
  QUERN_TRY(const uint64_t hash, hash_of(heap, key));
  QUERN_TRY(const size_t index, find_index(heap, dict, key, hash));
  if (index != SIZE_MAX) {
    dict.entries[index].value = value;
    return {};
  }
  heap.spend(1, sizeof(DictObj::Entry));
  dict.entries.push_back({key, value, hash});
  grow_table(heap, dict);
  return {};
}

Result<Iterator> Iterator::over(const Value& value) {
  Iterator iterator;
  iterator.value_ = value;
  if (value.is(Kind::generator)) {
    iterator.length_ = -1;
    return iterator;
  }
  auto length = length_of(value);
  if (!length.ok()) return type_error(std::string("'") + type_name(value) + "' object is not iterable");
  iterator.length_ = *length;
  return iterator;
}

bool Iterator::next(Heap& heap, Value& item) {
  heap.spend(1, 0);
  if (value_.is(Kind::generator)) {
    auto& generator = value_.as<GeneratorObj>();
    if (generator.position >= generator.items.size()) return false;
    item = generator.items[generator.position++];
    return true;
  }
  if (value_.is(Kind::string)) {
    const std::string_view text = value_.text();
    if (position_ >= text.size()) return false;
    size_t size = 0;
    decode_at(text, position_, &size);
    item = heap.substring(value_, position_, position_ + size);
    position_ += size;
    if (item.object != value_.object) item.as<StringObj>().markup = false;  // characters are plain strings
    return true;
  }
  if (static_cast<int64_t>(position_) >= length_) return false;
  const size_t i = position_++;
  switch (value_.kind) {
    case Kind::list:
    case Kind::tuple:
      item = value_.items()[i];
      return true;
    case Kind::dict:
      item = value_.dict().entries[i].key;
      return true;
    case Kind::range:
      item = Value::of(value_.as<RangeObj>().at(static_cast<int64_t>(i)));
      return true;
    case Kind::view: {
      const auto& view = value_.as<ViewObj>();
      const auto& entry = view.dict->entries[i];
      if (view.part == ViewObj::Part::items) {
        item = heap.list({entry.key, entry.value}, Kind::tuple);
      } else {
        item = view.part == ViewObj::Part::keys ? entry.key : entry.value;
      }
      return true;
    }
    default:
      return false;
  }
}

Result<std::vector<Value>> to_vector(Heap& heap, const Value& value) {
  QUERN_TRY(Iterator iterator, Iterator::over(value));
  std::vector<Value> items;
  Value item;
  while (iterator.next(heap, item)) {
    if (heap.exhausted()) return limit_error();
    items.push_back(item);
  }
  return items;
}

Result<bool> contains(Heap& heap, const Value& container, const Value& item) {
  if (container.is(Kind::string)) {
    if (!item.is(Kind::string)) {
      return type_error(std::string("'in <string>' requires string as left operand, not ") + type_name(item));
    }
    heap.spend(container.text().size() / 16, 0);
    return container.text().find(item.text()) != std::string_view::npos;
  }
  const bool is_keys = container.is(Kind::view) && container.as<ViewObj>().part == ViewObj::Part::keys;
  if (container.is(Kind::dict) || is_keys) {
    QUERN_TRY(const Value* found, dict_find(heap, is_keys ? *container.as<ViewObj>().dict : container.dict(), item));
    return found != nullptr;
  }
  auto iterator = Iterator::over(container);
  if (!iterator.ok()) return type_error(std::string("argument of type '") + type_name(container) + "' is not iterable");
  Value candidate;
  while (iterator->next(heap, candidate)) {
    QUERN_TRY(const bool same, equal(heap, candidate, item));
    if (same) return true;
  }
  return false;
}

}  // namespace quern::token::jinja
