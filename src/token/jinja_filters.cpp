// Filters on text, numbers and single values, and the look-up of filters by name.
#include "token/jinja_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quern::token::jinja {

Native find_filter(std::string_view name) {
  for (const auto rows : {text_filters(), sequence_filters()}) {
    for (const auto& row : rows) {
      if (row.name == name) return row.call;
    }
  }
  return nullptr;
}

bool is_known_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

namespace {

template <Result<Value> (*function)(Heap&, const Value&)>
Result<Value> text_map(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY_VOID(bind("a filter", args, {}).ok() ? Result<void>()
                                                 : Result<void>(type_error("this filter takes no arguments")));
  QUERN_TRY(const Value text, soft_string(interp.heap(), self));
  return function(interp.heap(), text);
}
Result<Value> upper(Heap& heap, const Value& text) {
  return change_case(heap, text, CaseMap::upper);
}
Result<Value> lower(Heap& heap, const Value& text) {
  return change_case(heap, text, CaseMap::lower);
}

Result<Value> filter_trim(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("trim", args, {"chars"}));
  QUERN_TRY(const Value text, soft_string(interp.heap(), self));
  return strip(interp.heap(), text, params.values[0], {});
}

Result<Value> filter_replace(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("replace", args, {"old", "new", "count"}, 2));
  QUERN_TRY(const Value text, to_str(heap, self));
  QUERN_TRY(const Value from, to_str(heap, params.values[0]));
  QUERN_TRY(const Value to, to_str(heap, params.values[1]));
  QUERN_TRY(const int64_t limit, integer_param(params, 2, -1, "count"));
  return replace(heap, text, from, to, limit);
}

Result<Value> filter_escape(Interp& interp, const Value& self, const Args&) {
  return escape_html(interp.heap(), self);
}

Result<Value> filter_forceescape(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const Value text, to_str(interp.heap(), self));
  return escape_html(interp.heap(), text);
}

Result<Value> filter_safe(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const Value text, to_str(interp.heap(), self));
  StringBuilder out(interp.heap());
  out.append(text.str());
  QUERN_TRY(const Value result, out.value());
  result.as<StringObj>().markup = true;
  return result;
}

Result<Value> filter_string(Interp& interp, const Value& self, const Args&) {
  return soft_string(interp.heap(), self);
}

// Tags and comments go, white space collapses, the five entities of escape() are read back.
Result<Value> filter_striptags(Interp& interp, const Value& self, const Args&) {
  Heap& heap = interp.heap();
  QUERN_TRY(Value text, to_str(heap, self));
  const std::pair<const char*, const char*> kMarks[] = {{"<!--", "-->"}, {"<", ">"}};
  for (const auto& [open, close] : kMarks) {
    const StringObj& string = text.str();
    StringBuilder out(heap);
    size_t pos = 0;
    for (;;) {
      const size_t begin = find_bytes(string.bytes, open, pos);
      const size_t end = begin == std::string_view::npos ? begin : find_bytes(string.bytes, close, begin);
      if (end == std::string_view::npos) break;
      out.append(string, pos, begin);
      pos = end + std::string_view(close).size();
    }
    out.append(string, pos, string.bytes.size());
    QUERN_TRY(text, out.value());
  }
  QUERN_TRY(const Value words, split(heap, text, Value(), -1, false));
  StringBuilder joined(heap);
  for (const auto& word : words.items()) {
    if (joined.size() > 0) joined.append(" ");
    joined.append(word.str());
  }
  QUERN_TRY(text, joined.value());
  const std::pair<const char*, const char*> kEntities[] = {{"&lt;", "<"},   {"&gt;", ">"},    {"&#39;", "'"},
                                                           {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}};
  for (const auto& [entity, plain] : kEntities) {
    QUERN_TRY(text, replace(heap, text, heap.literal(entity), heap.literal(plain), -1));
  }
  return text;
}

Result<Value> filter_indent(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("indent", args, {"width", "first", "blank"}));
  if (self.is(Kind::undefined)) return type_error(undefined_message(self));
  if (!self.is(Kind::string)) return type_error(std::string("indent needs a string, not ") + type_name(self));
  Value unit = params.values[0];
  if (!unit.is(Kind::string)) {
    QUERN_TRY(const int64_t width, integer_param(params, 0, 4, "width"));
    StringBuilder spaces(heap);
    spaces.fill(" ", width > 0 ? static_cast<uint64_t>(width) : 0);
    QUERN_TRY(unit, spaces.value());
  }
  const bool indent_blank = truthy(params.values[2]);
  StringBuilder with_newline(heap);
  with_newline.append(self.str());
  with_newline.append("\n");
  QUERN_TRY(const Value text, with_newline.value());
  QUERN_TRY(const auto lines, split_lines(heap, text, false));
  StringBuilder out(heap);
  if (truthy(params.values[1])) out.append(unit.str());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (out.full()) return limit_error();
    if (i > 0) out.append("\n");
    if (i > 0 && (indent_blank || !lines[i].text().empty())) out.append(unit.str());
    out.append(lines[i].str());
  }
  return out.value();
}

Result<Value> filter_center(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("center", args, {"width"}));
  QUERN_TRY(const int64_t width, integer_param(params, 0, 80, "width"));
  QUERN_TRY(const Value text, soft_string(interp.heap(), self));
  return pad(interp.heap(), text, width, " ", 1);
}

Result<Value> filter_truncate(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("truncate", args, {"length", "killwords", "end", "leeway"}));
  QUERN_TRY(const int64_t length, integer_param(params, 0, 255, "length"));
  QUERN_TRY(const int64_t leeway, integer_param(params, 3, 5, "leeway"));
  const Value end = params.given[2] ? params.values[2] : heap.literal("...");
  if (!end.is(Kind::string)) return type_error("the end of truncate must be a string");
  const auto end_length = static_cast<int64_t>(end.str().n_chars);
  if (length < end_length || leeway < 0) return type_error("truncate: the length is smaller than the end's");
  QUERN_TRY(const int64_t n, length_of(self));
  if (n <= length || n - length <= leeway) return self;
  if (!self.is(Kind::string)) return type_error("truncate needs a string");
  size_t cut = char_position(self.text(), static_cast<size_t>(length - end_length));
  if (!truthy(params.values[1])) {
    const size_t space = self.text().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  StringBuilder out(heap);
  out.append(self.str(), 0, cut);
  out.append(end.str());
  return out.value();
}

Result<Value> filter_wordcount(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const Value value, soft_string(interp.heap(), self));
  const std::string_view text = value.text();
  int64_t n = 0;
  bool inside = false;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const bool word = is_word(decode_at(text, pos, &length));
    n += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::of(n);
}

Result<void> append_quoted(StringBuilder& out, const Value& value, bool in_query) {
  QUERN_TRY(const Value text, to_str(out.heap(), value));
  static constexpr char kHex[] = "0123456789ABCDEF";
  ContentCursor content(text.str());
  for (size_t pos = 0; pos < text.text().size(); ++pos) {
    const char c = text.text()[pos];
    const auto byte = static_cast<unsigned char>(c);
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !in_query);
    const char escaped[] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    if (safe) {
      out.append({&c, 1}, content.at(pos));
    } else if (in_query && c == ' ') {
      out.append("+", content.at(pos));
    } else {
      out.append({escaped, 3}, content.at(pos));
    }
  }
  return {};
}

Result<Value> filter_urlencode(Interp& interp, const Value& self, const Args&) {
  StringBuilder out(interp.heap());
  if (self.is(Kind::string) || !Iterator::over(self).ok()) {
    QUERN_TRY_VOID(append_quoted(out, self, false));
    return out.value();
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (self.is(Kind::dict)) {
    for (const auto& entry : self.dict().entries) pairs.emplace_back(entry.key, entry.value);
  } else {
    QUERN_TRY(const auto items, to_vector(interp.heap(), self));
    for (const auto& item : items) {
      QUERN_TRY(const auto pair, to_vector(interp.heap(), item));
      if (pair.size() != 2) return type_error("urlencode needs pairs");
      pairs.emplace_back(pair[0], pair[1]);
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) out.append("&");
    QUERN_TRY_VOID(append_quoted(out, pairs[i].first, true));
    out.append("=");
    QUERN_TRY_VOID(append_quoted(out, pairs[i].second, true));
  }
  return out.value();
}

Result<Value> filter_format(Interp& interp, const Value& self, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return type_error("format takes positional or keyword arguments, not both");
  }
  QUERN_TRY(const Value text, soft_string(interp.heap(), self));
  if (args.named.empty()) return format_percent(interp, text, interp.heap().list(args.positional, Kind::tuple));
  auto* dict = interp.heap().make<DictObj>();
  for (const auto& [name, value] : args.named) {
    QUERN_TRY_VOID(dict_set(interp.heap(), *dict, interp.heap().literal(name), value));
  }
  return format_percent(interp, text, {Kind::dict, dict});
}

Result<Value> filter_tojson(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii = truthy(params.values[0]);
  style.sort_keys = truthy(params.values[3]);
  if (params.has(1)) {
    style.has_indent = true;
    if (params.values[1].is(Kind::string)) {
      style.indent = std::string(params.values[1].text());
    } else {
      QUERN_TRY(const int64_t width, integer_of(params.values[1], "indent"));
      if (width > 1000) return limit_error();
      style.indent.assign(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
  }
  if (params.has(2)) {
    QUERN_TRY(const auto separators, to_vector(interp.heap(), params.values[2]));
    if (separators.size() != 2 || !separators[0].is(Kind::string) || !separators[1].is(Kind::string)) {
      return type_error("tojson: separators must be two strings");
    }
    style.item_separator = separators[0];
    style.key_separator = separators[1];
  }
  StringBuilder out(interp.heap());
  QUERN_TRY_VOID(append_json(out, self, style));
  return out.value();
}

Result<Value> filter_default(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("default", args, {"default_value", "boolean"}));
  const bool replaced = self.is(Kind::undefined) || (truthy(params.values[1]) && !truthy(self));
  if (!replaced) return self;
  return params.given[0] ? params.values[0] : interp.heap().literal("");
}

Result<Value> filter_abs(Interp&, const Value& self, const Args&) {
  if (self.is(Kind::undefined)) return type_error(undefined_message(self));
  if (self.is(Kind::floating)) return Value::of(std::fabs(self.floating));
  QUERN_TRY(const int64_t value, integer_of(self, "abs"));
  if (value == INT64_MIN) return Error{Status::limit_exceeded, "an integer does not fit 64 bits"};
  return Value::of(value < 0 ? -value : value);
}

// Python's float() of a string; nullopt where it is none.
std::optional<double> parse_float(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
                         std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (text[i] != '_' || !between) digits.push_back(text[i]);
  }
  const char* first = digits.data();
  const char* last = first + digits.size();
  if (first < last && *first == '+' && first + 1 < last && first[1] != '-') ++first;
  double value = 0;
  const auto parsed = std::from_chars(first, last, value);
  if (parsed.ptr != last || first == last) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) {
    const bool tiny = digits.find("e-") != std::string::npos || digits.find("E-") != std::string::npos;
    value = tiny ? 0.0 : HUGE_VAL;
    return digits[0] == '-' ? -value : value;
  }
  return parsed.ec == std::errc() ? std::optional<double>(value) : std::nullopt;
}

// Python's int() of a string.
Result<std::optional<int64_t>> parse_integer(std::string_view text, int64_t base) {
  using Found = std::optional<int64_t>;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const char mark = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 32) : '\0';
  const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    base = marked;
    text.remove_prefix(2);
  } else if (base == 0) {
    base = 10;
  }
  if (base < 2 || base > 36) return type_error("int() base must be >= 2 and <= 36, or 0");
  std::string digits = negative ? "-" : "";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_') continue;
    digits.push_back(text[i]);
  }
  if (digits.empty() || digits.find_first_of("-+", negative ? 1 : 0) != std::string::npos) return Found();
  int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (parsed.ptr != digits.data() + digits.size()) return Found();
  if (parsed.ec == std::errc::result_out_of_range) {
    return Error{Status::limit_exceeded, "an integer does not fit 64 bits"};
  }
  return parsed.ec == std::errc() ? Found(value) : Found();
}

Result<Value> float_to_integer(double value, const Value& fallback) {
  if (std::isnan(value) || std::isinf(value)) return fallback;
  if (!(std::fabs(value) < 9.2e18)) return Error{Status::limit_exceeded, "an integer does not fit 64 bits"};
  return Value::of(static_cast<int64_t>(value));
}

Result<Value> filter_int(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("int", args, {"default", "base"}));
  QUERN_TRY(const int64_t base, integer_param(params, 1, 10, "base"));
  const Value fallback = params.given[0] ? params.values[0] : Value::of(int64_t{0});
  if (self.is(Kind::undefined)) return type_error(undefined_message(self));
  if (self.is(Kind::integer)) return self;
  if (self.is(Kind::boolean)) return Value::of(int64_t{self.boolean ? 1 : 0});
  if (self.is(Kind::floating)) {
    if (std::isinf(self.floating)) return type_error("cannot convert float infinity to integer");
    return float_to_integer(self.floating, fallback);
  }
  if (!self.is(Kind::string)) return fallback;
  QUERN_TRY(const Value text, strip(interp.heap(), self, Value(), {}));
  QUERN_TRY(const auto integer, parse_integer(text.text(), base));
  if (integer) return Value::of(*integer);
  const auto number = parse_float(text.text());
  return number ? float_to_integer(*number, fallback) : Result<Value>(fallback);
}

Result<Value> filter_float(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("float", args, {"default"}));
  const Value fallback = params.given[0] ? params.values[0] : Value::of(0.0);
  if (self.is(Kind::undefined)) return type_error(undefined_message(self));
  if (self.is(Kind::floating)) return self;
  if (self.is_number()) return Value::of(static_cast<double>(self.is(Kind::boolean) ? self.boolean : self.integer));
  if (!self.is(Kind::string)) return fallback;
  QUERN_TRY(const Value text, strip(interp.heap(), self, Value(), {}));
  const auto number = parse_float(text.text());
  return number ? Value::of(*number) : fallback;
}

// Rounds the decimal expansion, half to even, as Python's round() does.
double round_decimal(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 320) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(std::min<int64_t>(-precision, 400)));
    return std::isinf(scale) ? std::copysign(0.0, value) : std::nearbyint(value / scale) * scale;
  }
  char buffer[800];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, static_cast<int>(precision));
  double rounded = value;
  std::from_chars(buffer, end.ptr, rounded);
  return rounded;
}

Result<Value> filter_round(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("round", args, {"precision", "method"}));
  QUERN_TRY(const int64_t precision, integer_param(params, 0, 0, "precision"));
  const std::string_view method =
      params.has(1) && params.values[1].is(Kind::string) ? params.values[1].text() : "common";
  if (self.is(Kind::undefined)) return type_error(undefined_message(self));
  if (!self.is_number()) return type_error(std::string("type ") + type_name(self) + " cannot be rounded");
  if (method == "common") {
    if (self.is(Kind::floating)) return Value::of(round_decimal(self.floating, precision));
    QUERN_TRY(const int64_t integer, integer_of(self, "round"));
    if (precision >= 0) return Value::of(integer);
    return Value::of(static_cast<int64_t>(round_decimal(static_cast<double>(integer), precision)));
  }
  if (method != "ceil" && method != "floor") return type_error("method must be common, ceil or floor");
  if (precision < -300 || precision > 300) return type_error("round: precision out of range");
  const Value scale = Value::of(std::pow(10.0, static_cast<double>(precision)));
  QUERN_TRY(const Value scaled, interp.binary(BinaryOp::multiply, self, scale));
  const double whole = method == "ceil" ? std::ceil(scaled.floating) : std::floor(scaled.floating);
  return Value::of(whole / scale.floating);
}

Result<Value> filter_attr(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("attr", args, {"name"}, 1));
  if (!params.values[0].is(Kind::string)) return type_error("attr needs a name");
  if (!self.is(Kind::dict)) return interp.attribute(self, params.values[0].text());
  const Native native = find_method(Kind::dict, params.values[0].text());
  if (native != nullptr) return interp.heap().function(params.values[0].text(), native, self);
  return interp.heap().undefined("'dict object' has no attribute '" + std::string(params.values[0].text()) + "'");
}

Result<Value> filter_unsupported(Interp&, const Value&, const Args&) {
  return Error{Status::unsupported,
               "the template uses a filter that is not supported (random, pprint, urlize, "
               "wordwrap, xmlattr or filesizeformat)"};
}

constexpr FilterRow kRows[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"capitalize", text_map<capitalize>},
    {"center", filter_center},
    {"d", filter_default},
    {"default", filter_default},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"filesizeformat", filter_unsupported},
    {"float", filter_float},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"lower", text_map<lower>},
    {"pprint", filter_unsupported},
    {"random", filter_unsupported},
    {"replace", filter_replace},
    {"round", filter_round},
    {"safe", filter_safe},
    {"string", filter_string},
    {"striptags", filter_striptags},
    {"title", text_map<title_words>},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", text_map<upper>},
    {"urlencode", filter_urlencode},
    {"urlize", filter_unsupported},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_unsupported},
    {"xmlattr", filter_unsupported},
};

}  // namespace

std::span<const FilterRow> text_filters() {
  return kRows;
}

}  // namespace quern::token::jinja
