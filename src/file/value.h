// One GGUF metadata value, as a view of its encoded bytes. Meaning of keys: metadata.h and above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quern::file {

// Numbered as in GGUF files.
enum class ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
inline constexpr uint32_t kValueTypeCount = 13;

const char* value_type_name(ValueType type);
// Encoded bytes of one value of a fixed-size type; 0 for string and array.
size_t scalar_bytes(ValueType type);

// A scalar of type T (trivially copyable) at any alignment.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class ValueRange;

// Invariant: encoded() was validated by the parser or written by OwnedValue: lengths inside it are right, booleans are
// 0 or 1. Does not own its bytes.
class Value {
 public:
  Value(ValueType type, std::span<const std::byte> encoded) : type_(type), encoded_(encoded) {}

  ValueType type() const { return type_; }
  bool is_array() const { return type_ == ValueType::array; }
  // The bytes as in a file: a scalar; or u64 length and characters; or u32 element type, u64 count and the elements.
  std::span<const std::byte> encoded() const { return encoded_; }

  // T: an integer type, float, double, bool or std::string_view. Integers of any width convert where the value fits;
  // floats take any float type that does not overflow and integers that are exact. Otherwise nothing.
  template <class T>
  std::optional<T> as() const;

  // Arrays only. Walking them allocates nothing; elements of an array of arrays are arrays.
  ValueType element_type() const;
  uint64_t size() const;
  ValueRange elements() const;

  // For messages: "u32", "array of string".
  std::string type_text() const;

 private:
  ValueType type_;
  std::span<const std::byte> encoded_;
};

// The elements of an array in order, as a forward range of Values.
class ValueRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Value;

    Iterator() = default;
    Iterator(ValueType type, const std::byte* at, uint64_t left) : type_(type), at_(at), left_(left) { measure(); }
    Value operator*() const { return {type_, {at_, bytes_}}; }
    Iterator& operator++() {
      at_ += bytes_;
      --left_;
      measure();
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    void measure();
    ValueType type_ = ValueType::u8;
    const std::byte* at_ = nullptr;
    uint64_t left_ = 0;
    size_t bytes_ = 0;  // of the element at at_
  };

  ValueRange(ValueType type, const std::byte* first, uint64_t count) : begin_(type, first, count) {}
  Iterator begin() const { return begin_; }
  Iterator end() const { return {}; }

 private:
  Iterator begin_;
};

// A key or a name from a file for use inside a message: quoted, kept to one line and a bounded length.
std::string quoted(std::string_view name);

}  // namespace quern::file
