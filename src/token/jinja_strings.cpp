// Searching, cutting, replacing, changing case.
#include "token/jinja_strings.h"

#include <algorithm>
#include <cstring>

namespace quern::token::jinja {

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_bytes(Heap& heap, std::string_view text, std::string_view needle) {
  heap.spend(text.size() / 16 * (needle.size() / 16 + 1), 0);  // the worst case of a backward search
  return heap.exhausted() ? std::string_view::npos : text.rfind(needle);
}

Result<Value> soft_string(Heap& heap, const Value& value) {
  return value.is(Kind::string) ? Result<Value>(value) : to_str(heap, value);
}

Result<Value> escape_html(Heap& heap, const Value& value) {
  if (value.is(Kind::string) && value.str().markup) return value;
  QUERN_TRY(const Value text, to_str(heap, value));
  const StringObj& string = text.str();
  ContentCursor content(string);
  StringBuilder out(heap);
  size_t copied = 0;
  for (size_t pos = 0; pos < string.bytes.size(); ++pos) {
    const char c = string.bytes[pos];
    const char* entity = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '\'' ? "&#39;"
                         : c == '"'  ? "&#34;"
                                     : nullptr;
    if (entity == nullptr) continue;
    out.append(string, copied, pos);
    out.append(entity, content.at(pos));
    copied = pos + 1;
  }
  out.append(string, copied, string.bytes.size());
  QUERN_TRY(const Value result, out.value());
  result.as<StringObj>().markup = true;
  return result;
}

namespace {

// A fresh string made from `source` is markup where `source` is.
Result<Value> finish_like(const Value& source, StringBuilder& out) {
  QUERN_TRY(const Value result, out.value());
  result.as<StringObj>().markup = source.str().markup;
  return result;
}

class CharSet {
 public:
  explicit CharSet(const Value& chars) : all_space_(!chars.is(Kind::string)) {
    if (all_space_) return;
    const std::string_view text = chars.text();
    size_t length = 0;
    for (size_t pos = 0; pos < text.size(); pos += length) chars_.push_back(decode_at(text, pos, &length));
    std::sort(chars_.begin(), chars_.end());
  }
  bool has(uint32_t c) const { return all_space_ ? is_space(c) : std::binary_search(chars_.begin(), chars_.end(), c); }

 private:
  bool all_space_;
  std::vector<uint32_t> chars_;
};

}  // namespace

Result<Value> strip(Heap& heap, const Value& string, const Value& chars, StripSides sides) {
  if (!chars.is(Kind::none) && !chars.is(Kind::string)) return type_error("strip arg must be None or str");
  const std::string_view text = string.text();
  heap.spend(text.size() / 16 + (chars.is(Kind::string) ? chars.text().size() : 0), 0);
  if (heap.exhausted()) return limit_error();
  const CharSet set(chars);
  size_t begin = 0;
  size_t end = text.size();
  size_t length = 0;
  while (sides.left && begin < end && set.has(decode_at(text, begin, &length))) begin += length;
  while (sides.right && end > begin) {
    const size_t before = previous_char(text, end);
    if (!set.has(decode_at(text, before, &length))) break;
    end = before;
  }
  return heap.substring(string, begin, end);
}

namespace {

Result<std::vector<Value>> split_space(Heap& heap, const Value& string, int64_t limit, bool from_right) {
  const std::string_view text = string.text();
  std::vector<TextSpan> words;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size();) {
    while (pos < text.size() && is_space(decode_at(text, pos, &length))) pos += length;
    const size_t begin = pos;
    while (pos < text.size() && !is_space(decode_at(text, pos, &length))) pos += length;
    if (pos > begin) words.push_back({begin, pos});
  }
  if (limit >= 0 && static_cast<uint64_t>(limit) < words.size()) {
    const auto kept = static_cast<size_t>(limit);
    if (from_right) {  // the first words stay together, with the space before them
      const size_t joined = words.size() - kept;
      words[joined - 1].begin = 0;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(joined - 1));
    } else {
      words[kept].end = text.size();
      words.resize(kept + 1);
    }
  }
  std::vector<Value> parts;
  for (const auto& word : words) {
    if (heap.exhausted()) return limit_error();
    parts.push_back(heap.substring(string, word.begin, word.end));
  }
  return parts;
}

}  // namespace

Result<Value> split(Heap& heap, const Value& string, const Value& separator, int64_t limit, bool from_right) {
  const std::string_view text = string.text();
  heap.spend(text.size() / 16, 0);
  if (heap.exhausted()) return limit_error();
  if (separator.is(Kind::none)) {
    QUERN_TRY(auto words, split_space(heap, string, limit, from_right));
    return heap.list(std::move(words));
  }
  if (!separator.is(Kind::string)) return type_error("the separator must be str or None");
  const std::string_view mark = separator.text();
  if (mark.empty()) return type_error("empty separator");
  std::vector<Value> parts;
  const auto may_cut = [&] { return limit < 0 || parts.size() < static_cast<size_t>(limit); };
  if (from_right) {
    size_t end = text.size();
    while (may_cut()) {
      const size_t found = rfind_bytes(heap, text.substr(0, end), mark);
      if (heap.exhausted()) return limit_error();
      if (found == std::string_view::npos) break;
      parts.push_back(heap.substring(string, found + mark.size(), end));
      end = found;
    }
    parts.push_back(heap.substring(string, 0, end));
    std::reverse(parts.begin(), parts.end());
    return heap.list(std::move(parts));
  }
  size_t begin = 0;
  while (may_cut()) {
    const size_t found = find_bytes(text, mark, begin);
    if (found == std::string_view::npos) break;
    if (heap.exhausted()) return limit_error();
    parts.push_back(heap.substring(string, begin, found));
    begin = found + mark.size();
  }
  parts.push_back(heap.substring(string, begin, text.size()));
  return heap.list(std::move(parts));
}

Result<std::vector<Value>> split_lines(Heap& heap, const Value& string, bool keep_ends) {
  const std::string_view text = string.text();
  std::vector<Value> lines;
  size_t begin = 0;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t c = decode_at(text, pos, &length);
    if (!is_line_break(c)) {
      pos += length;
      continue;
    }
    const size_t end = pos;
    pos += length;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    if (heap.exhausted()) return limit_error();
    lines.push_back(heap.substring(string, begin, keep_ends ? pos : end));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(heap.substring(string, begin, text.size()));
  return lines;
}

Result<Value> replace(Heap& heap, const Value& string, const Value& from, const Value& to, int64_t limit) {
  const StringObj& source = string.str();
  const std::string_view text = source.bytes;
  const std::string_view old = from.text();
  const uint64_t most = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  StringBuilder out(heap);
  size_t copied = 0;
  uint64_t done = 0;
  size_t pos = 0;
  while (done < most) {
    const size_t found = find_bytes(text, old, pos);
    if (found == std::string_view::npos) break;
    heap.spend(1, 0);
    if (out.full() || heap.exhausted()) return limit_error();
    out.append(source, copied, found);
    out.append(to.str());
    copied = found + old.size();
    pos = copied;
    ++done;
    if (!old.empty()) continue;
    if (found >= text.size()) break;  // an empty pattern matches once behind every character
    size_t length = 0;
    decode_at(text, found, &length);
    pos = found + length;
  }
  if (done == 0) return string;
  out.append(source, copied, text.size());
  return finish_like(string, out);
}

Result<Value> change_case(Heap& heap, const Value& string, CaseMap map) {
  const StringObj& source = string.str();
  ContentCursor content(source);
  StringBuilder out(heap);
  size_t length = 0;
  for (size_t pos = 0; pos < source.bytes.size() && !out.full(); pos += length) {
    const uint32_t c = decode_at(source.bytes, pos, &length);
    if (map == CaseMap::lower && c == 0x3A3 && is_final_sigma(source.bytes, pos)) {
      out.append_char(0x3C2, content.at(pos));
    } else {
      out.append_case(c, map, content.at(pos));
    }
  }
  return finish_like(string, out);
}

namespace {

// Maps each character in the case that `choose(character)` gives; it is called in order, once per character.
template <class Choose>
Result<Value> map_chars(Heap& heap, const Value& string, Choose choose) {
  const StringObj& source = string.str();
  ContentCursor content(source);
  StringBuilder out(heap);
  size_t length = 0;
  for (size_t pos = 0; pos < source.bytes.size() && !out.full(); pos += length) {
    const uint32_t c = decode_at(source.bytes, pos, &length);
    const CaseMap map = choose(c);
    if (map == CaseMap::lower && c == 0x3A3 && is_final_sigma(source.bytes, pos)) {
      out.append_char(0x3C2, content.at(pos));
    } else {
      out.append_case(c, map, content.at(pos));
    }
  }
  return finish_like(string, out);
}

}  // namespace

Result<Value> capitalize(Heap& heap, const Value& string) {
  bool first = true;
  return map_chars(heap, string,
                   [&](uint32_t) { return std::exchange(first, false) ? CaseMap::title : CaseMap::lower; });
}

Result<Value> title_words(Heap& heap, const Value& string) {
  bool first = true;
  return map_chars(heap, string, [&](uint32_t c) {
    const bool separator =
        is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    const bool starts = first && !separator;
    first = separator;
    return separator || starts ? CaseMap::upper : CaseMap::lower;
  });
}

Result<Value> title_letters(Heap& heap, const Value& string) {
  bool inside = false;
  return map_chars(heap, string,
                   [&](uint32_t c) { return std::exchange(inside, is_cased(c)) ? CaseMap::lower : CaseMap::title; });
}

Result<Value> swap_case(Heap& heap, const Value& string) {
  return map_chars(heap, string, [](uint32_t c) { return is_upper(c) ? CaseMap::lower : CaseMap::upper; });
}

Result<Value> pad(Heap& heap, const Value& string, int64_t width, std::string_view unit, int share) {
  const auto length = static_cast<int64_t>(string.str().n_chars);
  if (width <= length) return string;
  const auto padding = static_cast<uint64_t>(width - length);
  // Python's center puts the odd one left when the width is odd too.
  const uint64_t left = share == 1   ? padding / 2 + (padding & static_cast<uint64_t>(width) & 1)
                        : share == 2 ? padding
                                     : 0;
  StringBuilder out(heap);
  out.fill(unit, left);
  out.append(string.str());
  out.fill(unit, padding - left);
  return finish_like(string, out);
}

}  // namespace quern::token::jinja
