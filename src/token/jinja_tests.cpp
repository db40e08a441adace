// The tests of `is`, and of select and its like.
#include <algorithm>
#include <iterator>

#include "token/jinja_parser_impl.h"
#include "token/jinja_strings.h"

namespace quern::token::jinja {
namespace {

struct Row {
  std::string_view name;
  Native call;
};

template <Kind kind>
Result<Value> is_kind(Interp&, const Value& self, const Args&) {
  return Value::of(self.is(kind));
}
Result<Value> is_defined(Interp&, const Value& self, const Args&) {
  return Value::of(!self.is(Kind::undefined));
}
Result<Value> is_number(Interp&, const Value& self, const Args&) {
  return Value::of(self.is_number());
}
template <bool which>
Result<Value> is_boolean_value(Interp&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::boolean) && self.boolean == which);
}

Result<Value> is_iterable(Interp&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::loop) || Iterator::over(self).ok());
}
Result<Value> is_sequence(Interp&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::string) || self.is_sequence() || self.is(Kind::dict) || self.is(Kind::range) ||
                   self.is(Kind::undefined));
}
Result<Value> is_callable(Interp&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::function) || self.is(Kind::macro) || self.is(Kind::loop) || self.is(Kind::joiner) ||
                   self.is(Kind::undefined));
}
Result<Value> is_escaped(Interp&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::string) && self.str().markup);
}

Result<bool> divides(Interp& interp, const Value& value, int64_t divisor, int64_t remainder) {
  if (value.is(Kind::string)) return type_error("a string is neither odd nor even");
  QUERN_TRY(const Value rest, interp.binary(BinaryOp::modulo, value, Value::of(divisor)));
  return equal(interp.heap(), rest, Value::of(remainder));
}
template <int64_t remainder>
Result<Value> is_parity(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const bool holds, divides(interp, self, 2, remainder));
  return Value::of(holds);
}
Result<Value> is_divisible(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("divisibleby", args, {"num"}, 1));
  if (self.is(Kind::string)) return type_error("a string is not divisible");
  QUERN_TRY(const Value rest, interp.binary(BinaryOp::modulo, self, params.values[0]));
  QUERN_TRY(const bool zero, equal(interp.heap(), rest, Value::of(int64_t{0})));
  return Value::of(zero);
}

template <bool upper>
Result<Value> is_case(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const Value text, to_str(interp.heap(), self));
  const Args none;
  return find_method(Kind::string, upper ? "isupper" : "islower")(interp, text, none);
}

template <CompareOp op>
Result<Value> is_compared(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("a comparison", args, {"other"}, 1));
  const Value& other = params.values[0];
  if (op == CompareOp::eq || op == CompareOp::ne) {
    QUERN_TRY(const bool same, equal(interp.heap(), self, other));
    return Value::of(same == (op == CompareOp::eq));
  }
  QUERN_TRY(const bool holds, ordered(interp.heap(), op, self, other));
  return Value::of(holds);
}

Result<Value> is_in(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("in", args, {"seq"}, 1));
  QUERN_TRY(const bool found, contains(interp.heap(), params.values[0], self));
  return Value::of(found);
}

Result<Value> is_same(Interp&, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("sameas", args, {"other"}, 1));
  const Value& other = params.values[0];
  if (self.kind != other.kind) return Value::of(false);
  switch (self.kind) {
    case Kind::none:
      return Value::of(true);
    case Kind::boolean:
      return Value::of(self.boolean == other.boolean);
    case Kind::integer:
      return Value::of(self.integer == other.integer);
    case Kind::floating:
      return Value::of(false);
    case Kind::string:
      return Value::of(self.object == other.object || self.text() == other.text());
    default:
      return Value::of(self.object == other.object);
  }
}

Result<Value> is_filter(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const uint64_t hash, hash_of(interp.heap(), self));  // as a look-up in a dict: lists fail
  static_cast<void>(hash);
  return Value::of(self.is(Kind::string) && find_filter(self.text()) != nullptr);
}
Result<Value> is_test(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(const uint64_t hash, hash_of(interp.heap(), self));
  static_cast<void>(hash);
  return Value::of(self.is(Kind::string) && find_test(self.text()) != nullptr);
}

constexpr Row kRows[] = {
    {"!=", is_compared<CompareOp::ne>},
    {"<", is_compared<CompareOp::lt>},
    {"<=", is_compared<CompareOp::le>},
    {"==", is_compared<CompareOp::eq>},
    {">", is_compared<CompareOp::gt>},
    {">=", is_compared<CompareOp::ge>},
    {"boolean", is_kind<Kind::boolean>},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_compared<CompareOp::eq>},
    {"equalto", is_compared<CompareOp::eq>},
    {"escaped", is_escaped},
    {"even", is_parity<0>},
    {"false", is_boolean_value<false>},
    {"filter", is_filter},
    {"float", is_kind<Kind::floating>},
    {"ge", is_compared<CompareOp::ge>},
    {"greaterthan", is_compared<CompareOp::gt>},
    {"gt", is_compared<CompareOp::gt>},
    {"in", is_in},
    {"integer", is_kind<Kind::integer>},
    {"iterable", is_iterable},
    {"le", is_compared<CompareOp::le>},
    {"lessthan", is_compared<CompareOp::lt>},
    {"lower", is_case<false>},
    {"lt", is_compared<CompareOp::lt>},
    {"mapping", is_kind<Kind::dict>},
    {"ne", is_compared<CompareOp::ne>},
    {"none", is_kind<Kind::none>},
    {"number", is_number},
    {"odd", is_parity<1>},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_kind<Kind::string>},
    {"test", is_test},
    {"true", is_boolean_value<true>},
    {"undefined", is_kind<Kind::undefined>},
    {"upper", is_case<true>},
};

}  // namespace

Native find_test(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  return row != std::end(kRows) ? row->call : nullptr;
}

bool is_known_test(std::string_view name) {
  return find_test(name) != nullptr;
}

}  // namespace quern::token::jinja
