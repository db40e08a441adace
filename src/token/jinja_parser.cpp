// Statements. The expression half of the parser is jinja_parse_expr.cpp; both are methods of one class.
#include "token/jinja_parser.h"

#include <utility>

#include "token/jinja_parser_impl.h"

namespace quern::token::jinja {

Result<Tree> parse(std::string_view source, const ParseLimits& limits) {
  if (source.size() > limits.max_bytes) {
    return Error{Status::limit_exceeded, "the chat template has " + std::to_string(source.size()) +
                                             " bytes; the limit is " + std::to_string(limits.max_bytes)};
  }
  QUERN_TRY(auto tokens, tokenize(source));
  return Parser(std::move(tokens), limits).run();
}

Result<Tree> Parser::run() {
  Tree tree;
  QUERN_TRY_VOID(block({}, tree.body));
  if (!unknown_.empty()) return error_at(unknown_[0].first, unknown_[0].second);
  tree.names = std::move(names_);
  return tree;
}

Error Parser::error(const std::string& what, Status status) const {
  return error_at(peek().line, what, status);
}
Error Parser::error_at(uint32_t line, const std::string& what, Status status) {
  return Error{status, "template line " + std::to_string(line) + ": " + what};
}

std::string Parser::describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::variable_begin:
      return "{{";
    case TokenKind::variable_end:
      return "}}";
    case TokenKind::string:
      return "a string";
    case TokenKind::integer:
    case TokenKind::floating:
      return "a number";
    case TokenKind::eof:
      return "the end of the template";
    case TokenKind::name:
    case TokenKind::op:
      break;
  }
  return "'" + token.text + "'";
}

Result<void> Parser::expect_op(std::string_view op) {
  if (!is_op(op)) return error("expected '" + std::string(op) + "', found " + describe(peek()));
  ++pos_;
  return {};
}

Result<void> Parser::expect(TokenKind kind, const char* what) {
  if (peek().kind != kind) return error(std::string("expected ") + what + ", found " + describe(peek()));
  ++pos_;
  return {};
}

Result<std::string> Parser::expect_name() {
  if (peek().kind != TokenKind::name) return error("expected a name, found " + describe(peek()));
  return tokens_[pos_++].text;
}

NameId Parser::intern(const std::string& name) {
  const auto [it, inserted] = ids_.emplace(name, static_cast<NameId>(names_.size()));
  if (inserted) names_.push_back(name);
  return it->second;
}

// Parses statements until `{% end %}` for one of `ends`, whose name becomes the current token; at the end of the
// template when `ends` is empty.
Result<void> Parser::block(const std::vector<std::string_view>& ends, Block& out) {
  const Nested nested(*this);
  if (nested.too_deep()) return error("statements are nested too deeply", Status::limit_exceeded);
  while (peek().kind != TokenKind::eof) {
    Stmt stmt;
    stmt.line = peek().line;
    if (peek().kind == TokenKind::data) {
      stmt.kind = StmtKind::text;
      stmt.text = std::move(tokens_[pos_++].text);
    } else if (peek().kind == TokenKind::variable_begin) {
      ++pos_;
      stmt.kind = StmtKind::output;
      QUERN_TRY(ExprPtr value, tuple({}, true, false));
      stmt.exprs.push_back(std::move(value));
      QUERN_TRY_VOID(expect(TokenKind::variable_end, "}}"));
    } else {
      QUERN_TRY_VOID(expect(TokenKind::block_begin, "a statement"));
      for (const auto end : ends) {
        if (is_name(end)) return {};
      }
      QUERN_TRY_VOID(statement(stmt));
      QUERN_TRY_VOID(expect(TokenKind::block_end, "%}"));
    }
    out.push_back(std::move(stmt));
  }
  if (ends.empty()) return {};
  return error("the template ends where {% " + std::string(ends.back()) + " %} was expected");
}

// The body of a statement: `%}` ... `{% end`; the matched end name is consumed and returned.
Result<std::string> Parser::body(const std::vector<std::string_view>& ends, Block& out) {
  if (is_op(":")) ++pos_;
  QUERN_TRY_VOID(expect(TokenKind::block_end, "%}"));
  QUERN_TRY_VOID(block(ends, out));
  return tokens_[pos_++].text;
}

Result<void> Parser::statement(Stmt& stmt) {
  if (peek().kind != TokenKind::name) return error("expected a statement, found " + describe(peek()));
  const std::string tag = tokens_[pos_++].text;
  if (tag == "if") return if_statement(stmt);
  if (tag == "for") return for_statement(stmt);
  if (tag == "set") return set_statement(stmt);
  if (tag == "macro") return macro_statement(stmt);
  if (tag == "call") return call_statement(stmt);
  if (tag == "filter") return filter_statement(stmt);
  if (tag == "with") return with_statement(stmt);
  if (tag == "print") return print_statement(stmt);
  if (tag == "generation") {
    stmt.kind = StmtKind::scope;
    const Fresh fresh(*this);
    QUERN_TRY(const std::string end, body({"endgeneration"}, stmt.body));
    return {};
  }
  if (tag == "break" || tag == "continue") {
    stmt.kind = tag == "break" ? StmtKind::break_ : StmtKind::continue_;
    if (loop_depth_ == 0) return error(tag + " outside a loop");
    return {};
  }
  for (const std::string_view other : {"block", "extends", "include", "import", "from", "autoescape"}) {
    if (tag == other) return error("{% " + tag + " %} is not supported in chat templates", Status::unsupported);
  }
  return error("unknown statement '" + tag + "'");
}

Result<void> Parser::if_statement(Stmt& stmt) {
  stmt.kind = StmtKind::if_;
  const bool outer_soft = std::exchange(soft_, true);
  std::string end = "elif";
  while (end == "elif") {
    Branch branch;
    QUERN_TRY(branch.test, tuple({}, false, false));
    QUERN_TRY(end, body({"elif", "else", "endif"}, branch.body));
    stmt.branches.push_back(std::move(branch));
  }
  if (end == "else") {
    QUERN_TRY(end, body({"endif"}, stmt.otherwise));
  }
  soft_ = outer_soft;
  return {};
}

Result<void> Parser::for_statement(Stmt& stmt) {
  stmt.kind = StmtKind::for_;
  ++for_depth_;
  QUERN_TRY(Target target, assign_target("in", false));
  stmt.targets.push_back(std::move(target));
  if (!skip_name("in")) return error("expected 'in', found " + describe(peek()));
  QUERN_TRY(ExprPtr iterable, tuple("recursive", false, false));
  stmt.exprs.push_back(std::move(iterable));
  stmt.exprs.emplace_back();
  if (skip_name("if")) {
    QUERN_TRY(stmt.exprs[1], expression(true));
  }
  stmt.recursive = skip_name("recursive");
  const bool outer_soft = std::exchange(soft_, false);
  ++loop_depth_;
  QUERN_TRY(std::string end, body({"endfor", "else"}, stmt.body));
  --loop_depth_;
  if (end == "else") {
    QUERN_TRY(end, body({"endfor"}, stmt.otherwise));
  }
  soft_ = outer_soft;
  --for_depth_;
  return {};
}

Result<void> Parser::set_statement(Stmt& stmt) {
  QUERN_TRY(Target target, assign_target({}, true));
  stmt.targets.push_back(std::move(target));
  if (is_op("=")) {
    ++pos_;
    stmt.kind = StmtKind::set;
    QUERN_TRY(ExprPtr value, tuple({}, true, false));
    stmt.exprs.push_back(std::move(value));
    return {};
  }
  stmt.kind = StmtKind::set_block;
  QUERN_TRY(ExprPtr filters, filter_chain(nullptr, false));
  stmt.exprs.push_back(std::move(filters));
  QUERN_TRY(const std::string end, body({"endset"}, stmt.body));
  return {};
}

Result<void> Parser::signature(Macro& macro) {
  QUERN_TRY_VOID(expect_op("("));
  while (!is_op(")")) {
    if (!macro.parameters.empty()) QUERN_TRY_VOID(expect_op(","));
    QUERN_TRY(const std::string name, expect_name());
    macro.parameters.push_back(intern(name));
    macro.parameter_names.push_back(name);
    if (is_op("=")) {
      ++pos_;
      QUERN_TRY(ExprPtr value, expression(true));
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return error("a parameter without default follows one with default");
    }
  }
  return expect_op(")");
}

Result<void> Parser::macro_body(Macro& macro, std::string_view end) {
  const Fresh fresh(*this);
  macros_.push_back(&macro);
  const auto closed = body({end}, macro.body);
  macros_.pop_back();
  if (!closed.ok()) return closed.error();
  return {};
}

Result<void> Parser::macro_statement(Stmt& stmt) {
  stmt.kind = StmtKind::macro;
  stmt.macro = std::make_unique<Macro>();
  QUERN_TRY(stmt.macro->name, expect_name());
  stmt.macro->name_id = intern(stmt.macro->name);
  QUERN_TRY_VOID(signature(*stmt.macro));
  return macro_body(*stmt.macro, "endmacro");
}

Result<void> Parser::call_statement(Stmt& stmt) {
  stmt.kind = StmtKind::call_block;
  stmt.macro = std::make_unique<Macro>();
  stmt.macro->name = "caller";
  if (is_op("(")) QUERN_TRY_VOID(signature(*stmt.macro));
  QUERN_TRY(ExprPtr call, expression(true));
  if (call->kind != ExprKind::call) return error("{% call %} needs a call");
  stmt.exprs.push_back(std::move(call));
  return macro_body(*stmt.macro, "endcall");
}

Result<void> Parser::filter_statement(Stmt& stmt) {
  stmt.kind = StmtKind::filter_block;
  QUERN_TRY(ExprPtr filters, filter_chain(nullptr, true));
  stmt.exprs.push_back(std::move(filters));
  QUERN_TRY(const std::string end, body({"endfilter"}, stmt.body));
  return {};
}

Result<void> Parser::with_statement(Stmt& stmt) {
  stmt.kind = StmtKind::with;
  while (peek().kind != TokenKind::block_end) {
    if (!stmt.targets.empty()) QUERN_TRY_VOID(expect_op(","));
    QUERN_TRY(Target target, assign_target({}, false));
    stmt.targets.push_back(std::move(target));
    QUERN_TRY_VOID(expect_op("="));
    QUERN_TRY(ExprPtr value, expression(true));
    stmt.exprs.push_back(std::move(value));
  }
  QUERN_TRY(const std::string end, body({"endwith"}, stmt.body));
  return {};
}

Result<void> Parser::print_statement(Stmt& stmt) {
  stmt.kind = StmtKind::output;
  while (peek().kind != TokenKind::block_end) {
    if (!stmt.exprs.empty()) QUERN_TRY_VOID(expect_op(","));
    QUERN_TRY(ExprPtr value, expression(true));
    stmt.exprs.push_back(std::move(value));
  }
  return {};
}

Result<Target> Parser::assign_target(std::string_view end_name, bool with_attributes) {
  Target tuple;
  tuple.kind = Target::Kind::tuple;
  tuple.line = peek().line;
  bool is_tuple = false;
  for (;;) {
    const bool ends = at_tuple_end(end_name);
    if (ends && (is_tuple || tuple.items.empty())) break;
    QUERN_TRY(Target item, primary_target(end_name, with_attributes));
    tuple.items.push_back(std::move(item));
    if (!is_op(",")) break;
    ++pos_;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (tuple.items.empty()) return error("expected a name to assign to, found " + describe(peek()));
  return std::move(tuple.items[0]);
}

Result<Target> Parser::primary_target(std::string_view end_name, bool with_attributes) {
  const Nested nested(*this);
  if (nested.too_deep()) return error("an assignment is nested too deeply", Status::limit_exceeded);
  Target target;
  target.line = peek().line;
  if (is_op("(")) {
    ++pos_;
    if (is_op(")")) {
      ++pos_;
      target.kind = Target::Kind::tuple;
      return target;
    }
    QUERN_TRY(target, assign_target(end_name, with_attributes));
    QUERN_TRY_VOID(expect_op(")"));
    return target;
  }
  QUERN_TRY(const std::string name, expect_name());
  for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"}) {
    if (name == reserved) return error_at(target.line, "can't assign to '" + name + "'");
  }
  target.name = intern(name);
  if (with_attributes && is_op(".")) {
    ++pos_;
    target.kind = Target::Kind::attribute;
    QUERN_TRY(target.attribute, expect_name());
  } else if (name == "loop" && for_depth_ > 0) {
    return error_at(target.line, "can't assign to the special variable loop inside a for statement");
  }
  return target;
}

}  // namespace quern::token::jinja
