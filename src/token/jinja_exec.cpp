// Running statements: output, assignment, loops, macros, and the render as a whole.
#include <new>
#include <nlohmann/json.hpp>

#include "token/jinja_interp.h"

namespace quern::token::jinja {

Result<Template> Template::parse(std::string_view source, const ParseLimits& limits) {
  try {
    Template result;
    QUERN_TRY(result.tree_, jinja::parse(source, limits));
    return result;
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to parse the chat template"};
  }
}

Result<Rendered> Template::render(std::span<const Variable> variables, const RenderOptions& options) const {
  try {
    return Interp(tree_, options).run(variables);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to render the chat template"};
  }
}

bool Template::mentions(std::string_view name) const {
  for (const auto& known : tree_.names) {
    if (known == name) return true;
  }
  return false;
}

Result<Rendered> Interp::run(std::span<const Variable> variables) {
  StringBuilder out(heap_);
  out_ = &out;
  scope_ = new_scope(nullptr);
  QUERN_TRY_VOID(define_globals(variables));
  const auto flow = exec_block(tree_.body);
  if (!flow.ok()) {
    Error error = flow.error();
    if (!raised_) error.message = "template line " + std::to_string(line_) + ": " + error.message;
    return error;
  }
  if (out.full()) return limit_error();
  return Rendered{out.take_text(), out.take_content()};
}

Result<void> Interp::define_globals(std::span<const Variable> variables) {
  globals_.resize(tree_.names.size());
  for (size_t id = 0; id < tree_.names.size(); ++id) {
    const std::string& name = tree_.names[id];
    for (const auto& variable : variables) {
      if (variable.name != name) continue;
      QUERN_TRY(globals_[id], from_json(heap_, *variable.value, variable.is_content, options_.vocabulary));
    }
    if (name == "loop") loop_name_ = static_cast<NameId>(id);
    if (globals_[id]) continue;
    if (const Native native = find_global(name)) globals_[id] = heap_.function(name, native);
  }
  return {};
}

Result<void> Interp::charge(uint64_t fuel, uint64_t bytes) {
  if (!heap_.can_take(bytes)) return limit_error();
  heap_.spend(fuel, bytes);
  if (heap_.exhausted()) return limit_error();
  return {};
}

Result<void> Interp::Level::check() const {
  interp_.heap_.spend(1, 0);
  if (interp_.heap_.exhausted()) return limit_error();
  if (interp_.depth_ <= interp_.options_.max_depth) return {};
  return Error{Status::limit_exceeded, "evaluation is nested too deeply"};
}

Error Interp::raised(std::string message) {
  raised_ = true;
  return Error{Status::invalid_argument, std::move(message)};
}

Scope* Interp::new_scope(Scope* parent) {
  auto* scope = heap_.make<Scope>();
  scope->parent = parent;
  return scope;
}

void Interp::set_variable(Scope& scope, NameId name, const Value& value) {
  for (auto& variable : scope.variables) {
    if (variable.first == name) {
      variable.second = value;
      return;
    }
  }
  heap_.spend(0, sizeof(scope.variables[0]));
  scope.variables.emplace_back(name, value);
}

Result<void> Interp::assign(Scope& scope, const Target& target, const Value& value) {
  if (target.kind == Target::Kind::name) {
    set_variable(scope, target.name, value);
    return {};
  }
  if (target.kind == Target::Kind::attribute) {
    Expr name;
    name.kind = ExprKind::name;
    name.name = target.name;
    name.line = target.line;
    QUERN_TRY(const Value object, eval_name(name));
    if (!object.is(Kind::name_space)) return type_error("cannot assign attribute on non-namespace object");
    if (target.attribute[0] == '_') {
      return type_error("namespace attributes must not begin with an underscore: '" + target.attribute + "'");
    }
    return dict_set(heap_, *object.as<NamespaceObj>().attributes, heap_.literal(target.attribute), value);
  }
  QUERN_TRY(const std::vector<Value> items, to_vector(heap_, value));
  if (items.size() != target.items.size()) {
    return type_error("cannot unpack " + std::to_string(items.size()) + " values into " +
                      std::to_string(target.items.size()) + " names");
  }
  for (size_t i = 0; i < items.size(); ++i) QUERN_TRY_VOID(assign(scope, target.items[i], items[i]));
  return {};
}

Result<void> Interp::check_output() const {
  if (out_->full()) return limit_error();
  if (out_->size() > options_.max_output_bytes) {
    return Error{Status::limit_exceeded, "the template writes more than " + std::to_string(options_.max_output_bytes) +
                                             " bytes, the limit of a prompt"};
  }
  return {};
}

Result<void> Interp::emit(const Value& value) {
  QUERN_TRY_VOID(append_str(*out_, value));
  return check_output();
}

Result<Interp::Flow> Interp::exec_block(const Block& block) {
  const Level level(*this);
  QUERN_TRY_VOID(level.check());
  for (const auto& stmt : block) {
    QUERN_TRY(const Flow flow, exec(stmt));
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Result<Interp::Flow> Interp::exec_scoped(const Block& block, Scope* scope) {
  const Redirect redirect(*this, *out_, scope);
  return exec_block(block);
}

Result<Interp::Flow> Interp::exec(const Stmt& stmt) {
  line_ = stmt.line;
  heap_.spend(1, 0);
  switch (stmt.kind) {
    case StmtKind::text:
      out_->append(stmt.text);
      QUERN_TRY_VOID(check_output());
      return Flow::normal;
    case StmtKind::output:
      for (const auto& expr : stmt.exprs) {
        QUERN_TRY(const Value value, eval(*expr));
        QUERN_TRY_VOID(emit(value));
      }
      return Flow::normal;
    case StmtKind::set:
      QUERN_TRY_VOID(exec_set(stmt));
      return Flow::normal;
    case StmtKind::macro:
      set_variable(*scope_, stmt.macro->name_id, make_macro(*stmt.macro));
      return Flow::normal;
    case StmtKind::call_block:
      QUERN_TRY_VOID(exec_call_block(stmt));
      return Flow::normal;
    case StmtKind::if_:
      return exec_if(stmt);
    case StmtKind::for_:
      return exec_for(stmt);
    case StmtKind::set_block:
      return exec_set_block(stmt);
    case StmtKind::filter_block:
      return exec_filter_block(stmt);
    case StmtKind::with:
      return exec_with(stmt);
    case StmtKind::scope:
      return exec_scoped(stmt.body, new_scope(scope_));
    case StmtKind::break_:
      return Flow::break_;
    case StmtKind::continue_:
      return Flow::continue_;
  }
  return Flow::normal;
}

Result<Interp::Flow> Interp::exec_if(const Stmt& stmt) {
  for (const auto& branch : stmt.branches) {
    QUERN_TRY(const Value test, eval(*branch.test));
    if (truthy(test)) return exec_block(branch.body);
  }
  return exec_block(stmt.otherwise);
}

Result<void> Interp::exec_set(const Stmt& stmt) {
  QUERN_TRY(const Value value, eval(*stmt.exprs[0]));
  return assign(*scope_, stmt.targets[0], value);
}

Result<Interp::Flow> Interp::exec_set_block(const Stmt& stmt) {
  StringBuilder buffer(heap_);
  Scope* inner = new_scope(scope_);
  Value value;
  {
    const Redirect redirect(*this, buffer, inner);
    QUERN_TRY(const Flow flow, exec_block(stmt.body));
    if (flow != Flow::normal) return flow;
    QUERN_TRY(value, buffer.value());
    if (stmt.exprs[0]) {
      block_input_ = value;
      QUERN_TRY(value, eval(*stmt.exprs[0]));
    }
  }
  QUERN_TRY_VOID(assign(*scope_, stmt.targets[0], value));
  return Flow::normal;
}

Result<Interp::Flow> Interp::exec_filter_block(const Stmt& stmt) {
  StringBuilder buffer(heap_);
  Value value;
  {
    const Redirect redirect(*this, buffer, new_scope(scope_));
    QUERN_TRY(const Flow flow, exec_block(stmt.body));
    if (flow != Flow::normal) return flow;
    QUERN_TRY(block_input_, buffer.value());
    QUERN_TRY(value, eval(*stmt.exprs[0]));
  }
  QUERN_TRY_VOID(emit(value));
  return Flow::normal;
}

Result<Interp::Flow> Interp::exec_with(const Stmt& stmt) {
  Scope* inner = new_scope(scope_);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    QUERN_TRY(const Value value, eval(*stmt.exprs[i]));
    QUERN_TRY_VOID(assign(*inner, stmt.targets[i], value));
  }
  return exec_scoped(stmt.body, inner);
}

Result<void> Interp::exec_call_block(const Stmt& stmt) {
  const Value caller = make_macro(*stmt.macro);
  QUERN_TRY(const Value value, eval_call(*stmt.exprs[0], &caller));
  return emit(value);
}

Value Interp::make_macro(const Macro& macro) {
  auto* object = heap_.make<MacroObj>();
  object->macro = &macro;
  object->scope = scope_;
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  return {Kind::macro, object};
}

Result<Value> Interp::call_macro(const MacroObj& object, const Args& args) {
  const Level level(*this);
  QUERN_TRY_VOID(level.check());
  const uint32_t line = line_;
  StringBuilder buffer(heap_);
  Scope* scope = new_scope(object.scope);
  const Redirect redirect(*this, buffer, scope);
  QUERN_TRY_VOID(bind_macro(object, args, *scope));
  QUERN_TRY(const Flow flow, exec_block(object.macro->body));
  static_cast<void>(flow);  // the parser lets no break out of a macro
  line_ = line;
  return buffer.value();
}

Result<void> Interp::bind_macro(const MacroObj& object, const Args& args, Scope& scope) {
  const Macro& macro = *object.macro;
  const size_t n = macro.parameters.size();
  const size_t first_default = n - macro.defaults.size();
  std::vector<bool> used(args.named.size());
  // A default sees the parameters before it; the others hide what is outside, as undefined.
  for (size_t i = 0; i < n; ++i) {
    set_variable(scope, macro.parameters[i], heap_.undefined("'" + macro.parameter_names[i] + "' is undefined"));
  }
  for (size_t i = 0; i < n; ++i) {
    std::optional<Value> value;
    if (i < args.positional.size()) value = args.positional[i];
    for (size_t k = 0; k < args.named.size() && !value; ++k) {
      if (args.named[k].first != macro.parameter_names[i]) continue;
      value = args.named[k].second;
      used[k] = true;
    }
    if (!value && i >= first_default) {
      QUERN_TRY(value, eval(*macro.defaults[i - first_default]));
    }
    if (!value) value = heap_.undefined("parameter '" + macro.parameter_names[i] + "' was not provided");
    set_variable(scope, macro.parameters[i], *value);
  }
  return bind_extra(macro, args, used, scope);
}

// caller, kwargs and varargs: bound where the body mentions them, an error where given and not mentioned.
Result<void> Interp::bind_extra(const Macro& macro, const Args& args, std::vector<bool>& used, Scope& scope) {
  const auto name_id = [&](std::string_view name) -> std::optional<NameId> {
    for (const auto& parameter : macro.parameter_names) {
      if (parameter == name) return std::nullopt;  // an ordinary parameter took the name
    }
    for (size_t id = 0; id < tree_.names.size(); ++id) {
      if (tree_.names[id] == name) return static_cast<NameId>(id);
    }
    return std::nullopt;
  };
  if (const auto id = name_id("caller"); id && macro.uses_caller) {
    std::optional<Value> caller;
    for (size_t k = 0; k < args.named.size(); ++k) {
      if (used[k] || args.named[k].first != "caller") continue;
      caller = args.named[k].second;
      used[k] = true;
    }
    set_variable(scope, *id, caller ? *caller : heap_.undefined("No caller defined"));
  }
  auto* rest = heap_.make<DictObj>();
  for (size_t k = 0; k < args.named.size(); ++k) {
    if (used[k]) continue;
    const auto& [name, value] = args.named[k];
    if (!macro.uses_kwargs) {
      return type_error("macro '" + macro.name + "' takes no keyword argument '" + std::string(name) + "'");
    }
    QUERN_TRY_VOID(dict_set(heap_, *rest, heap_.literal(name), value));
  }
  if (const auto id = name_id("kwargs"); id && macro.uses_kwargs) set_variable(scope, *id, {Kind::dict, rest});
  const size_t n = macro.parameters.size();
  if (const auto id = name_id("varargs"); id && macro.uses_varargs) {
    std::vector<Value> extra;
    for (size_t i = n; i < args.positional.size(); ++i) extra.push_back(args.positional[i]);
    set_variable(scope, *id, heap_.list(std::move(extra), Kind::tuple));
  } else if (args.positional.size() > n) {
    return type_error("macro '" + macro.name + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  return {};
}

}  // namespace quern::token::jinja
