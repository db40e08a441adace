// Expressions, with Jinja's own precedence: `~` binds tighter than `+`, unary minus tighter than `**`, filters and
// tests tightest of all.
#include <algorithm>

#include "token/jinja_parser_impl.h"

namespace quern::token::jinja {

namespace {
constexpr size_t kMaxNamedArguments = 255;
}

ExprPtr Parser::make(ExprKind kind, uint32_t line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

Result<ExprPtr> Parser::finish(ExprPtr node) const {
  const auto include = [&](const ExprPtr& child) {
    if (child) node->depth = std::max(node->depth, child->depth + 1);
  };
  for (const auto& child : node->items) include(child);
  if (node->arguments) {
    for (const auto& child : node->arguments->positional) include(child);
    for (const auto& child : node->arguments->named) include(child.second);
    include(node->arguments->star);
    include(node->arguments->star_star);
  }
  if (node->depth > limits_.max_depth) {
    return error_at(node->line, "an expression is nested too deeply", Status::limit_exceeded);
  }
  return node;
}

Result<ExprPtr> Parser::join(ExprKind kind, uint32_t line, ExprPtr left, ExprPtr right, BinaryOp op) const {
  ExprPtr node = make(kind, line);
  node->op = op;
  node->items.push_back(std::move(left));
  node->items.push_back(std::move(right));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::tuple(std::string_view end_name, bool with_conditional, bool in_parentheses) {
  const uint32_t line = peek().line;
  ExprPtr node = make(ExprKind::tuple, line);
  bool is_tuple = false;
  for (;;) {
    if (at_tuple_end(end_name)) break;
    QUERN_TRY(ExprPtr item, expression(with_conditional));
    node->items.push_back(std::move(item));
    if (!is_op(",")) break;
    is_tuple = true;
    ++pos_;
  }
  if (!is_tuple) {
    if (!node->items.empty()) return std::move(node->items[0]);
    if (!in_parentheses) return error("expected an expression, found " + describe(peek()));
  }
  return finish(std::move(node));
}

Result<ExprPtr> Parser::expression(bool with_conditional) {
  const Nested nested(*this);
  if (nested.too_deep()) return error("an expression is nested too deeply", Status::limit_exceeded);
  return with_conditional ? conditional() : logical_or();
}

Result<ExprPtr> Parser::conditional() {
  const uint32_t line = peek().line;
  const size_t n_unknown = unknown_.size();
  QUERN_TRY(ExprPtr left, logical_or());
  while (skip_name("if")) {
    ExprPtr node = make(ExprKind::conditional, line);
    QUERN_TRY(ExprPtr test, logical_or());
    ExprPtr other;
    if (skip_name("else")) {
      const Nested nested(*this);
      if (nested.too_deep()) return error("an expression is nested too deeply", Status::limit_exceeded);
      QUERN_TRY(other, conditional());
    }
    node->items.push_back(std::move(left));
    node->items.push_back(std::move(test));
    node->items.push_back(std::move(other));
    QUERN_TRY(left, finish(std::move(node)));
    unknown_.resize(n_unknown);  // inside a conditional, an unknown filter or test fails only when it runs
  }
  return left;
}

Result<ExprPtr> Parser::logical_or() {
  const uint32_t line = peek().line;
  QUERN_TRY(ExprPtr left, logical_and());
  while (skip_name("or")) {
    QUERN_TRY(ExprPtr right, logical_and());
    QUERN_TRY(left, join(ExprKind::logical_or, line, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> Parser::logical_and() {
  const uint32_t line = peek().line;
  QUERN_TRY(ExprPtr left, logical_not());
  while (skip_name("and")) {
    QUERN_TRY(ExprPtr right, logical_not());
    QUERN_TRY(left, join(ExprKind::logical_and, line, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> Parser::logical_not() {
  if (!is_name("not")) return comparison();
  const Nested nested(*this);
  if (nested.too_deep()) return error("an expression is nested too deeply", Status::limit_exceeded);
  ExprPtr node = make(ExprKind::logical_not, peek().line);
  ++pos_;
  QUERN_TRY(ExprPtr operand, logical_not());
  node->items.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::comparison() {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {{"==", CompareOp::eq}, {"!=", CompareOp::ne},
                                                                    {"<", CompareOp::lt},  {"<=", CompareOp::le},
                                                                    {">", CompareOp::gt},  {">=", CompareOp::ge}};
  ExprPtr node = make(ExprKind::compare, peek().line);
  QUERN_TRY(ExprPtr first, sum());
  for (;;) {
    const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& row) { return is_op(row.first); });
    CompareOp found = CompareOp::in;
    if (op != std::end(kOps)) {
      found = op->second;
      ++pos_;
    } else if (is_name("not") && peek(1).kind == TokenKind::name && peek(1).text == "in") {
      found = CompareOp::not_in;
      pos_ += 2;
    } else if (!skip_name("in")) {
      break;
    }
    if (node->items.empty()) node->items.push_back(std::move(first));
    QUERN_TRY(ExprPtr right, sum());
    node->compares.push_back(found);
    node->items.push_back(std::move(right));
  }
  if (node->items.empty()) return first;
  return finish(std::move(node));
}

Result<ExprPtr> Parser::sum() {
  const uint32_t line = peek().line;
  QUERN_TRY(ExprPtr left, concatenation());
  while (is_op("+") || is_op("-")) {
    const BinaryOp op = is_op("+") ? BinaryOp::add : BinaryOp::subtract;
    ++pos_;
    QUERN_TRY(ExprPtr right, concatenation());
    QUERN_TRY(left, join(ExprKind::binary, line, std::move(left), std::move(right), op));
  }
  return left;
}

Result<ExprPtr> Parser::concatenation() {
  ExprPtr node = make(ExprKind::concat, peek().line);
  QUERN_TRY(ExprPtr first, product());
  if (!is_op("~")) return first;
  node->items.push_back(std::move(first));
  while (is_op("~")) {
    ++pos_;
    QUERN_TRY(ExprPtr next, product());
    node->items.push_back(std::move(next));
  }
  return finish(std::move(node));
}

Result<ExprPtr> Parser::product() {
  static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"*", BinaryOp::multiply}, {"/", BinaryOp::divide}, {"//", BinaryOp::floor_divide}, {"%", BinaryOp::modulo}};
  const uint32_t line = peek().line;
  QUERN_TRY(ExprPtr left, power());
  for (;;) {
    const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& row) { return is_op(row.first); });
    if (op == std::end(kOps)) return left;
    ++pos_;
    QUERN_TRY(ExprPtr right, power());
    QUERN_TRY(left, join(ExprKind::binary, line, std::move(left), std::move(right), op->second));
  }
}

// Left-associative, and looser than unary minus: both differ from Python and are Jinja's.
Result<ExprPtr> Parser::power() {
  const uint32_t line = peek().line;
  QUERN_TRY(ExprPtr left, unary(true));
  while (is_op("**")) {
    ++pos_;
    QUERN_TRY(ExprPtr right, unary(true));
    QUERN_TRY(left, join(ExprKind::binary, line, std::move(left), std::move(right), BinaryOp::power));
  }
  return left;
}

Result<ExprPtr> Parser::unary(bool with_filter) {
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Nested nested(*this);
    if (nested.too_deep()) return error("an expression is nested too deeply", Status::limit_exceeded);
    ExprPtr sign = make(is_op("-") ? ExprKind::negate : ExprKind::plus, peek().line);
    ++pos_;
    QUERN_TRY(ExprPtr operand, unary(false));
    sign->items.push_back(std::move(operand));
    QUERN_TRY(node, finish(std::move(sign)));
  } else {
    QUERN_TRY(node, primary());
  }
  QUERN_TRY(node, postfix(std::move(node)));
  if (!with_filter) return node;
  return filters_and_tests(std::move(node));
}

Result<ExprPtr> Parser::name_or_constant() {
  const Token& token = peek();
  ++pos_;
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    ExprPtr node = make(ExprKind::boolean, token.line);
    node->boolean = token.text == "true" || token.text == "True";
    return node;
  }
  if (token.text == "none" || token.text == "None") return make(ExprKind::none, token.line);
  ExprPtr node = make(ExprKind::name, token.line);
  node->name = intern(token.text);
  for (Macro* macro : macros_) {
    macro->uses_caller |= token.text == "caller";
    macro->uses_varargs |= token.text == "varargs";
    macro->uses_kwargs |= token.text == "kwargs";
  }
  return node;
}

Result<ExprPtr> Parser::primary() {
  const Token& token = peek();
  if (token.kind == TokenKind::name) return name_or_constant();
  if (token.kind == TokenKind::string) {
    ExprPtr node = make(ExprKind::string, token.line);
    while (peek().kind == TokenKind::string) node->text += tokens_[pos_++].text;
    return node;
  }
  if (token.kind == TokenKind::integer || token.kind == TokenKind::floating) {
    ExprPtr node = make(token.kind == TokenKind::integer ? ExprKind::integer : ExprKind::floating, token.line);
    node->integer = token.integer;
    node->number = token.number;
    ++pos_;
    return node;
  }
  if (is_op("[")) return list_literal();
  if (is_op("{")) return dict_literal();
  if (!is_op("(")) return error("expected an expression, found " + describe(token));
  ++pos_;
  QUERN_TRY(ExprPtr node, tuple({}, true, true));
  QUERN_TRY_VOID(expect_op(")"));
  return node;
}

Result<ExprPtr> Parser::list_literal() {
  ExprPtr node = make(ExprKind::list, peek().line);
  ++pos_;
  while (!is_op("]")) {
    if (!node->items.empty()) QUERN_TRY_VOID(expect_op(","));
    if (is_op("]")) break;
    QUERN_TRY(ExprPtr item, expression(true));
    node->items.push_back(std::move(item));
  }
  ++pos_;
  return finish(std::move(node));
}

Result<ExprPtr> Parser::dict_literal() {
  ExprPtr node = make(ExprKind::dict, peek().line);
  ++pos_;
  while (!is_op("}")) {
    if (!node->items.empty()) QUERN_TRY_VOID(expect_op(","));
    if (is_op("}")) break;
    QUERN_TRY(ExprPtr key, expression(true));
    QUERN_TRY_VOID(expect_op(":"));
    QUERN_TRY(ExprPtr value, expression(true));
    node->items.push_back(std::move(key));
    node->items.push_back(std::move(value));
  }
  ++pos_;
  return finish(std::move(node));
}

Result<ExprPtr> Parser::postfix(ExprPtr node) {
  for (;;) {
    if (is_op(".") || is_op("[")) {
      QUERN_TRY(node, subscript(std::move(node)));
    } else if (is_op("(")) {
      QUERN_TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> Parser::filters_and_tests(ExprPtr node) {
  for (;;) {
    if (is_op("|")) {
      QUERN_TRY(node, filter_chain(std::move(node), false));
    } else if (is_name("is")) {
      QUERN_TRY(node, test(std::move(node)));
    } else if (is_op("(")) {
      QUERN_TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> Parser::subscript(ExprPtr node) {
  const uint32_t line = peek().line;
  if (is_op("[")) return subscript_item(std::move(node));
  ++pos_;
  ExprPtr result;
  if (peek().kind == TokenKind::name) {
    result = make(ExprKind::attribute, line);
    result->text = tokens_[pos_++].text;
    result->items.push_back(std::move(node));
    return finish(std::move(result));
  }
  if (peek().kind != TokenKind::integer) return error("expected a name or a number, found " + describe(peek()));
  QUERN_TRY(ExprPtr index, primary());
  return join(ExprKind::subscript, line, std::move(node), std::move(index));
}

Result<ExprPtr> Parser::subscript_item(ExprPtr node) {
  const uint32_t line = peek().line;
  ++pos_;
  if (is_op("]")) return error("expected a subscript, found ']'");
  ExprPtr parts[3];
  bool is_slice = false;
  if (!is_op(":")) {
    QUERN_TRY(parts[0], expression(true));
  }
  for (int part = 1; part < 3 && is_op(":"); ++part) {
    is_slice = true;
    ++pos_;
    if (is_op(":") || is_op("]") || is_op(",")) continue;
    QUERN_TRY(parts[part], expression(true));
  }
  if (is_slice) {
    QUERN_TRY_VOID(expect_op("]"));
    ExprPtr slice = make(ExprKind::slice, line);
    slice->items.push_back(std::move(node));
    for (auto& part : parts) slice->items.push_back(std::move(part));
    return finish(std::move(slice));
  }
  if (is_op(",")) {  // a tuple as key
    ExprPtr key = make(ExprKind::tuple, line);
    key->items.push_back(std::move(parts[0]));
    while (is_op(",")) {
      ++pos_;
      if (is_op("]")) break;
      QUERN_TRY(ExprPtr item, expression(true));
      key->items.push_back(std::move(item));
    }
    QUERN_TRY(parts[0], finish(std::move(key)));
  }
  QUERN_TRY_VOID(expect_op("]"));
  return join(ExprKind::subscript, line, std::move(node), std::move(parts[0]));
}

Result<std::unique_ptr<Arguments>> Parser::call_arguments() {
  auto arguments = std::make_unique<Arguments>();
  const uint32_t line = peek().line;
  QUERN_TRY_VOID(expect_op("("));
  bool first = true;
  while (!is_op(")")) {
    if (!first) QUERN_TRY_VOID(expect_op(","));
    if (is_op(")")) break;
    first = false;
    bool fits = !arguments->star_star;
    if (is_op("*")) {
      fits = fits && !arguments->star;
      ++pos_;
      QUERN_TRY(arguments->star, expression(true));
    } else if (is_op("**")) {
      ++pos_;
      QUERN_TRY(arguments->star_star, expression(true));
    } else if (peek().kind == TokenKind::name && peek(1).kind == TokenKind::op && peek(1).text == "=") {
      std::string name = peek().text;
      if (arguments->named.size() >= kMaxNamedArguments) return error("a call has too many named arguments");
      for (const auto& other : arguments->named) fits = fits && other.first != name;
      pos_ += 2;
      QUERN_TRY(ExprPtr value, expression(true));
      arguments->named.emplace_back(std::move(name), std::move(value));
    } else {
      fits = fits && !arguments->star && arguments->named.empty();
      QUERN_TRY(ExprPtr value, expression(true));
      arguments->positional.push_back(std::move(value));
    }
    if (!fits) return error_at(line, "the arguments of a call are in the wrong order, or given twice");
  }
  ++pos_;
  return arguments;
}

Result<ExprPtr> Parser::call(ExprPtr node) {
  ExprPtr result = make(ExprKind::call, peek().line);
  QUERN_TRY(result->arguments, call_arguments());
  result->items.push_back(std::move(node));
  return finish(std::move(result));
}

Result<std::string> Parser::dotted_name() {
  QUERN_TRY(std::string name, expect_name());
  while (is_op(".")) {
    ++pos_;
    QUERN_TRY(const std::string part, expect_name());
    name += "." + part;
  }
  return name;
}

Result<ExprPtr> Parser::test(ExprPtr node) {
  const uint32_t line = peek().line;
  ++pos_;
  const bool negated = skip_name("not");
  ExprPtr result = make(ExprKind::test, line);
  QUERN_TRY(result->text, dotted_name());
  if (!soft_ && !is_known_test(result->text)) unknown_.push_back({line, "no test named '" + result->text + "'"});
  result->items.push_back(std::move(node));
  const Token& next = peek();
  const bool literal = next.kind == TokenKind::string || next.kind == TokenKind::integer ||
                       next.kind == TokenKind::floating || is_op("[") || is_op("{");
  const bool name = next.kind == TokenKind::name && !is_name("else") && !is_name("or") && !is_name("and");
  if (is_op("(")) {
    QUERN_TRY(result->arguments, call_arguments());
  } else if (literal || name) {
    if (is_name("is")) return error("tests cannot be chained with is");
    QUERN_TRY(ExprPtr argument, primary());
    QUERN_TRY(argument, postfix(std::move(argument)));
    result->arguments = std::make_unique<Arguments>();
    result->arguments->positional.push_back(std::move(argument));
  }
  QUERN_TRY(result, finish(std::move(result)));
  if (!negated) return result;
  ExprPtr opposite = make(ExprKind::logical_not, line);
  opposite->items.push_back(std::move(result));
  return finish(std::move(opposite));
}

Result<ExprPtr> Parser::filter_chain(ExprPtr node, bool inline_first) {
  bool first = inline_first;
  while (first || is_op("|")) {
    if (!first) ++pos_;
    first = false;
    ExprPtr result = make(ExprKind::filter, peek().line);
    QUERN_TRY(result->text, dotted_name());
    if (!soft_ && !is_known_filter(result->text)) {
      unknown_.push_back({result->line, "no filter named '" + result->text + "'"});
    }
    if (is_op("(")) {
      QUERN_TRY(result->arguments, call_arguments());
    }
    result->items.push_back(std::move(node));
    QUERN_TRY(node, finish(std::move(result)));
  }
  return node;
}

}  // namespace quern::token::jinja
