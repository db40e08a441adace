// Conversion and traversal of GGUF metadata values. Validation is done once, in gguf_parse.cpp.
#include "file/value.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace quern::file {
namespace {

constexpr size_t kArrayHeader = sizeof(uint32_t) + sizeof(uint64_t);

// Bytes of the (valid) encoded value of `type` at `at`.
size_t encoded_bytes(ValueType type, const std::byte* at) {
  if (type == ValueType::string) return sizeof(uint64_t) + load<uint64_t>(at);
  if (type != ValueType::array) return scalar_bytes(type);
  const auto element = static_cast<ValueType>(load<uint32_t>(at));
  const uint64_t count = load<uint64_t>(at + sizeof(uint32_t));
  if (const size_t fixed = scalar_bytes(element); fixed > 0) return kArrayHeader + count * fixed;
  size_t bytes = kArrayHeader;
  for (uint64_t i = 0; i < count; ++i) bytes += encoded_bytes(element, at + bytes);
  return bytes;
}

template <class To, class From>
std::optional<To> convert(From from) {
  constexpr bool from_integer = std::is_integral_v<From> && !std::is_same_v<From, bool>;
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_same_v<To, bool> || std::is_same_v<To, std::string_view>) {
    return std::nullopt;
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (from_integer) {
      if (std::in_range<To>(from)) return static_cast<To>(from);
    }
    return std::nullopt;
  } else if constexpr (from_integer) {
    constexpr int64_t kExact = int64_t{1} << std::numeric_limits<To>::digits;
    if (std::cmp_less_equal(from, kExact) && std::cmp_greater_equal(from, -kExact)) return static_cast<To>(from);
    return std::nullopt;
  } else if constexpr (std::is_floating_point_v<From>) {
    const auto wide = static_cast<double>(from);
    if (std::isfinite(wide) && std::abs(wide) > static_cast<double>(std::numeric_limits<To>::max()))
      return std::nullopt;
    return static_cast<To>(from);
  } else {
    return std::nullopt;
  }
}

}  // namespace

const char* value_type_name(ValueType type) {
  constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                    "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

size_t scalar_bytes(ValueType type) {
  constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

template <class T>
std::optional<T> Value::as() const {
  const std::byte* at = encoded_.data();
  switch (type_) {
    case ValueType::u8:
      return convert<T>(load<uint8_t>(at));
    case ValueType::i8:
      return convert<T>(load<int8_t>(at));
    case ValueType::u16:
      return convert<T>(load<uint16_t>(at));
    case ValueType::i16:
      return convert<T>(load<int16_t>(at));
    case ValueType::u32:
      return convert<T>(load<uint32_t>(at));
    case ValueType::i32:
      return convert<T>(load<int32_t>(at));
    case ValueType::f32:
      return convert<T>(load<float>(at));
    case ValueType::boolean:
      return convert<T>(load<uint8_t>(at) != 0);
    case ValueType::string:
      return convert<T>(std::string_view(reinterpret_cast<const char*>(at + sizeof(uint64_t)), load<uint64_t>(at)));
    case ValueType::array:
      return std::nullopt;
    case ValueType::u64:
      return convert<T>(load<uint64_t>(at));
    case ValueType::i64:
      return convert<T>(load<int64_t>(at));
    case ValueType::f64:
      return convert<T>(load<double>(at));
  }
  return std::nullopt;
}

template std::optional<uint8_t> Value::as() const;
template std::optional<int8_t> Value::as() const;
template std::optional<uint16_t> Value::as() const;
template std::optional<int16_t> Value::as() const;
template std::optional<uint32_t> Value::as() const;
template std::optional<int32_t> Value::as() const;
template std::optional<uint64_t> Value::as() const;
template std::optional<int64_t> Value::as() const;
template std::optional<float> Value::as() const;
template std::optional<double> Value::as() const;
template std::optional<bool> Value::as() const;
template std::optional<std::string_view> Value::as() const;

ValueType Value::element_type() const {
  QUERN_CHECK(is_array());
  return static_cast<ValueType>(load<uint32_t>(encoded_.data()));
}

uint64_t Value::size() const {
  QUERN_CHECK(is_array());
  return load<uint64_t>(encoded_.data() + sizeof(uint32_t));
}

ValueRange Value::elements() const {
  return {element_type(), encoded_.data() + kArrayHeader, size()};
}

std::string Value::type_text() const {
  if (!is_array()) return value_type_name(type_);
  return std::string("array of ") + value_type_name(element_type());
}

void ValueRange::Iterator::measure() {
  bytes_ = left_ > 0 ? encoded_bytes(type_, at_) : 0;
}

std::string quoted(std::string_view name) {
  constexpr size_t kShown = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "'";
  for (const char c : name.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return text + (name.size() > kShown ? "...'" : "'");
}

}  // namespace quern::file
