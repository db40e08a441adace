// A GGUF metadata value that owns its encoded bytes: what a writer takes. Reading: value.h.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "file/value.h"

namespace quern::file {

// T below: a fixed-width integer type, float, double, bool or std::string_view.
class OwnedValue {
 public:
  template <class T>
  static OwnedValue of(T value);
  static OwnedValue of(const char* text) { return of(std::string_view(text)); }
  static OwnedValue of(const std::string& text) { return of(std::string_view(text)); }
  template <class T>
  static OwnedValue array(std::span<const T> values);
  template <class T>
  static OwnedValue array(std::initializer_list<T> values) {
    return array(std::span<const T>(values.begin(), values.size()));
  }
  // Elements all of one type, arrays included; an error where they are not.
  static Result<OwnedValue> array_of(ValueType element, std::span<const OwnedValue> values);
  static OwnedValue copy(const Value& value) { return {value.type(), value.encoded()}; }

  ValueType type() const { return type_; }
  Value view() const { return {type_, encoded_}; }

 private:
  OwnedValue(ValueType type, std::span<const std::byte> encoded)
      : type_(type), encoded_(encoded.begin(), encoded.end()) {}
  ValueType type_;
  std::vector<std::byte> encoded_;
};

}  // namespace quern::file
