// printf-style formatting (`format % arguments`) and str.format, with Python's format specifications.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "token/jinja_strings.h"

namespace quern::token::jinja {
namespace {

constexpr int64_t kMaxPrecision = 4096;

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^, or 0 for the type's own
  char sign = '-';
  bool alternate = false;
  char group = 0;  // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

Error bad_format(const std::string& what) {
  return type_error("format: " + what);
}

// Digits at text[pos]; advances pos. Numbers too large to matter are cut off at a value that no budget allows.
int64_t read_number(std::string_view text, size_t& pos) {
  int64_t value = 0;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    value = std::min<int64_t>(value * 10 + (text[pos] - '0'), int64_t{1} << 40);
  }
  return value;
}

bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

Result<Spec> parse_spec(std::string_view text) {
  Spec spec;
  size_t pos = 0;
  size_t first = 0;
  if (!text.empty()) decode_at(text, 0, &first);
  if (first > 0 && first < text.size() && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    pos = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    pos = 1;
  }
  const auto at = [&](std::string_view set) {
    return pos < text.size() && set.find(text[pos]) != std::string_view::npos;
  };
  if (at("+- ")) spec.sign = text[pos++];
  if (at("#")) {
    spec.alternate = true;
    ++pos;
  }
  if (at("0")) {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++pos;
  }
  spec.width = read_number(text, pos);
  if (at(",_")) spec.group = text[pos++];
  if (at(".")) {
    const size_t digits = ++pos;
    spec.precision = read_number(text, pos);
    if (pos == digits) return bad_format("missing precision");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size()) return bad_format("invalid format specifier");
  if (spec.precision > kMaxPrecision) return bad_format("precision too big");
  return spec;
}

// Pads `body` (whose first n_prefix bytes are sign and base) to the width.
void append_padded(StringBuilder& out, const StringObj& body, size_t n_prefix, const Spec& spec, char default_align) {
  const auto length = static_cast<int64_t>(body.n_chars);
  const uint64_t padding = spec.width > length ? static_cast<uint64_t>(spec.width - length) : 0;
  const char align = spec.align != 0 ? spec.align : default_align;
  const uint64_t left = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  out.fill(spec.fill, left);
  out.append(body, 0, n_prefix);
  if (align == '=') out.fill(spec.fill, padding);
  out.append(body, n_prefix, body.bytes.size());
  if (align == '<' || align == '^') out.fill(spec.fill, padding - left);
}

void append_number(StringBuilder& out, const std::string& prefix, std::string digits, const Spec& spec) {
  if (spec.group != 0) {
    const size_t every = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
    const size_t whole = std::min({digits.find('.'), digits.find('e'), digits.find('%'), digits.size()});
    for (size_t i = whole; i > every;) digits.insert(i -= every, 1, spec.group);
  }
  const Value text = out.heap().string(prefix + digits);
  append_padded(out, text.str(), prefix.size(), spec, '>');
}

std::string sign_text(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

void upper_ascii(std::string& text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
}

Result<void> append_integer(StringBuilder& out, int64_t value, const Spec& spec) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
  std::string digits(buffer, end.ptr);
  std::string prefix = sign_text(value < 0, spec.sign);
  if (spec.alternate && base != 10) prefix += base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  if (spec.type == 'X') {
    upper_ascii(digits);
    upper_ascii(prefix);
  }
  append_number(out, prefix, digits, spec);
  return {};
}

std::string fixed_text(double magnitude, std::chars_format format, int64_t precision) {
  std::vector<char> buffer(static_cast<size_t>(precision) + 400);
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, format, static_cast<int>(precision));
  return std::string(buffer.data(), end.ptr);
}

Result<void> append_float(StringBuilder& out, double value, const Spec& spec) {
  const char lower = spec.type >= 'A' && spec.type <= 'Z' ? static_cast<char>(spec.type + 32) : spec.type;
  const double magnitude = std::fabs(value);
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  std::string digits;
  if (std::isnan(value) || std::isinf(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (lower == '%') digits += "%";
  } else if (lower == 'f') {
    digits = fixed_text(magnitude, std::chars_format::fixed, precision);
  } else if (lower == '%') {
    digits = fixed_text(magnitude * 100, std::chars_format::fixed, precision) + "%";
  } else if (lower == 'e') {
    digits = fixed_text(magnitude, std::chars_format::scientific, precision);
  } else if (lower == 0 && spec.precision < 0) {
    digits = float_text(magnitude);
  } else {
    digits = fixed_text(magnitude, std::chars_format::general, std::max<int64_t>(precision, 1));
    if (lower == 0 && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  }
  if (spec.type != lower) upper_ascii(digits);
  append_number(out, sign_text(std::signbit(value) && !std::isnan(value), spec.sign), digits, spec);
  return {};
}

Result<void> append_string(StringBuilder& out, const Value& string, const Spec& spec) {
  Value text = string;
  if (spec.precision >= 0) {
    text = out.heap().substring(string, 0, char_position(string.text(), static_cast<size_t>(spec.precision)));
  }
  append_padded(out, text.str(), 0, spec, '<');
  return {};
}

bool is_float_type(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos && type != 0;
}
bool is_integer_type(char type) {
  return type == 0 || std::string_view("bdoxXn").find(type) != std::string_view::npos;
}

Result<void> append_formatted(StringBuilder& out, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return append_str(out, value);
  QUERN_TRY(const Spec spec, parse_spec(spec_text));
  if (value.is(Kind::string)) {
    if (spec.type != 0 && spec.type != 's') return bad_format("unknown format code for a string");
    if (spec.align == '=' && spec.fill != "0") return bad_format("'=' alignment not allowed for a string");
    Spec adjusted = spec;
    if (spec.align == '=') adjusted.align = '<';
    return append_string(out, value, adjusted);
  }
  if (value.is(Kind::floating) && (is_float_type(spec.type) || spec.type == 0 || spec.type == 'n')) {
    return append_float(out, value.floating, spec);
  }
  if (value.is(Kind::integer) || value.is(Kind::boolean)) {
    const int64_t integer = value.is(Kind::integer) ? value.integer : (value.boolean ? 1 : 0);
    if (is_float_type(spec.type)) return append_float(out, static_cast<double>(integer), spec);
    if (spec.precision >= 0) return bad_format("precision not allowed for an integer");
    if (is_integer_type(spec.type)) return append_integer(out, integer, spec);
  }
  return bad_format(std::string("unsupported format specification for ") + type_name(value));
}

// One `%` conversion: flags, width and precision as a Spec.
struct Conversion {
  std::optional<std::string_view> key;
  Spec spec;
  bool zero = false;
  bool left = false;
};

class PercentFormatter {
 public:
  PercentFormatter(Interp& interp, const Value& format, const Value& arguments)
      : interp_(interp), source_(format.str()), arguments_(arguments), out_(interp.heap()) {
    is_mapping_ = arguments.is(Kind::dict) || arguments.is(Kind::list) || arguments.is(Kind::range) ||
                  arguments.is(Kind::undefined);
  }

  Result<Value> run() {
    const std::string_view text = source_.bytes;
    while (pos_ < text.size()) {
      const size_t mark = std::min(text.find('%', pos_), text.size());
      out_.append(source_, pos_, mark);
      pos_ = mark + 1;
      if (mark >= text.size()) break;
      QUERN_TRY_VOID(conversion());
      if (out_.full()) return limit_error();
    }
    const size_t n_given = arguments_.is(Kind::tuple) ? arguments_.items().size() : 1;
    if (!is_mapping_ && next_ < n_given) return type_error("not all arguments converted during string formatting");
    return out_.value();
  }

 private:
  char peek() const { return pos_ < source_.bytes.size() ? source_.bytes[pos_] : '\0'; }

  Result<Value> argument() {
    if (arguments_.is(Kind::tuple) && next_ < arguments_.items().size()) return arguments_.items()[next_++];
    if (!arguments_.is(Kind::tuple) && next_ == 0) {
      ++next_;
      return arguments_;
    }
    return type_error("not enough arguments for format string");
  }

  Result<int64_t> number_or_star() {
    if (peek() != '*') return read_number(source_.bytes, pos_);
    ++pos_;
    QUERN_TRY(const Value value, argument());
    return integer_of(value, "* in a format");
  }

  Result<void> conversion() {
    Conversion c;
    if (peek() == '(') {
      const size_t end = source_.bytes.find(')', pos_);
      if (end == std::string_view::npos) return bad_format("incomplete format key");
      c.key = source_.bytes.substr(pos_ + 1, end - pos_ - 1);
      pos_ = end + 1;
    }
    for (; peek() != '\0' && std::string_view("#0- +").find(peek()) != std::string_view::npos; ++pos_) {
      c.spec.alternate |= peek() == '#';
      c.zero |= peek() == '0';
      c.left |= peek() == '-';
      if (peek() == '+' || (peek() == ' ' && c.spec.sign != '+')) c.spec.sign = peek();
    }
    QUERN_TRY(c.spec.width, number_or_star());
    if (c.spec.width < 0) {
      c.left = true;
      c.spec.width = c.spec.width < -kMaxPrecision ? kMaxPrecision : -c.spec.width;
    }
    if (peek() == '.') {
      ++pos_;
      QUERN_TRY(c.spec.precision, number_or_star());
      if (c.spec.precision > kMaxPrecision) return bad_format("precision too big");
      c.spec.precision = std::max<int64_t>(c.spec.precision, 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++pos_;
    if (pos_ >= source_.bytes.size()) return bad_format("incomplete format");
    c.spec.type = source_.bytes[pos_++];
    return convert(c);
  }

  Result<void> convert(Conversion& c) {
    Spec& spec = c.spec;
    if (spec.type == '%') {
      out_.append("%");
      return {};
    }
    Value value;
    if (c.key) {
      if (!arguments_.is(Kind::dict)) return bad_format("format requires a mapping");
      const Value* found = dict_find(arguments_.dict(), *c.key);
      if (found == nullptr) return type_error("format: no key '" + std::string(*c.key) + "'");
      value = *found;
    } else {
      QUERN_TRY(value, argument());
    }
    spec.align = c.left ? '<' : '>';
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        StringBuilder text(interp_.heap());
        QUERN_TRY_VOID(spec.type == 's' ? append_str(text, value) : append_repr(text, value, spec.type == 'a'));
        QUERN_TRY(const Value string, text.value());
        return append_string(out_, string, spec);
      }
      case 'c':
        return character(value, spec);
      default:
        return number(c, value);
    }
  }

  Result<void> character(const Value& value, Spec spec) {
    spec.precision = -1;
    if (value.is(Kind::string) && value.str().n_chars == 1) return append_string(out_, value, spec);
    if (!value.is(Kind::integer) || value.integer < 0 || value.integer > 0x10FFFF) {
      return type_error("%c requires an int in range or a character");
    }
    std::string text;
    append_utf8(text, static_cast<uint32_t>(value.integer));
    return append_string(out_, interp_.heap().string(std::move(text)), spec);
  }

  Result<void> number(const Conversion& c, const Value& value) {
    if (value.is(Kind::undefined)) return type_error(undefined_message(value));
    if (!value.is_number()) return type_error(std::string("a number is required, not ") + type_name(value));
    Spec spec = c.spec;
    if (c.zero && !c.left) {
      spec.fill = "0";
      spec.align = '=';
    }
    if (is_float_type(spec.type)) {
      if (value.is(Kind::floating)) return append_float(out_, value.floating, spec);
      QUERN_TRY(const int64_t integer, integer_of(value, "a format"));
      return append_float(out_, static_cast<double>(integer), spec);
    }
    if (std::string_view("diuoxX").find(spec.type) == std::string_view::npos) {
      return bad_format(std::string("unsupported format character '") + spec.type + "'");
    }
    int64_t integer = 0;
    if (value.is(Kind::floating)) {
      if (spec.type == 'o' || spec.type == 'x' || spec.type == 'X')
        return type_error("an integer is required, not float");
      if (!(std::fabs(value.floating) < 9e18)) return type_error("cannot convert this float to an integer");
      integer = static_cast<int64_t>(value.floating);
    } else {
      QUERN_TRY(integer, integer_of(value, "a format"));
    }
    if (spec.precision > 0) return integer_with_precision(integer, spec);
    return append_integer(out_, integer, spec);
  }

  // Precision is the least number of digits.
  Result<void> integer_with_precision(int64_t integer, const Spec& spec) {
    Spec digits_spec = spec;
    digits_spec.width = spec.precision + (integer < 0 || spec.sign != '-' ? 1 : 0);
    digits_spec.fill = "0";
    digits_spec.align = '=';
    StringBuilder digits(interp_.heap());
    QUERN_TRY_VOID(append_integer(digits, integer, digits_spec));
    QUERN_TRY(const Value text, digits.value());
    append_padded(out_, text.str(), 0, spec, '>');
    return {};
  }

  Interp& interp_;
  const StringObj& source_;
  Value arguments_;
  StringBuilder out_;
  size_t pos_ = 0;
  size_t next_ = 0;
  bool is_mapping_ = false;
};

class BraceFormatter {
 public:
  BraceFormatter(Interp& interp, const Value& format, const Args& args)
      : interp_(interp), source_(format.str()), format_(format), args_(args), out_(interp.heap()) {}

  Result<Value> run() {
    const std::string_view text = source_.bytes;
    size_t pos = 0;
    while (pos < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", pos), text.size());
      out_.append(source_, pos, brace);
      if (brace >= text.size()) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out_.append(source_, brace, brace + 1);
        pos = brace + 2;
        continue;
      }
      if (text[brace] == '}') return bad_format("single '}' encountered in format string");
      size_t end = brace + 1;
      for (int depth = 1; end < text.size(); ++end) {
        depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
        if (depth == 0) break;
      }
      if (end >= text.size()) return bad_format("expected '}' before end of string");
      QUERN_TRY_VOID(field(text.substr(brace + 1, end - brace - 1)));
      if (out_.full()) return limit_error();
      pos = end + 1;
    }
    return out_.value();
  }

 private:
  Result<void> field(std::string_view text) {
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    QUERN_TRY(Value value, lookup(text.substr(0, name_end)));
    size_t pos = name_end;
    if (pos < text.size() && text[pos] == '!') {
      const char kind = pos + 1 < text.size() ? text[pos + 1] : '\0';
      StringBuilder converted(interp_.heap());
      if (kind == 's') {
        QUERN_TRY_VOID(append_str(converted, value));
      } else if (kind == 'r' || kind == 'a') {
        QUERN_TRY_VOID(append_repr(converted, value, kind == 'a'));
      } else {
        return bad_format("unknown conversion");
      }
      QUERN_TRY(value, converted.value());
      pos += 2;
    }
    if (pos >= text.size()) return append_formatted(out_, value, "");
    if (text[pos] != ':') return bad_format("expected ':' after conversion specifier");
    QUERN_TRY(const std::string spec, expand(text.substr(pos + 1)));
    return append_formatted(out_, value, spec);
  }

  // A specification may hold fields of its own, one level deep.
  Result<std::string> expand(std::string_view spec) {
    std::string out;
    while (!spec.empty()) {
      const size_t brace = std::min(spec.find('{'), spec.size());
      out += spec.substr(0, brace);
      if (brace >= spec.size()) break;
      const size_t end = spec.find('}', brace);
      if (end == std::string_view::npos) return bad_format("expected '}' before end of string");
      QUERN_TRY(const Value value, lookup(spec.substr(brace + 1, end - brace - 1)));
      QUERN_TRY(const Value text, to_str(interp_.heap(), value));
      if (text.text().size() > 64) return bad_format("format specification too long");
      out += text.text();
      spec = spec.substr(end + 1);
    }
    return out;
  }

  Result<Value> lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    size_t digits = 0;
    const int64_t number = read_number(first, digits);
    Value value;
    if (first.empty() || digits == first.size()) {
      const uint64_t index = first.empty() ? automatic_++ : static_cast<uint64_t>(number);
      if (index >= args_.positional.size()) return bad_format("replacement index out of range");
      value = args_.positional[index];
    } else {
      const auto found =
          std::find_if(args_.named.begin(), args_.named.end(), [&](const auto& arg) { return arg.first == first; });
      if (found == args_.named.end()) return bad_format("no argument '" + std::string(first) + "'");
      value = found->second;
    }
    return follow(value, name.substr(first_end));
  }

  Result<Value> follow(Value value, std::string_view path) {
    while (!path.empty()) {
      interp_.heap().spend(1, 0);
      if (path[0] == '.') {
        const size_t end = std::min(path.find_first_of(".[", 1), path.size());
        QUERN_TRY(value, interp_.attribute(value, path.substr(1, end - 1)));
        path = path.substr(end);
        continue;
      }
      const size_t end = path.find(']');
      if (path[0] != '[' || end == std::string_view::npos || end < 2) return bad_format("malformed field name");
      const std::string_view key = path.substr(1, end - 1);
      size_t digits = 0;
      const int64_t number = read_number(key, digits);
      QUERN_TRY(value, interp_.item(value, digits == key.size() ? Value::of(number) : interp_.heap().literal(key)));
      path = path.substr(end + 1);
    }
    return value;
  }

  Interp& interp_;
  const StringObj& source_;
  Value format_;
  const Args& args_;
  StringBuilder out_;
  uint64_t automatic_ = 0;
};

}  // namespace

Result<Value> format_percent(Interp& interp, const Value& format, const Value& arguments) {
  return PercentFormatter(interp, format, arguments).run();
}

Result<Value> format_braces(Interp& interp, const Value& format, const Args& args) {
  return BraceFormatter(interp, format, args).run();
}

}  // namespace quern::token::jinja
