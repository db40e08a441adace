// The methods of str, list, tuple and dict (what the immutable sandbox lets a template call), cycler and the numbers.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "token/jinja_strings.h"

namespace quern::token::jinja {
namespace {

struct Row {
  std::string_view name;
  Native call;
};

Result<Value> expect_string(const Value& value, std::string_view what) {
  if (value.is(Kind::string)) return value;
  if (value.is(Kind::undefined)) return type_error(undefined_message(value));
  return type_error(std::string(what) + " must be str, not " + type_name(value));
}

template <CaseMap map>
Result<Value> str_case(Interp& interp, const Value& self, const Args&) {
  return change_case(interp.heap(), self, map);
}
template <Result<Value> (*function)(Heap&, const Value&)>
Result<Value> str_map(Interp& interp, const Value& self, const Args&) {
  return function(interp.heap(), self);
}

template <bool left, bool right>
Result<Value> str_strip(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("strip", args, {"chars"}));
  return strip(interp.heap(), self, params.values[0], {left, right});
}

template <bool from_right>
Result<Value> str_split(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("split", args, {"sep", "maxsplit"}));
  QUERN_TRY(const int64_t limit, integer_param(params, 1, -1, "maxsplit"));
  return split(interp.heap(), self, params.values[0], limit, from_right);
}

Result<Value> str_splitlines(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("splitlines", args, {"keepends"}));
  QUERN_TRY(auto lines, split_lines(interp.heap(), self, truthy(params.values[0])));
  return interp.heap().list(std::move(lines));
}

// The bytes of self between two optional character indices.
Result<TextSpan> byte_range(Heap& heap, const Value& self, const Params& params, size_t first) {
  const StringObj& string = self.str();
  const auto length = static_cast<int64_t>(string.n_chars);
  int64_t bounds[2] = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    if (!params.has(first + i)) continue;
    QUERN_TRY(bounds[i], integer_of(params.values[first + i], "an index"));
    if (bounds[i] < 0) bounds[i] = bounds[i] < -length ? 0 : bounds[i] + length;
  }
  if (bounds[0] > length || bounds[0] > bounds[1]) return TextSpan{SIZE_MAX, 0};  // nothing, not even ""
  bounds[1] = std::min(bounds[1], length);
  const auto begin = static_cast<size_t>(bounds[0]);
  const auto end = static_cast<size_t>(bounds[1]);
  if (string.ascii()) return TextSpan{begin, end};
  heap.spend(string.bytes.size() / 8, 0);
  return TextSpan{char_position(string.bytes, begin), char_position(string.bytes, end)};
}

// Character index of the first (last) occurrence, or -1.
Result<int64_t> find_index(Interp& interp, const Value& self, const Args& args, bool from_right) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("find", args, {"sub", "start", "end"}, 1));
  QUERN_TRY(const Value sub, expect_string(params.values[0], "the argument of find"));
  QUERN_TRY(const TextSpan range, byte_range(heap, self, params, 1));
  if (range.begin > range.end) return int64_t{-1};
  const std::string_view part = self.text().substr(range.begin, range.end - range.begin);
  heap.spend(part.size() / 16, 0);
  const size_t found = from_right ? rfind_bytes(heap, part, sub.text()) : find_bytes(part, sub.text());
  if (heap.exhausted()) return limit_error();
  if (found == std::string_view::npos) return int64_t{-1};
  const std::string_view before = self.text().substr(0, range.begin + found);
  return static_cast<int64_t>(self.str().ascii() ? before.size() : count_chars(before));
}

template <bool from_right, bool must>
Result<Value> str_find(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const int64_t index, find_index(interp, self, args, from_right));
  if (must && index < 0) return type_error("substring not found");
  return Value::of(index);
}

Result<Value> str_count(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("count", args, {"sub", "start", "end"}, 1));
  QUERN_TRY(const Value sub, expect_string(params.values[0], "the argument of count"));
  QUERN_TRY(const TextSpan range, byte_range(heap, self, params, 1));
  if (range.begin > range.end) return Value::of(int64_t{0});
  const std::string_view part = self.text().substr(range.begin, range.end - range.begin);
  if (sub.text().empty()) return Value::of(static_cast<int64_t>(count_chars(part)) + 1);
  int64_t n = 0;
  for (size_t at = find_bytes(part, sub.text()); at != std::string_view::npos; ++n) {
    heap.spend(1, 0);
    if (heap.exhausted()) return limit_error();
    at = find_bytes(part, sub.text(), at + sub.text().size());
  }
  return Value::of(n);
}

template <bool at_end>
Result<Value> str_startswith(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("startswith", args, {"prefix", "start", "end"}, 1));
  QUERN_TRY(const TextSpan range, byte_range(interp.heap(), self, params, 1));
  std::vector<Value> candidates = {params.values[0]};
  if (candidates[0].is(Kind::tuple)) candidates = std::vector<Value>(params.values[0].items());
  bool found = false;
  for (const auto& candidate : candidates) {
    QUERN_TRY(const Value affix, expect_string(candidate, "the first argument of startswith or endswith"));
    if (range.begin > range.end) continue;
    const std::string_view part = self.text().substr(range.begin, range.end - range.begin);
    found = found || (at_end ? part.ends_with(affix.text()) : part.starts_with(affix.text()));
  }
  return Value::of(found);
}

template <bool at_end>
Result<Value> str_remove_affix(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("removeprefix", args, {"affix"}, 1));
  QUERN_TRY(const Value affix, expect_string(params.values[0], "the argument of removeprefix or removesuffix"));
  const std::string_view text = self.text();
  const size_t n = affix.text().size();
  if (at_end && text.ends_with(affix.text())) return interp.heap().substring(self, 0, text.size() - n);
  if (!at_end && text.starts_with(affix.text())) return interp.heap().substring(self, n, text.size());
  return self;
}

Result<Value> str_replace(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("replace", args, {"old", "new", "count"}, 2));
  QUERN_TRY(const Value from, expect_string(params.values[0], "the first argument of replace"));
  QUERN_TRY(const Value to, expect_string(params.values[1], "the second argument of replace"));
  QUERN_TRY(const int64_t limit, integer_param(params, 2, -1, "count"));
  return replace(interp.heap(), self, from, to, limit);
}

Result<Value> str_join(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("join", args, {"iterable"}, 1));
  QUERN_TRY(const auto items, to_vector(interp.heap(), params.values[0]));
  StringBuilder out(interp.heap());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::string)) {
      return type_error("sequence item " + std::to_string(i) + ": expected str instance, " + type_name(items[i]) +
                        " found");
    }
    if (i > 0) out.append(self.str());
    out.append(items[i].str());
  }
  return out.value();
}

template <bool from_right>
Result<Value> str_partition(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("partition", args, {"sep"}, 1));
  QUERN_TRY(const Value mark, expect_string(params.values[0], "the argument of partition"));
  if (mark.text().empty()) return type_error("empty separator");
  const size_t found = from_right ? rfind_bytes(heap, self.text(), mark.text()) : find_bytes(self.text(), mark.text());
  const Value nothing = heap.literal("");
  if (found == std::string_view::npos) {
    return heap.list(
        from_right ? std::vector<Value>{nothing, nothing, self} : std::vector<Value>{self, nothing, nothing},
        Kind::tuple);
  }
  return heap.list(
      {heap.substring(self, 0, found), mark, heap.substring(self, found + mark.text().size(), self.text().size())},
      Kind::tuple);
}

template <int share>
Result<Value> str_pad(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("center", args, {"width", "fillchar"}, 1));
  QUERN_TRY(const int64_t width, integer_of(params.values[0], "width"));
  std::string_view unit = " ";
  if (params.has(1)) {
    if (!params.values[1].is(Kind::string) || params.values[1].str().n_chars != 1) {
      return type_error("the fill character must be exactly one character long");
    }
    unit = params.values[1].text();
  }
  return pad(interp.heap(), self, width, unit, share);
}

Result<Value> str_zfill(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("zfill", args, {"width"}, 1));
  QUERN_TRY(const int64_t width, integer_of(params.values[0], "width"));
  const auto length = static_cast<int64_t>(self.str().n_chars);
  if (width <= length) return self;
  const bool sign = !self.text().empty() && (self.text()[0] == '-' || self.text()[0] == '+');
  StringBuilder out(interp.heap());
  out.append(self.str(), 0, sign ? 1 : 0);
  out.fill("0", static_cast<uint64_t>(width - length));
  out.append(self.str(), sign ? 1 : 0, self.text().size());
  return out.value();
}

Result<Value> str_expandtabs(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("expandtabs", args, {"tabsize"}));
  QUERN_TRY(const int64_t tab, integer_param(params, 0, 8, "tabsize"));
  const StringObj& string = self.str();
  StringBuilder out(interp.heap());
  size_t column = 0;
  size_t length = 0;
  for (size_t pos = 0; pos < string.bytes.size() && !out.full(); pos += length) {
    const uint32_t c = decode_at(string.bytes, pos, &length);
    if (c == '\t') {
      const uint64_t n = tab > 0 ? static_cast<uint64_t>(tab) - column % static_cast<uint64_t>(tab) : 0;
      out.fill(" ", n);
      column += n;
    } else {
      out.append(string, pos, pos + length);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return out.value();
}

Result<Value> str_format(Interp& interp, const Value& self, const Args& args) {
  return format_braces(interp, self, args);
}

// Do all characters pass, and is there one?
template <bool (*passes)(uint32_t)>
Result<Value> str_all(Interp& interp, const Value& self, const Args&) {
  const std::string_view text = self.text();
  interp.heap().spend(text.size() / 16, 0);
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    if (!passes(decode_at(text, pos, &length))) return Value::of(false);
  }
  return Value::of(!text.empty());
}

bool is_alnum(uint32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

Result<Value> str_isascii(Interp&, const Value& self, const Args&) {
  return Value::of(self.str().ascii());
}
Result<Value> str_isprintable(Interp& interp, const Value& self, const Args& args) {
  if (self.text().empty()) return Value::of(true);
  return str_all<is_printable>(interp, self, args);
}

Result<Value> str_istitle(Interp&, const Value& self, const Args&) {
  const std::string_view text = self.text();
  bool inside = false;
  bool any = false;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const uint32_t c = decode_at(text, pos, &length);
    const bool begins = is_upper(c) || is_title(c);
    if ((begins && inside) || (is_lower(c) && !inside)) return Value::of(false);
    inside = is_cased(c);
    any = any || inside;
  }
  return Value::of(any);
}

Result<Value> str_isidentifier(Interp&, const Value& self, const Args&) {
  const std::string_view text = self.text();
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const uint32_t c = decode_at(text, pos, &length);
    if (!is_word(c) || (pos == 0 && is_numeric(c))) return Value::of(false);
  }
  return Value::of(!text.empty());
}

template <bool upper>
Result<Value> str_iscase(Interp&, const Value& self, const Args&) {
  const std::string_view text = self.text();
  bool any = false;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const uint32_t c = decode_at(text, pos, &length);
    if (!is_cased(c)) continue;
    if (upper ? !is_upper(c) : !is_lower(c)) return Value::of(false);
    any = true;
  }
  return Value::of(any);
}

constexpr Row kStringMethods[] = {
    {"capitalize", str_map<capitalize>},
    {"casefold", str_case<CaseMap::fold>},
    {"center", str_pad<1>},
    {"count", str_count},
    {"endswith", str_startswith<true>},
    {"expandtabs", str_expandtabs},
    {"find", str_find<false, false>},
    {"format", str_format},
    {"index", str_find<false, true>},
    {"isalnum", str_all<is_alnum>},
    {"isalpha", str_all<is_alpha>},
    {"isascii", str_isascii},
    {"isdecimal", str_all<is_decimal>},
    {"isdigit", str_all<is_digit>},
    {"isidentifier", str_isidentifier},
    {"islower", str_iscase<false>},
    {"isnumeric", str_all<is_numeric>},
    {"isprintable", str_isprintable},
    {"isspace", str_all<is_space>},
    {"istitle", str_istitle},
    {"isupper", str_iscase<true>},
    {"join", str_join},
    {"ljust", str_pad<0>},
    {"lower", str_case<CaseMap::lower>},
    {"lstrip", str_strip<true, false>},
    {"partition", str_partition<false>},
    {"removeprefix", str_remove_affix<false>},
    {"removesuffix", str_remove_affix<true>},
    {"replace", str_replace},
    {"rfind", str_find<true, false>},
    {"rindex", str_find<true, true>},
    {"rjust", str_pad<2>},
    {"rpartition", str_partition<true>},
    {"rsplit", str_split<true>},
    {"rstrip", str_strip<false, true>},
    {"split", str_split<false>},
    {"splitlines", str_splitlines},
    {"startswith", str_startswith<false>},
    {"strip", str_strip<true, true>},
    {"swapcase", str_map<swap_case>},
    {"title", str_map<title_letters>},
    {"upper", str_case<CaseMap::upper>},
    {"zfill", str_zfill},
};

Result<Value> list_index(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("index", args, {"value", "start", "stop"}, 1));
  const auto& items = self.items();
  const auto length = static_cast<int64_t>(items.size());
  int64_t bounds[2] = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    QUERN_TRY(bounds[i], integer_param(params, i + 1, bounds[i], "an index"));
    if (bounds[i] < 0) bounds[i] = bounds[i] < -length ? 0 : bounds[i] + length;
  }
  for (int64_t i = bounds[0]; i < std::min(bounds[1], length); ++i) {
    QUERN_TRY(const bool same, equal(interp.heap(), items[static_cast<size_t>(i)], params.values[0]));
    if (same) return Value::of(i);
  }
  return type_error("the value is not in the list");
}

Result<Value> list_count(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("count", args, {"value"}, 1));
  int64_t n = 0;
  for (const auto& item : self.items()) {
    QUERN_TRY(const bool same, equal(interp.heap(), item, params.values[0]));
    n += same ? 1 : 0;
  }
  return Value::of(n);
}

Result<Value> list_copy(Interp& interp, const Value& self, const Args&) {
  return interp.heap().list(self.items());
}

Result<Value> dict_get(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("get", args, {"key", "default"}, 1));
  QUERN_TRY(const Value* found, dict_find(interp.heap(), self.dict(), params.values[0]));
  return found != nullptr ? *found : params.values[1];
}

template <ViewObj::Part part>
Result<Value> dict_view(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("items", args, {}));
  static_cast<void>(params);
  auto* view = interp.heap().make<ViewObj>();
  view->part = part;
  view->dict = &self.dict();
  return Value(Kind::view, view);
}

Result<Value> dict_copy(Interp& interp, const Value& self, const Args&) {
  auto* copy = interp.heap().make<DictObj>();
  QUERN_TRY_VOID(interp.charge(self.dict().entries.size(), self.dict().entries.size() * sizeof(DictObj::Entry)));
  copy->entries = self.dict().entries;
  copy->table = self.dict().table;
  return Value(Kind::dict, copy);
}

Result<Value> cycler_next(Interp&, const Value& self, const Args&) {
  auto& cycler = self.as<CyclerObj>();
  const Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}
Result<Value> cycler_reset(Interp&, const Value& self, const Args&) {
  self.as<CyclerObj>().position = 0;
  return Value();
}

Result<Value> float_is_integer(Interp&, const Value& self, const Args&) {
  return Value::of(std::isfinite(self.floating) && std::floor(self.floating) == self.floating);
}

constexpr Row kListMethods[] = {{"copy", list_copy}, {"count", list_count}, {"index", list_index}};
constexpr Row kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr Row kDictMethods[] = {{"copy", dict_copy},
                                {"get", dict_get},
                                {"items", dict_view<ViewObj::Part::items>},
                                {"keys", dict_view<ViewObj::Part::keys>},
                                {"values", dict_view<ViewObj::Part::values>}};
constexpr Row kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr Row kFloatMethods[] = {{"is_integer", float_is_integer}};

template <size_t N>
Native look_up(const Row (&rows)[N], std::string_view name) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == name; });
  return row != std::end(rows) ? row->call : nullptr;
}

}  // namespace

Native find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::string:
      return look_up(kStringMethods, name);
    case Kind::list:
      return look_up(kListMethods, name);
    case Kind::tuple:
      return look_up(kTupleMethods, name);
    case Kind::dict:
      return look_up(kDictMethods, name);
    case Kind::cycler:
      return look_up(kCyclerMethods, name);
    case Kind::floating:
      return look_up(kFloatMethods, name);
    default:
      return nullptr;
  }
}

bool is_forbidden_method(Kind kind, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear",  "extend",  "insert",
                                               "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto has = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (kind == Kind::list && has(kList)) || (kind == Kind::dict && has(kDict));
}

}  // namespace quern::token::jinja
