// Evaluating expressions: names, literals, attributes and items, slices, calls, filters, tests, logic.
#include <algorithm>

#include "token/jinja_interp.h"

namespace quern::token::jinja {

Result<Value> Interp::eval(const Expr& expr) {
  const Level level(*this);
  QUERN_TRY_VOID(level.check());
  line_ = expr.line;
  return eval_node(expr);
}

Result<Value> Interp::eval_node(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::none:
      return Value();
    case ExprKind::boolean:
      return Value::of(expr.boolean);
    case ExprKind::integer:
      return Value::of(expr.integer);
    case ExprKind::floating:
      return Value::of(expr.number);
    case ExprKind::string:
      return heap_.literal(expr.text);
    case ExprKind::name:
      return eval_name(expr);
    case ExprKind::list:
      return eval_items(expr, Kind::list);
    case ExprKind::tuple:
      return eval_items(expr, Kind::tuple);
    case ExprKind::dict:
      return eval_dict(expr);
    case ExprKind::attribute: {
      QUERN_TRY(const Value object, eval(*expr.items[0]));
      return attribute(object, expr.text);
    }
    case ExprKind::subscript: {
      QUERN_TRY(const Value object, eval(*expr.items[0]));
      QUERN_TRY(const Value key, eval(*expr.items[1]));
      return item(object, key);
    }
    case ExprKind::slice:
      return eval_slice(expr);
    case ExprKind::call:
      return eval_call(expr, nullptr);
    case ExprKind::filter:
      return eval_filter(expr);
    case ExprKind::test:
      return eval_test(expr);
    case ExprKind::negate:
    case ExprKind::plus:
      return eval_sign(expr);
    case ExprKind::logical_not: {
      QUERN_TRY(const Value value, eval(*expr.items[0]));
      return Value::of(!truthy(value));
    }
    case ExprKind::logical_and:
    case ExprKind::logical_or:
      return eval_logical(expr);
    case ExprKind::conditional:
      return eval_conditional(expr);
    case ExprKind::binary: {
      QUERN_TRY(const Value left, eval(*expr.items[0]));
      QUERN_TRY(const Value right, eval(*expr.items[1]));
      return binary(expr.op, left, right);
    }
    case ExprKind::concat:
      return eval_concat(expr);
    case ExprKind::compare:
      return eval_compare(expr);
  }
  return Value();
}

Result<Value> Interp::eval_name(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& variable : scope->variables) {
      if (variable.first == expr.name) return variable.second;
    }
    heap_.spend(1, 0);
  }
  if (globals_[expr.name]) return *globals_[expr.name];
  auto* undefined = heap_.make<UndefinedObj>();
  undefined->name = "'" + tree_.names[expr.name] + "'";
  return Value(Kind::undefined, undefined);
}

Result<Value> Interp::eval_items(const Expr& expr, Kind kind) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const auto& part : expr.items) {
    QUERN_TRY(const Value value, eval(*part));
    items.push_back(value);
  }
  return heap_.list(std::move(items), kind);
}

Result<Value> Interp::eval_dict(const Expr& expr) {
  auto* dict = heap_.make<DictObj>();
  for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    QUERN_TRY(const Value key, eval(*expr.items[i]));
    QUERN_TRY(const Value value, eval(*expr.items[i + 1]));
    QUERN_TRY_VOID(dict_set(heap_, *dict, key, value));
  }
  return Value(Kind::dict, dict);
}

Value Interp::missing(const Value& object, std::string_view name) {
  auto* undefined = heap_.make<UndefinedObj>();
  undefined->name = "'" + std::string(name.substr(0, 200)) + "'";
  undefined->owner = object.is(Kind::none)      ? "None"
                     : object.is(Kind::string)  ? "str object"
                     : object.is(Kind::list)    ? "list object"
                     : object.is(Kind::tuple)   ? "tuple object"
                     : object.is(Kind::dict)    ? "dict object"
                     : object.is(Kind::integer) ? "int object"
                                                : type_name(object);
  return {Kind::undefined, undefined};
}

Value Interp::missing_element(const Value& object, const Value& key) {
  if (key.is(Kind::string)) return missing(object, key.text());
  Value result = missing(object, "");
  auto& undefined = result.as<UndefinedObj>();
  undefined.is_element = true;
  undefined.name = key.is(Kind::integer) ? std::to_string(key.integer) : std::string("of type ") + type_name(key);
  return result;
}

Result<std::optional<Value>> Interp::own_attribute(const Value& object, std::string_view name) {
  using Found = std::optional<Value>;
  if (name.starts_with("__") && name.ends_with("__")) {
    return Found(heap_.undefined("access to attribute '" + std::string(name) + "' of '" + type_name(object) +
                                 "' object is unsafe."));
  }
  switch (object.kind) {
    case Kind::name_space: {
      const Value* found = dict_find(*object.as<NamespaceObj>().attributes, name);
      return found != nullptr ? Found(*found) : Found();
    }
    case Kind::loop: {
      QUERN_TRY(const Value value, loop_attribute(object, name));
      return Found(value);
    }
    case Kind::cycler: {
      const auto& cycler = object.as<CyclerObj>();
      if (name == "current") return Found(cycler.items[cycler.position]);
      break;
    }
    case Kind::macro:
      return name == "name" ? Found(heap_.literal(object.as<MacroObj>().macro->name)) : Found();
    case Kind::tuple:
      if (object.as<ListObj>().is_group && name == "grouper") return Found(object.items()[0]);
      if (object.as<ListObj>().is_group && name == "list") return Found(object.items()[1]);
      break;
    default:
      break;
  }
  if (const Native native = find_method(object.kind, name)) return Found(heap_.function(name, native, object));
  if (is_forbidden_method(object.kind, name)) {
    return Found(heap_.undefined("access to attribute '" + std::string(name) + "' of '" + type_name(object) +
                                 "' object is unsafe."));
  }
  return Found();
}

Result<std::optional<Value>> Interp::own_item(const Value& object, const Value& key) {
  using Found = std::optional<Value>;
  if (object.is(Kind::dict)) {
    auto found = dict_find(heap_, object.dict(), key);
    if (!found.ok()) return found.error().status == Status::limit_exceeded ? Result<Found>(found.error()) : Found();
    return *found != nullptr ? Found(**found) : Found();
  }
  if (!key.is(Kind::integer) && !key.is(Kind::boolean)) return Found();
  if (!object.is(Kind::string) && !object.is_sequence() && !object.is(Kind::range)) return Found();
  QUERN_TRY(const int64_t length, length_of(object));
  int64_t index = key.is(Kind::integer) ? key.integer : (key.boolean ? 1 : 0);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return Found();
  if (object.is_sequence()) return Found(object.items()[static_cast<size_t>(index)]);
  if (object.is(Kind::range)) return Found(Value::of(object.as<RangeObj>().at(index)));
  const StringObj& string = object.str();
  auto begin = static_cast<size_t>(index);
  size_t size = 1;
  if (!string.ascii()) {
    heap_.spend(begin / 4, 0);
    begin = char_position(string.bytes, begin);
    decode_at(string.bytes, begin, &size);
  }
  return Found(heap_.substring(object, begin, begin + size));
}

Result<Value> Interp::attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::undefined)) return type_error(undefined_message(object));
  QUERN_TRY(const auto own, own_attribute(object, name));
  if (own) return *own;
  if (object.is(Kind::dict)) {
    if (const Value* found = dict_find(object.dict(), name)) return *found;
  }
  return missing(object, name);
}

Result<Value> Interp::item(const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) return type_error(undefined_message(object));
  QUERN_TRY(const auto own, own_item(object, key));
  if (own) return *own;
  if (key.is(Kind::string)) {
    QUERN_TRY(const auto found, own_attribute(object, key.text()));
    if (found) return *found;
  }
  return missing_element(object, key);
}

namespace {

// A slice over `length` items, by Python's rules: first index, step and how many.
struct SliceRange {
  int64_t start = 0, stop = 0, step = 1, count = 0;
};

Result<SliceRange> slice_range(int64_t length, const Value (&bounds)[3]) {
  int64_t numbers[3] = {};
  bool given[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (bounds[i].is(Kind::none)) continue;
    if (!bounds[i].is(Kind::integer) && !bounds[i].is(Kind::boolean)) {
      return type_error("slice indices must be integers or None");
    }
    given[i] = true;
    numbers[i] = bounds[i].is(Kind::integer) ? bounds[i].integer : (bounds[i].boolean ? 1 : 0);
  }
  SliceRange range;
  if (given[2]) range.step = numbers[2];
  if (range.step == 0) return type_error("slice step cannot be zero");
  const bool down = range.step < 0;
  if (range.step < -length - 1) range.step = -length - 1;  // the same items, and no overflow
  const auto clip = [&](int64_t i) {
    if (i < 0) i = i < -length ? -1 : i + length;
    return std::clamp<int64_t>(i, down ? -1 : 0, down ? length - 1 : length);
  };
  range.start = given[0] ? clip(numbers[0]) : (down ? length - 1 : 0);
  const int64_t stop = range.stop = given[1] ? clip(numbers[1]) : (down ? -1 : length);
  if (down && range.start > stop) range.count = (range.start - stop - 1) / -range.step + 1;
  if (!down && range.start < stop) range.count = (stop - range.start - 1) / range.step + 1;
  return range;
}

Result<Value> slice_string(Interp& interp, const Value& object, const SliceRange& range) {
  Heap& heap = interp.heap();
  const StringObj& string = object.str();
  if (range.count == 0) return heap.substring(object, 0, 0);
  if (range.step == 1) {
    const auto start = static_cast<size_t>(range.start);
    const auto count = static_cast<size_t>(range.count);
    if (string.ascii()) return heap.substring(object, start, start + count);
    heap.spend(string.bytes.size() / 4, 0);
    const size_t begin = char_position(string.bytes, start);
    return heap.substring(object, begin, begin + char_position(string.bytes.substr(begin), count));
  }
  QUERN_TRY_VOID(interp.charge(string.n_chars, string.n_chars * sizeof(size_t)));
  std::vector<size_t> positions;  // of each character, and the end
  size_t length = 0;
  for (size_t pos = 0; pos < string.bytes.size(); pos += length) {
    positions.push_back(pos);
    decode_at(string.bytes, pos, &length);
  }
  positions.push_back(string.bytes.size());
  StringBuilder out(heap);
  for (int64_t i = 0; i < range.count; ++i) {
    const auto at = static_cast<size_t>(range.start + i * range.step);
    out.append(string, positions[at], positions[at + 1]);
  }
  return out.value();
}

}  // namespace

Result<Value> Interp::eval_slice(const Expr& expr) {
  QUERN_TRY(const Value object, eval(*expr.items[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.items[i + 1]) continue;
    QUERN_TRY(bounds[i], eval(*expr.items[i + 1]));
  }
  if (object.is(Kind::undefined)) return type_error(undefined_message(object));
  if (!object.is(Kind::string) && !object.is_sequence() && !object.is(Kind::range)) {
    return type_error(std::string("'") + type_name(object) + "' object cannot be sliced");
  }
  QUERN_TRY(const int64_t length, length_of(object));
  QUERN_TRY(const SliceRange range, slice_range(length, bounds));
  if (object.is(Kind::string)) return slice_string(*this, object, range);
  if (object.is(Kind::range)) {
    const auto& whole = object.as<RangeObj>();
    auto* part = heap_.make<RangeObj>();
    part->start = whole.at(range.start);
    part->step = whole.step * range.step;
    part->length = range.count;
    part->stop = whole.at(range.stop);
    return Value(Kind::range, part);
  }
  QUERN_TRY_VOID(charge(static_cast<uint64_t>(range.count), static_cast<uint64_t>(range.count) * sizeof(Value)));
  std::vector<Value> items;
  for (int64_t i = 0; i < range.count; ++i) {
    items.push_back(object.items()[static_cast<size_t>(range.start + i * range.step)]);
  }
  return heap_.list(std::move(items), object.kind);
}

Result<Args> Interp::eval_arguments(const Arguments* arguments) {
  Args args;
  if (arguments == nullptr) return args;
  for (const auto& expr : arguments->positional) {
    QUERN_TRY(const Value value, eval(*expr));
    args.positional.push_back(value);
  }
  if (arguments->star) {
    QUERN_TRY(const Value star, eval(*arguments->star));
    QUERN_TRY(const auto items, to_vector(heap_, star));
    args.positional.insert(args.positional.end(), items.begin(), items.end());
  }
  for (const auto& [name, expr] : arguments->named) {
    QUERN_TRY(const Value value, eval(*expr));
    args.named.emplace_back(name, value);
  }
  if (arguments->star_star) {
    QUERN_TRY(const Value rest, eval(*arguments->star_star));
    if (!rest.is(Kind::dict)) return type_error("argument after ** must be a mapping");
    QUERN_TRY_VOID(charge(rest.dict().entries.size() * (args.named.size() + 1), 0));
    const size_t n_named = args.named.size();
    for (const auto& entry : rest.dict().entries) {
      if (!entry.key.is(Kind::string)) return type_error("keywords must be strings");
      for (size_t i = 0; i < n_named; ++i) {
        if (args.named[i].first == entry.key.text()) return type_error("a keyword argument is given twice");
      }
      args.named.emplace_back(entry.key.text(), entry.value);
    }
  }
  return args;
}

Result<Value> Interp::eval_call(const Expr& expr, const Value* caller) {
  QUERN_TRY(const Value callee, eval(*expr.items[0]));
  QUERN_TRY(Args args, eval_arguments(expr.arguments.get()));
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, args);
}

Result<Value> Interp::call(const Value& callee, const Args& args) {
  switch (callee.kind) {
    case Kind::undefined:
      return type_error(undefined_message(callee));
    case Kind::macro:
      return call_macro(callee.as<MacroObj>(), args);
    case Kind::loop:
      return call_loop(callee.as<LoopObj>(), args);
    case Kind::function:
      return callee.as<FunctionObj>().call(*this, callee.as<FunctionObj>().self, args);
    case Kind::joiner: {
      auto& joiner = callee.as<JoinerObj>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return heap_.literal("");
    }
    default:
      return type_error(std::string("'") + type_name(callee) + "' object is not callable");
  }
}

Result<Value> Interp::filter(std::string_view name, const Value& input, const Args& args) {
  const Native native = find_filter(name);
  if (native == nullptr) return type_error("no filter named '" + std::string(name) + "'");
  return native(*this, input, args);
}

Result<bool> Interp::test(std::string_view name, const Value& input, const Args& args) {
  const Native native = find_test(name);
  if (native == nullptr) return type_error("no test named '" + std::string(name) + "'");
  QUERN_TRY(const Value value, native(*this, input, args));
  return truthy(value);
}

Result<Value> Interp::eval_filter(const Expr& expr) {
  Value input = block_input_;
  if (expr.items[0]) {
    QUERN_TRY(input, eval(*expr.items[0]));
  }
  QUERN_TRY(const Args args, eval_arguments(expr.arguments.get()));
  line_ = expr.line;
  return filter(expr.text, input, args);
}

Result<Value> Interp::eval_test(const Expr& expr) {
  QUERN_TRY(const Value input, eval(*expr.items[0]));
  QUERN_TRY(const Args args, eval_arguments(expr.arguments.get()));
  line_ = expr.line;
  QUERN_TRY(const bool passed, test(expr.text, input, args));
  return Value::of(passed);
}

Result<Value> Interp::eval_logical(const Expr& expr) {
  QUERN_TRY(const Value left, eval(*expr.items[0]));
  if (truthy(left) == (expr.kind == ExprKind::logical_or)) return left;
  return eval(*expr.items[1]);
}

Result<Value> Interp::eval_conditional(const Expr& expr) {
  QUERN_TRY(const Value test, eval(*expr.items[1]));
  if (truthy(test)) return eval(*expr.items[0]);
  if (expr.items[2]) return eval(*expr.items[2]);
  return heap_.undefined("the inline if-expression on line " + std::to_string(expr.line) +
                         " evaluated to false and no else section was defined.");
}

Result<Value> Interp::eval_concat(const Expr& expr) {
  StringBuilder out(heap_);
  for (const auto& part : expr.items) {
    QUERN_TRY(const Value value, eval(*part));
    QUERN_TRY_VOID(append_str(out, value));
  }
  return out.value();
}

Result<Value> Interp::eval_compare(const Expr& expr) {
  QUERN_TRY(Value left, eval(*expr.items[0]));
  for (size_t i = 0; i < expr.compares.size(); ++i) {
    QUERN_TRY(const Value right, eval(*expr.items[i + 1]));
    const CompareOp op = expr.compares[i];
    bool holds = false;
    if (op == CompareOp::eq || op == CompareOp::ne) {
      QUERN_TRY(const bool same, equal(heap_, left, right));
      holds = same == (op == CompareOp::eq);
    } else if (op == CompareOp::in || op == CompareOp::not_in) {
      QUERN_TRY(const bool found, contains(heap_, right, left));
      holds = found == (op == CompareOp::in);
    } else {
      QUERN_TRY(holds, ordered(heap_, op, left, right));
    }
    if (!holds) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

}  // namespace quern::token::jinja
