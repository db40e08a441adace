// Arithmetic and order with Python's semantics: floor division and modulo round down, division gives floats, strings
// and lists repeat, `%` on a string formats.
#include <cmath>
#include <limits>

#include "token/jinja_interp.h"
#include "token/jinja_strings.h"

namespace quern::token::jinja {
namespace {

int64_t as_integer(const Value& value) {
  return value.is(Kind::boolean) ? (value.boolean ? 1 : 0) : value.integer;
}
double as_double(const Value& value) {
  return value.is(Kind::floating) ? value.floating : static_cast<double>(as_integer(value));
}

const char* op_text(BinaryOp op) {
  static constexpr const char* kTexts[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kTexts[static_cast<size_t>(op)];
}

Error overflow() {
  return Error{Status::limit_exceeded, "an integer does not fit 64 bits"};
}
Error zero_division() {
  return type_error("division by zero");
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return zero_division();
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value::of(result);
}

Result<Value> integer_op(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::add:
      if (__builtin_add_overflow(a, b, &result)) return overflow();
      return Value::of(result);
    case BinaryOp::subtract:
      if (__builtin_sub_overflow(a, b, &result)) return overflow();
      return Value::of(result);
    case BinaryOp::multiply:
      if (__builtin_mul_overflow(a, b, &result)) return overflow();
      return Value::of(result);
    case BinaryOp::divide:
      if (b == 0) return zero_division();
      return Value::of(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::floor_divide:
    case BinaryOp::modulo: {
      if (b == 0) return zero_division();
      if (b == -1) {  // the one quotient that can overflow
        if (op == BinaryOp::modulo) return Value::of(int64_t{0});
        if (a == std::numeric_limits<int64_t>::min()) return overflow();
        return Value::of(-a);
      }
      const int64_t remainder = a % b;
      const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
      if (op == BinaryOp::modulo) return Value::of(adjust ? remainder + b : remainder);
      return Value::of(a / b - (adjust ? 1 : 0));
    }
    case BinaryOp::power:
      return integer_power(a, b);
  }
  return overflow();
}

Result<Value> float_op(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return Value::of(a + b);
    case BinaryOp::subtract:
      return Value::of(a - b);
    case BinaryOp::multiply:
      return Value::of(a * b);
    case BinaryOp::divide:
      if (b == 0) return zero_division();
      return Value::of(a / b);
    case BinaryOp::floor_divide:
    case BinaryOp::modulo: {
      if (b == 0) return zero_division();
      double remainder = std::fmod(a, b);
      double quotient = (a - remainder) / b;
      if (remainder != 0 && (remainder < 0) != (b < 0)) {
        remainder += b;
        quotient -= 1;
      } else if (remainder == 0) {
        remainder = std::copysign(0.0, b);
      }
      if (op == BinaryOp::modulo) return Value::of(remainder);
      if (quotient == 0) return Value::of(std::copysign(0.0, a / b));
      const double floor = std::floor(quotient);
      return Value::of(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    case BinaryOp::power: {
      if (a == 0 && b < 0) return zero_division();
      if (a < 0 && std::floor(b) != b) return type_error("a negative number has no fractional power");
      const double result = std::pow(a, b);
      if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) return type_error("result too large");
      return Value::of(result);
    }
  }
  return overflow();
}

Result<Value> concatenate(Interp& interp, const Value& a, const Value& b) {
  Heap& heap = interp.heap();
  if (a.is(Kind::string)) {
    const bool markup = a.str().markup || b.str().markup;
    QUERN_TRY(const Value left, markup ? escape_html(heap, a) : Result<Value>(a));
    QUERN_TRY(const Value right, markup ? escape_html(heap, b) : Result<Value>(b));
    StringBuilder out(heap);
    out.append(left.str());
    out.append(right.str());
    QUERN_TRY(const Value result, out.value());
    result.as<StringObj>().markup = markup;
    return result;
  }
  const uint64_t count = a.items().size() + b.items().size();
  QUERN_TRY_VOID(interp.charge(count, count * sizeof(Value)));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return heap.list(std::move(items), a.kind);
}

Result<Value> repeat(Interp& interp, const Value& value, int64_t times) {
  const uint64_t count = times > 0 ? static_cast<uint64_t>(times) : 0;
  if (value.is(Kind::string)) {
    const StringObj& string = value.str();
    StringBuilder out(interp.heap());
    if (string.content.empty()) {
      out.fill(string.bytes, count);
    } else {
      QUERN_TRY_VOID(interp.charge(count, 0));
      for (uint64_t i = 0; i < count && !out.full(); ++i) out.append(string);
    }
    return out.value();
  }
  const auto& unit = value.items();
  if (!unit.empty() && count > UINT64_MAX / 64 / unit.size()) return limit_error();
  QUERN_TRY_VOID(interp.charge(count * unit.size(), count * unit.size() * sizeof(Value)));
  std::vector<Value> items;
  if (!unit.empty()) {
    for (uint64_t i = 0; i < count; ++i) items.insert(items.end(), unit.begin(), unit.end());
  }
  return interp.heap().list(std::move(items), value.kind);
}

}  // namespace

Result<Value> Interp::binary(BinaryOp op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::floating) || b.is(Kind::floating)) return float_op(op, as_double(a), as_double(b));
    return integer_op(op, as_integer(a), as_integer(b));
  }
  if (op == BinaryOp::modulo && a.is(Kind::string)) return format_percent(*this, a, b);
  if (a.is(Kind::undefined)) return type_error(undefined_message(a));
  if (b.is(Kind::undefined)) return type_error(undefined_message(b));
  const auto repeats = [](const Value& v) { return v.is(Kind::string) || v.is_sequence(); };
  const auto counts = [](const Value& v) { return v.is(Kind::integer) || v.is(Kind::boolean); };
  if (op == BinaryOp::add && a.kind == b.kind && repeats(a)) return concatenate(*this, a, b);
  if (op == BinaryOp::multiply && repeats(a) && counts(b)) return repeat(*this, a, as_integer(b));
  if (op == BinaryOp::multiply && counts(a) && repeats(b)) return repeat(*this, b, as_integer(a));
  return type_error(std::string("unsupported operand type(s) for ") + op_text(op) + ": '" + type_name(a) + "' and '" +
                    type_name(b) + "'");
}

Result<Value> Interp::eval_sign(const Expr& expr) {
  QUERN_TRY(const Value value, eval(*expr.items[0]));
  const bool negate = expr.kind == ExprKind::negate;
  if (value.is(Kind::undefined)) return type_error(undefined_message(value));
  if (value.is(Kind::floating)) return Value::of(negate ? -value.floating : value.floating);
  if (!value.is_number()) {
    return type_error(std::string("bad operand type for unary ") + (negate ? "-" : "+") + ": '" + type_name(value) +
                      "'");
  }
  return integer_op(BinaryOp::subtract, negate ? 0 : as_integer(value), negate ? as_integer(value) : 0);
}

Result<bool> ordered(Heap& heap, CompareOp op, const Value& a, const Value& b) {
  const auto nan = [](const Value& v) { return v.is(Kind::floating) && std::isnan(v.floating); };
  if ((nan(a) && b.is_number()) || (nan(b) && a.is_number())) return false;
  QUERN_TRY(const int order, compare(heap, a, b));
  switch (op) {
    case CompareOp::lt:
      return order < 0;
    case CompareOp::le:
      return order <= 0;
    case CompareOp::gt:
      return order > 0;
    case CompareOp::ge:
      return order >= 0;
    default:
      return false;
  }
}

}  // namespace quern::token::jinja
