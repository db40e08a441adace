// Encoding of metadata values.
#include "file/owned_value.h"

#include <type_traits>

#include "file/encode.h"

namespace quern::file {
namespace {

template <class T>
constexpr ValueType type_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return ValueType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return ValueType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) return ValueType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return ValueType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) return ValueType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return ValueType::i32;
  if constexpr (std::is_same_v<T, float>) return ValueType::f32;
  if constexpr (std::is_same_v<T, bool>) return ValueType::boolean;
  if constexpr (std::is_same_v<T, std::string_view>) return ValueType::string;
  if constexpr (std::is_same_v<T, uint64_t>) return ValueType::u64;
  if constexpr (std::is_same_v<T, int64_t>) return ValueType::i64;
  if constexpr (std::is_same_v<T, double>) return ValueType::f64;
}

template <class T>
void encode(std::vector<std::byte>& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    put_text(out, value);
  } else {
    put(out, value);
  }
}

std::vector<std::byte> array_header(ValueType element, uint64_t count) {
  std::vector<std::byte> out;
  put(out, static_cast<uint32_t>(element));
  put(out, count);
  return out;
}

}  // namespace

template <class T>
OwnedValue OwnedValue::of(T value) {
  std::vector<std::byte> encoded;
  encode(encoded, value);
  return {type_of<T>(), encoded};
}

template <class T>
OwnedValue OwnedValue::array(std::span<const T> values) {
  std::vector<std::byte> encoded = array_header(type_of<T>(), values.size());
  for (const T& value : values) encode(encoded, value);
  return {ValueType::array, encoded};
}

Result<OwnedValue> OwnedValue::array_of(ValueType element, std::span<const OwnedValue> values) {
  std::vector<std::byte> encoded = array_header(element, values.size());
  for (const OwnedValue& value : values) {
    if (value.type_ != element) {
      return Error{Status::invalid_argument, std::string("an array of ") + value_type_name(element) +
                                                 " cannot hold a " + value_type_name(value.type_)};
    }
    put_bytes(encoded, value.encoded_.data(), value.encoded_.size());
  }
  return OwnedValue(ValueType::array, encoded);
}

#define QUERN_OWNED_TYPE(T)              \
  template OwnedValue OwnedValue::of(T); \
  template OwnedValue OwnedValue::array(std::span<const T>);
QUERN_OWNED_TYPE(uint8_t)
QUERN_OWNED_TYPE(int8_t)
QUERN_OWNED_TYPE(uint16_t)
QUERN_OWNED_TYPE(int16_t)
QUERN_OWNED_TYPE(uint32_t)
QUERN_OWNED_TYPE(int32_t)
QUERN_OWNED_TYPE(uint64_t)
QUERN_OWNED_TYPE(int64_t)
QUERN_OWNED_TYPE(float)
QUERN_OWNED_TYPE(double)
QUERN_OWNED_TYPE(bool)
QUERN_OWNED_TYPE(std::string_view)
#undef QUERN_OWNED_TYPE

}  // namespace quern::file
