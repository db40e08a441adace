// How values read as text: str(), repr() and JSON, as Python writes them, and the builder that keeps track of content.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "token/jinja_ops.h"

namespace quern::token::jinja {

bool StringBuilder::reserve(uint64_t bytes) {
  if (full_ || heap_.exhausted() || !heap_.can_take(text_.size() + bytes)) {
    full_ = true;
    return false;
  }
  heap_.spend(bytes / 16, 0);
  return true;
}

void StringBuilder::append(std::string_view text, bool is_content) {
  if (!reserve(text.size())) return;
  if (is_content) add_span(content_, text_.size(), text_.size() + text.size());
  text_ += text;
}

void StringBuilder::append(const StringObj& piece, size_t begin, size_t end) {
  if (begin >= end || !reserve(end - begin)) return;
  const size_t base = text_.size();
  text_ += piece.bytes.substr(begin, end - begin);
  auto span = std::lower_bound(piece.content.begin(), piece.content.end(), begin,
                               [](const TextSpan& s, size_t pos) { return s.end <= pos; });
  for (; span != piece.content.end() && span->begin < end; ++span) {
    add_span(content_, base + std::max(span->begin, begin) - begin, base + std::min(span->end, end) - begin);
  }
}

void StringBuilder::append_char(uint32_t c, bool is_content) {
  if (!reserve(4)) return;
  const size_t base = text_.size();
  append_utf8(text_, c);
  if (is_content) add_span(content_, base, text_.size());
}

void StringBuilder::append_case(uint32_t c, CaseMap map, bool is_content) {
  if (!reserve(4)) return;
  const size_t base = text_.size();
  jinja::append_case(text_, c, map);
  if (is_content) add_span(content_, base, text_.size());
}

void StringBuilder::fill(std::string_view unit, uint64_t count, bool is_content) {
  if (unit.empty()) return;
  if (count > UINT64_MAX / 2 / unit.size() || !reserve(count * unit.size())) {
    full_ = true;
    return;
  }
  const size_t base = text_.size();
  if (unit.size() == 1) {
    text_.append(count, unit[0]);
  } else {
    for (uint64_t i = 0; i < count; ++i) text_ += unit;
  }
  if (is_content) add_span(content_, base, text_.size());
}

Result<Value> StringBuilder::value() {
  if (full_) return limit_error();
  return heap_.string(std::move(text_), std::move(content_));
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view scientific(buffer, static_cast<size_t>(written.ptr - buffer));
  const size_t mark = scientific.find('e');
  int exponent = 0;
  const char* exponent_begin = scientific.data() + mark + (scientific[mark + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, scientific.data() + scientific.size(), exponent);
  std::string digits;
  for (const char c : scientific.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string magnitude = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

void append_hex_escape(StringBuilder& out, uint32_t c, bool is_content) {
  char buffer[16];
  const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer, sizeof buffer, format, c);
  out.append(buffer, is_content);
}

void append_string_repr(StringBuilder& out, const StringObj& string, bool ascii) {
  const bool has_single = string.bytes.find('\'') != std::string_view::npos;
  const bool has_double = string.bytes.find('"') != std::string_view::npos;
  const uint32_t quote = has_single && !has_double ? '"' : '\'';
  ContentCursor content(string);
  out.append_char(quote, false);
  size_t length = 0;
  for (size_t pos = 0; pos < string.bytes.size() && !out.full(); pos += length) {
    const uint32_t c = decode_at(string.bytes, pos, &length);
    const bool is_content = content.at(pos);
    if (c == quote || c == '\\') {
      out.append_char('\\', is_content);
      out.append_char(c, is_content);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", is_content);
    } else if (c < kRawByte && (!is_printable(c) || (ascii && c >= 0x80))) {
      append_hex_escape(out, c, is_content);
    } else {
      out.append_char(c, is_content);
    }
  }
  out.append_char(quote, false);
}

// Items between brackets, each as repr.
template <class Each>
Result<void> append_items(StringBuilder& out, size_t count, Each each) {
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out.append(", ");
    QUERN_TRY_VOID(each(i));
    if (out.full()) return limit_error();
  }
  return {};
}

Result<void> append_dict_repr(StringBuilder& out, const DictObj& dict, bool ascii, int depth) {
  const auto each = [&](size_t i) -> Result<void> {
    QUERN_TRY_VOID(append_repr(out, dict.entries[i].key, ascii, depth + 1));
    out.append(": ");
    return append_repr(out, dict.entries[i].value, ascii, depth + 1);
  };
  out.append("{");
  QUERN_TRY_VOID(append_items(out, dict.entries.size(), each));
  out.append("}");
  return {};
}

Result<void> append_view_repr(StringBuilder& out, const Value& value, bool ascii, int depth) {
  const auto& view = value.as<ViewObj>();
  const auto each = [&](size_t i) -> Result<void> {
    const auto& entry = view.dict->entries[i];
    if (view.part != ViewObj::Part::items) {
      return append_repr(out, view.part == ViewObj::Part::keys ? entry.key : entry.value, ascii, depth + 1);
    }
    out.append("(");
    QUERN_TRY_VOID(append_repr(out, entry.key, ascii, depth + 1));
    out.append(", ");
    QUERN_TRY_VOID(append_repr(out, entry.value, ascii, depth + 1));
    out.append(")");
    return {};
  };
  out.append(type_name(value));
  out.append("([");
  QUERN_TRY_VOID(append_items(out, view.dict->entries.size(), each));
  out.append("])");
  return {};
}

void append_range_repr(StringBuilder& out, const RangeObj& range, int64_t stop) {
  out.append("range(" + std::to_string(range.start) + ", " + std::to_string(stop));
  if (range.step != 1) out.append(", " + std::to_string(range.step));
  out.append(")");
}

}  // namespace

Result<void> append_repr(StringBuilder& out, const Value& value, bool ascii, int depth) {
  if (depth > kMaxValueDepth) return limit_error();
  switch (value.kind) {
    case Kind::undefined:
      out.append("Undefined");
      break;
    case Kind::none:
      out.append("None");
      break;
    case Kind::boolean:
      out.append(value.boolean ? "True" : "False");
      break;
    case Kind::integer:
      out.append(std::to_string(value.integer));
      break;
    case Kind::floating:
      out.append(float_text(value.floating));
      break;
    case Kind::string:
      if (value.str().markup) out.append("Markup(");
      append_string_repr(out, value.str(), ascii);
      if (value.str().markup) out.append(")");
      break;
    case Kind::list:
    case Kind::tuple: {
      const bool is_list = value.is(Kind::list);
      const auto& items = value.items();
      out.append(is_list ? "[" : "(");
      const auto each = [&](size_t i) { return append_repr(out, items[i], ascii, depth + 1); };
      QUERN_TRY_VOID(append_items(out, items.size(), each));
      out.append(is_list ? "]" : items.size() == 1 ? ",)" : ")");
      break;
    }
    case Kind::dict:
      return append_dict_repr(out, value.dict(), ascii, depth);
    case Kind::view:
      return append_view_repr(out, value, ascii, depth);
    case Kind::range: {
      const auto& range = value.as<RangeObj>();
      append_range_repr(out, range, range.stop);
      break;
    }
    case Kind::name_space:
      out.append("<Namespace ");
      QUERN_TRY_VOID(append_dict_repr(out, *value.as<NamespaceObj>().attributes, ascii, depth));
      out.append(">");
      break;
    case Kind::macro:
      out.append("<Macro '" + value.as<MacroObj>().macro->name + "'>");
      break;
    default:
      out.append(std::string("<") + type_name(value) + " object>");
      break;  // Python adds an address
  }
  return {};
}

Result<void> append_str(StringBuilder& out, const Value& value) {
  if (value.is(Kind::string)) {
    out.append(value.str());
    return {};
  }
  if (value.is(Kind::undefined)) return {};
  return append_repr(out, value);
}

Result<Value> to_str(Heap& heap, const Value& value) {
  if (value.is(Kind::string) && !value.str().markup) return value;
  StringBuilder out(heap);
  QUERN_TRY_VOID(append_str(out, value));
  return out.value();
}

namespace {

void append_json_string(StringBuilder& out, const StringObj& string, bool ascii) {
  static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
  static constexpr std::string_view kTo = "\"\\nrtfb";
  ContentCursor content(string);
  const auto unicode_escape = [&](uint32_t unit, bool is_content) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", unit & 0xFFFF);
    out.append(buffer, is_content);
  };
  out.append("\"");
  size_t length = 0;
  for (size_t pos = 0; pos < string.bytes.size() && !out.full(); pos += length) {
    const uint32_t c = decode_at(string.bytes, pos, &length);
    const bool is_content = content.at(pos);
    const size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out.append_char('\\', is_content);
      out.append_char(static_cast<uint32_t>(static_cast<unsigned char>(kTo[known])), is_content);
    } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
      unicode_escape(c, is_content);
    } else if (ascii && c >= 0x10000 && c < kRawByte) {
      unicode_escape(0xD800 + ((c - 0x10000) >> 10), is_content);
      unicode_escape(0xDC00 + ((c - 0x10000) & 0x3FF), is_content);
    } else {
      out.append_char(c, is_content);
    }
  }
  out.append("\"");
}

void append_json_float(StringBuilder& out, double value) {
  out.append(std::isnan(value)   ? "NaN"
             : std::isinf(value) ? (value < 0 ? "-Infinity" : "Infinity")
                                 : float_text(value));
}

Result<void> append_json_key(StringBuilder& out, const Value& key, const JsonStyle& style) {
  if (key.is(Kind::string)) {
    append_json_string(out, key.str(), style.ascii);
    return {};
  }
  if (!key.is_number() && !key.is(Kind::none)) {
    return type_error(std::string("keys must be str, int, float, bool or None, not ") + type_name(key));
  }
  out.append("\"");
  QUERN_TRY_VOID(append_json(out, key, style));
  out.append("\"");
  return {};
}

void append_newline(StringBuilder& out, const JsonStyle& style, int depth) {
  if (!style.has_indent) return;
  out.append("\n");
  out.fill(style.indent, static_cast<uint64_t>(depth));
}

void append_item_separator(StringBuilder& out, const JsonStyle& style, int depth) {
  if (style.item_separator.is(Kind::string)) {
    out.append(style.item_separator.str());
  } else {
    out.append(style.has_indent ? "," : ", ");
  }
  append_newline(out, style, depth);
}

Result<void> append_json_dict(StringBuilder& out, Heap& heap, const DictObj& dict, const JsonStyle& style, int depth) {
  std::vector<const DictObj::Entry*> order;
  for (const auto& entry : dict.entries) order.push_back(&entry);
  Error failure;
  bool failed = false;
  if (style.sort_keys) {
    std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
      auto result = failed ? Result<int>(0) : compare(heap, a->key, b->key);
      if (!result.ok()) {
        failed = true;
        failure = result.error();
      }
      return result.ok() && *result < 0;
    });
  }
  if (failed) return failure;
  out.append("{");
  append_newline(out, style, depth + 1);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0) append_item_separator(out, style, depth + 1);
    QUERN_TRY_VOID(append_json_key(out, order[i]->key, style));
    if (style.key_separator.is(Kind::string)) {
      out.append(style.key_separator.str());
    } else {
      out.append(": ");
    }
    QUERN_TRY_VOID(append_json(out, order[i]->value, style, depth + 1));
    if (out.full()) return limit_error();
  }
  append_newline(out, style, depth);
  out.append("}");
  return {};
}

}  // namespace

Result<void> append_json(StringBuilder& out, const Value& value, const JsonStyle& style, int depth) {
  if (depth > kMaxValueDepth) return limit_error();
  switch (value.kind) {
    case Kind::none:
      out.append("null");
      return {};
    case Kind::boolean:
      out.append(value.boolean ? "true" : "false");
      return {};
    case Kind::integer:
      out.append(std::to_string(value.integer));
      return {};
    case Kind::floating:
      append_json_float(out, value.floating);
      return {};
    case Kind::string:
      append_json_string(out, value.str(), style.ascii);
      return {};
    case Kind::dict:
      if (value.dict().entries.empty()) {
        out.append("{}");
        return {};
      }
      return append_json_dict(out, out.heap(), value.dict(), style, depth);
    case Kind::list:
    case Kind::tuple: {
      if (value.items().empty()) {
        out.append("[]");
        return {};
      }
      out.append("[");
      append_newline(out, style, depth + 1);
      bool first = true;
      for (const auto& item : value.items()) {
        if (!first) append_item_separator(out, style, depth + 1);
        first = false;
        QUERN_TRY_VOID(append_json(out, item, style, depth + 1));
        if (out.full()) return limit_error();
      }
      append_newline(out, style, depth);
      out.append("]");
      return {};
    }
    default:
      return type_error(std::string("an object of type ") + type_name(value) + " is not JSON serializable");
  }
}

}  // namespace quern::token::jinja
