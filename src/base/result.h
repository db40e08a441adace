// Result<T>: a value, or an Error that came from outside (a file, a request, the operating system).
// Bugs are not Errors: see base/check.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quern {

enum class Status {
  ok,
  invalid_argument,  // the caller asked for something that makes no sense
  invalid_file,      // a file's bytes are malformed, truncated or inconsistent
  unsupported,       // well-formed, and Quern does not do it (yet): the message names what
  not_found,         // a file, tensor, key or catalogue name that is not there
  io_error,          // the operating system refused
  out_of_memory,
  limit_exceeded,  // a stated bound: context, fuel, nesting, size
  cancelled,
};

const char* status_name(Status status);

struct Error {
  Status status = Status::invalid_argument;
  std::string message;  // one line, names file, tensor and field where they apply, and says what to do next
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  const Error& error() const& {
    QUERN_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    QUERN_CHECK(!ok());
    return std::move(std::get<1>(state_));
  }

 private:
  T& checked() {
    QUERN_CHECK(ok());
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

// Result<void>: success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    QUERN_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace quern

#define QUERN_CONCAT_(a, b) a##b
#define QUERN_CONCAT(a, b) QUERN_CONCAT_(a, b)
// QUERN_TRY(auto x, f()): x is f()'s value, or this function returns f()'s error.
#define QUERN_TRY(decl, expr)                                                                     \
  auto QUERN_CONCAT(try_, __LINE__) = (expr);                                                     \
  if (!QUERN_CONCAT(try_, __LINE__).ok()) return std::move(QUERN_CONCAT(try_, __LINE__)).error(); \
  decl = std::move(*QUERN_CONCAT(try_, __LINE__))
// QUERN_TRY_VOID(f()): this function returns f()'s error if there is one.
#define QUERN_TRY_VOID(expr)                                         \
  do {                                                               \
    auto try_result = (expr);                                        \
    if (!try_result.ok()) return ::quern::Error(try_result.error()); \
  } while (0)
