// The syntax tree of a template: what the parser builds and the interpreter walks. Immutable after parsing and free of
// values, so one tree serves any number of renders at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quern::token::jinja {

using NameId = uint32_t;  // index into Tree::names

enum class ExprKind : uint8_t {
  none,
  boolean,
  integer,
  floating,
  string,  // literals
  name,
  list,
  tuple,
  dict,
  attribute,  // items[0] . text
  subscript,  // items[0] [ items[1] ]
  slice,      // items[0] [ items[1] : items[2] : items[3] ], absent parts null
  call,       // items[0] ( arguments )
  filter,     // items[0] | text ( arguments ); items[0] is null in a filter block
  test,       // items[0] is text ( arguments )
  negate,
  plus,
  logical_not,
  logical_and,
  logical_or,
  conditional,  // conditional: then, test, else (or null)
  binary,
  concat,
  compare,  // items[0] compares[0] items[1] compares[1] items[2] ...
};

enum class BinaryOp : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOp : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *expression, or null
  ExprPtr star_star;  // **expression, or null
};

struct Expr {
  ExprKind kind = ExprKind::none;
  BinaryOp op = BinaryOp::add;
  bool boolean = false;
  uint32_t line = 0;
  uint32_t depth = 1;  // height of the tree below, bounded by the parser, so that walking it has bounded stack
  NameId name = 0;
  int64_t integer = 0;
  double number = 0;
  std::string text;            // string literal, attribute, filter or test name
  std::vector<ExprPtr> items;  // operands; for a dict: key, value, key, value ...
  std::vector<CompareOp> compares;
  std::unique_ptr<Arguments> arguments;
};

// What `set` and `for` assign to: a name, a namespace attribute, or a tuple of targets.
struct Target {
  enum class Kind : uint8_t { name, attribute, tuple } kind = Kind::name;
  uint32_t line = 0;
  NameId name = 0;
  std::string attribute;
  std::vector<Target> items;
};

enum class StmtKind : uint8_t {
  text,
  output,
  if_,
  for_,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  scope,
  break_,
  continue_,
};

struct Stmt;
using Block = std::vector<Stmt>;

// The signature and body of a macro or of a call block.
struct Macro {
  std::string name;
  NameId name_id = 0;
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Block body;
};

struct Branch {
  ExprPtr test;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::text;
  uint32_t line = 0;
  bool recursive = false;        // for
  std::string text;              // text
  std::vector<ExprPtr> exprs;    // output: the values; for: iterable, filter or null; set: value;
                                 // set_block: filter or null; filter_block: filter; call_block: call; with: values
  std::vector<Target> targets;   // for, set, set_block: one; with: one per value
  std::vector<Branch> branches;  // if: if and elif
  Block body;                    // for, set_block, filter_block, with, scope
  Block otherwise;               // if, for: else
  std::unique_ptr<Macro> macro;  // macro, call_block
};

struct Tree {
  Block body;
  std::vector<std::string> names;  // every variable the template mentions
};

}  // namespace quern::token::jinja
