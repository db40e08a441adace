// The interpreter: one object per render. Statements are in jinja_exec.cpp, expressions in jinja_eval.cpp, operators in
// jinja_operators.cpp; filters, tests, methods and global functions are tables of natives in their own files.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>

#include "token/jinja.h"
#include "token/jinja_ops.h"

namespace quern::token::jinja {

// A running for statement, which is also the template's `loop`.
struct LoopObj : Object {
  const Stmt* statement = nullptr;
  Scope* outer = nullptr;  // where the statement stands
  Iterator source;
  std::deque<Value> ahead;  // taken from the source, not yet handed out
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Value previous, current;
  std::optional<std::vector<Value>> last_changed;
};

class Interp {
 public:
  Interp(const Tree& tree, const RenderOptions& options)
      : tree_(tree), options_(options), heap_(options.fuel, options.max_memory_bytes) {}
  Result<Rendered> run(std::span<const Variable> variables);

  // For natives.
  Heap& heap() { return heap_; }
  const RenderOptions& options() const { return options_; }
  // Fails when the budget has no room for `bytes` more, before they are allocated.
  Result<void> charge(uint64_t fuel, uint64_t bytes);
  Result<Value> call(const Value& callee, const Args& args);
  Result<Value> attribute(const Value& object, std::string_view name);
  Result<Value> item(const Value& object, const Value& key);
  Result<Value> binary(BinaryOp op, const Value& a, const Value& b);
  Result<Value> filter(std::string_view name, const Value& input, const Args& args);
  Result<bool> test(std::string_view name, const Value& input, const Args& args);
  // The error of raise_exception: its message is passed on as it is.
  Error raised(std::string message);

 private:
  enum class Flow : uint8_t { normal, break_, continue_ };

  // One level of nested evaluation.
  class Level {
   public:
    explicit Level(Interp& interp) : interp_(interp) { ++interp_.depth_; }
    ~Level() { --interp_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    // Fails beyond a limit, so it is called before anything else at a level.
    Result<void> check() const;

   private:
    Interp& interp_;
  };

  // Sends output to `out` and names to `scope` while it lives.
  class Redirect {
   public:
    Redirect(Interp& interp, StringBuilder& out, Scope* scope)
        : interp_(interp), out_(interp.out_), scope_(interp.scope_) {
      interp.out_ = &out;
      interp.scope_ = scope;
    }
    ~Redirect() {
      interp_.out_ = out_;
      interp_.scope_ = scope_;
    }
    Redirect(const Redirect&) = delete;
    Redirect& operator=(const Redirect&) = delete;

   private:
    Interp& interp_;
    StringBuilder* out_;
    Scope* scope_;
  };

  // jinja_exec.cpp
  Result<void> define_globals(std::span<const Variable> variables);
  Result<Flow> exec_block(const Block& block);
  Result<Flow> exec(const Stmt& stmt);
  Result<Flow> exec_scoped(const Block& block, Scope* scope);
  Result<Flow> exec_if(const Stmt& stmt);
  Result<Flow> exec_for(const Stmt& stmt);
  Result<Flow> run_loop(const Stmt& stmt, const Value& iterable, int64_t depth0);
  Result<Flow> loop_iterations(const Stmt& stmt, LoopObj& loop, bool& completed);
  Result<void> exec_set(const Stmt& stmt);
  Result<Flow> exec_set_block(const Stmt& stmt);
  Result<Flow> exec_filter_block(const Stmt& stmt);
  Result<void> exec_call_block(const Stmt& stmt);
  Result<Flow> exec_with(const Stmt& stmt);
  Result<void> emit(const Value& value);
  Result<void> check_output() const;
  Result<void> assign(Scope& scope, const Target& target, const Value& value);
  void set_variable(Scope& scope, NameId name, const Value& value);
  Scope* new_scope(Scope* parent);
  Value make_macro(const Macro& macro);
  Result<Value> call_macro(const MacroObj& macro, const Args& args);
  Result<void> bind_macro(const MacroObj& object, const Args& args, Scope& scope);
  Result<void> bind_extra(const Macro& macro, const Args& args, std::vector<bool>& used, Scope& scope);
  Result<bool> loop_pull(LoopObj& loop, Value& item);
  Result<bool> loop_next(LoopObj& loop, Value& item);
  Result<bool> loop_peek(LoopObj& loop);
  Result<int64_t> loop_length(LoopObj& loop);
  Result<Value> loop_attribute(const Value& object, std::string_view name);
  Result<Value> call_loop(LoopObj& loop, const Args& args);

  // jinja_eval.cpp
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_node(const Expr& expr);
  Result<Value> eval_name(const Expr& expr);
  Result<Value> eval_items(const Expr& expr, Kind kind);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_slice(const Expr& expr);
  Result<Value> eval_call(const Expr& expr, const Value* caller);
  Result<Value> eval_filter(const Expr& expr);
  Result<Value> eval_test(const Expr& expr);
  Result<Value> eval_sign(const Expr& expr);
  Result<Value> eval_logical(const Expr& expr);
  Result<Value> eval_conditional(const Expr& expr);
  Result<Value> eval_concat(const Expr& expr);
  Result<Value> eval_compare(const Expr& expr);
  Result<Args> eval_arguments(const Arguments* arguments);
  Value missing(const Value& object, std::string_view name);
  Value missing_element(const Value& object, const Value& key);
  // The attribute proper (methods and the like); nullopt where the object has none of that name.
  Result<std::optional<Value>> own_attribute(const Value& object, std::string_view name);
  Result<std::optional<Value>> own_item(const Value& object, const Value& key);

  const Tree& tree_;
  const RenderOptions& options_;
  Heap heap_;
  std::vector<std::optional<Value>> globals_;  // by NameId: the render's variables, then the built-in functions
  Scope* scope_ = nullptr;
  StringBuilder* out_ = nullptr;
  std::optional<NameId> loop_name_;  // of "loop", where the template mentions it
  Value block_input_;                // what the filters of a filter or set block apply to
  uint32_t line_ = 1;
  uint32_t depth_ = 0;
  bool raised_ = false;
};

// JSON -> value; strings share the JSON's bytes.
Result<Value> from_json(Heap& heap, const nlohmann::ordered_json& json, bool is_content,
                        std::span<const std::pair<std::string_view, std::string_view>> vocabulary);

// Tables. A native is null where there is none of that name.
Native find_filter(std::string_view name);  // the input is `self`
Native find_test(std::string_view name);    // the same; gives a boolean
Native find_method(Kind kind, std::string_view name);
Native find_global(std::string_view name);
// Methods that exist in Python and that the sandbox forbids, because they change their object.
bool is_forbidden_method(Kind kind, std::string_view name);

// The arguments of a native by the names of its parameters.
struct Params {
  static constexpr size_t kMax = 6;
  Value values[kMax];
  bool given[kMax] = {};
  bool has(size_t i) const { return given[i] && !values[i].is(Kind::none); }
};
Result<Params> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
                    size_t n_required = 0);
// Parameters with a type; `fallback` where it is not given.
Result<int64_t> integer_of(const Value& value, std::string_view what);
Result<int64_t> integer_param(const Params& params, size_t i, int64_t fallback, std::string_view what);

}  // namespace quern::token::jinja
