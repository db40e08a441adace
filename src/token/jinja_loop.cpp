// The for statement and its `loop` variable.
#include "token/jinja_interp.h"

namespace quern::token::jinja {

Result<Interp::Flow> Interp::exec_for(const Stmt& stmt) {
  QUERN_TRY(const Value iterable, eval(*stmt.exprs[0]));
  return run_loop(stmt, iterable, 0);
}

Result<Interp::Flow> Interp::run_loop(const Stmt& stmt, const Value& iterable, int64_t depth0) {
  auto* loop = heap_.make<LoopObj>();
  QUERN_TRY(loop->source, Iterator::over(iterable));
  loop->statement = &stmt;
  loop->outer = scope_;
  loop->depth0 = depth0;
  bool completed = false;
  QUERN_TRY(const Flow flow, loop_iterations(stmt, *loop, completed));
  // As in Jinja, an iteration that ends in break or continue does not count as one.
  if (completed || stmt.otherwise.empty()) return flow;
  return exec_scoped(stmt.otherwise, new_scope(scope_));
}

Result<Interp::Flow> Interp::loop_iterations(const Stmt& stmt, LoopObj& loop, bool& completed) {
  Scope* const outer = scope_;
  Scope* scope = new_scope(outer);
  Value item;
  for (;;) {
    line_ = stmt.line;
    QUERN_TRY(const bool more, loop_next(loop, item));
    if (!more) return Flow::normal;
    if (heap_.exhausted()) return limit_error();
    if (scope->captured) scope = new_scope(outer);  // a macro of the last iteration keeps its variables
    scope->variables.clear();
    if (loop_name_) set_variable(*scope, *loop_name_, {Kind::loop, &loop});
    QUERN_TRY_VOID(assign(*scope, stmt.targets[0], item));
    QUERN_TRY(const Flow flow, exec_scoped(stmt.body, scope));
    if (flow == Flow::break_) return Flow::normal;
    completed = completed || flow == Flow::normal;
  }
}

// The next item of the source that passes the statement's filter.
Result<bool> Interp::loop_pull(LoopObj& loop, Value& item) {
  const Expr* test = loop.statement->exprs[1].get();
  while (loop.source.next(heap_, item)) {
    if (heap_.exhausted()) return limit_error();
    if (test == nullptr) return true;
    Scope* const current = scope_;
    scope_ = new_scope(loop.outer);
    auto passed = assign(*scope_, loop.statement->targets[0], item);
    auto value = passed.ok() ? eval(*test) : Result<Value>(passed.error());
    scope_ = current;
    if (!value.ok()) return value.error();
    if (truthy(*value)) return true;
  }
  return false;
}

Result<bool> Interp::loop_next(LoopObj& loop, Value& item) {
  if (!loop.ahead.empty()) {
    item = loop.ahead.front();
    loop.ahead.pop_front();
  } else {
    QUERN_TRY(const bool more, loop_pull(loop, item));
    if (!more) return false;
  }
  ++loop.index0;
  loop.previous = loop.current;
  loop.current = item;
  return true;
}

Result<bool> Interp::loop_peek(LoopObj& loop) {
  if (!loop.ahead.empty()) return true;
  Value item;
  QUERN_TRY(const bool more, loop_pull(loop, item));
  if (more) loop.ahead.push_back(item);
  return more;
}

Result<int64_t> Interp::loop_length(LoopObj& loop) {
  if (loop.statement->exprs[1] == nullptr && loop.source.length() >= 0) return loop.source.length();
  Value item;
  for (;;) {
    QUERN_TRY(const bool more, loop_pull(loop, item));
    if (!more) return loop.index0 + 1 + static_cast<int64_t>(loop.ahead.size());
    QUERN_TRY_VOID(charge(1, sizeof(Value)));
    loop.ahead.push_back(item);
  }
}

namespace {

Result<Value> loop_cycle(Interp&, const Value& self, const Args& args) {
  if (args.positional.empty()) return type_error("no items for cycling given");
  const auto index = static_cast<size_t>(self.as<LoopObj>().index0);
  return args.positional[index % args.positional.size()];
}

Result<Value> loop_changed(Interp& interp, const Value& self, const Args& args) {
  auto& loop = self.as<LoopObj>();
  bool same = loop.last_changed && loop.last_changed->size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    QUERN_TRY(same, equal(interp.heap(), (*loop.last_changed)[i], args.positional[i]));
  }
  if (!same) loop.last_changed = args.positional;
  return Value::of(!same);
}

}  // namespace

Result<Value> Interp::loop_attribute(const Value& object, std::string_view name) {
  auto& loop = object.as<LoopObj>();
  if (name == "index") return Value::of(loop.index0 + 1);
  if (name == "index0") return Value::of(loop.index0);
  if (name == "first") return Value::of(loop.index0 == 0);
  if (name == "depth") return Value::of(loop.depth0 + 1);
  if (name == "depth0") return Value::of(loop.depth0);
  if (name == "cycle") return heap_.function("cycle", loop_cycle, object);
  if (name == "changed") return heap_.function("changed", loop_changed, object);
  if (name == "previtem") return loop.index0 == 0 ? heap_.undefined("there is no previous item") : loop.previous;
  if (name == "last" || name == "nextitem") {
    QUERN_TRY(const bool more, loop_peek(loop));
    if (name == "last") return Value::of(!more);
    return more ? loop.ahead.front() : heap_.undefined("there is no next item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    QUERN_TRY(const int64_t length, loop_length(loop));
    return Value::of(name == "length" ? length : length - loop.index0 - (name == "revindex0" ? 1 : 0));
  }
  return missing(object, name);
}

// `loop(items)` in a recursive loop: the text of the statement run over `items`, one level deeper.
Result<Value> Interp::call_loop(LoopObj& loop, const Args& args) {
  if (!loop.statement->recursive) {
    return type_error("the loop must have the 'recursive' marker to be called recursively");
  }
  if (args.positional.size() != 1 || !args.named.empty()) return type_error("loop() takes the items to walk");
  const Level level(*this);
  QUERN_TRY_VOID(level.check());
  StringBuilder buffer(heap_);
  const Redirect redirect(*this, buffer, loop.outer);
  QUERN_TRY(const Flow flow, run_loop(*loop.statement, args.positional[0], loop.depth0 + 1));
  static_cast<void>(flow);
  return buffer.value();
}

}  // namespace quern::token::jinja
