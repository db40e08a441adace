// The parser's class, shared by its two source files. Not an interface.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "token/jinja_lexer.h"
#include "token/jinja_parser.h"

namespace quern::token::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const ParseLimits& limits) : tokens_(std::move(tokens)), limits_(limits) {}
  Result<Tree> run();

 private:
  // Counts one level of recursion while it lives.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    bool too_deep() const { return parser_.depth_ > parser_.limits_.max_depth; }

   private:
    Parser& parser_;
  };
  // A function body: loops outside do not count for break, and an enclosing `if` does not soften unknown filters.
  class Fresh {
   public:
    explicit Fresh(Parser& parser)
        : parser_(parser), soft_(std::exchange(parser.soft_, false)), loops_(std::exchange(parser.loop_depth_, 0)) {}
    ~Fresh() {
      parser_.soft_ = soft_;
      parser_.loop_depth_ = loops_;
    }
    Fresh(const Fresh&) = delete;
    Fresh& operator=(const Fresh&) = delete;

   private:
    Parser& parser_;
    bool soft_;
    int loops_;
  };

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)]; }
  bool is_op(std::string_view op) const { return peek().kind == TokenKind::op && peek().text == op; }
  bool is_name(std::string_view name) const { return peek().kind == TokenKind::name && peek().text == name; }
  bool skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    ++pos_;
    return true;
  }
  bool at_tuple_end(std::string_view end_name) const {
    return peek().kind == TokenKind::variable_end || peek().kind == TokenKind::block_end || is_op(")") ||
           (!end_name.empty() && is_name(end_name));
  }
  Error error(const std::string& what, Status status = Status::invalid_file) const;
  static Error error_at(uint32_t line, const std::string& what, Status status = Status::invalid_file);
  static std::string describe(const Token& token);
  Result<void> expect_op(std::string_view op);
  Result<void> expect(TokenKind kind, const char* what);
  Result<std::string> expect_name();
  NameId intern(const std::string& name);

  // Statements
  Result<void> block(const std::vector<std::string_view>& ends, Block& out);
  Result<std::string> body(const std::vector<std::string_view>& ends, Block& out);
  Result<void> statement(Stmt& stmt);
  Result<void> if_statement(Stmt& stmt);
  Result<void> for_statement(Stmt& stmt);
  Result<void> set_statement(Stmt& stmt);
  Result<void> macro_statement(Stmt& stmt);
  Result<void> call_statement(Stmt& stmt);
  Result<void> filter_statement(Stmt& stmt);
  Result<void> with_statement(Stmt& stmt);
  Result<void> print_statement(Stmt& stmt);
  Result<void> signature(Macro& macro);
  Result<void> macro_body(Macro& macro, std::string_view end);
  Result<Target> assign_target(std::string_view end_name, bool with_attributes);
  Result<Target> primary_target(std::string_view end_name, bool with_attributes);

  // Expressions, from the loosest binding to the tightest
  Result<ExprPtr> tuple(std::string_view end_name, bool with_conditional, bool in_parentheses);
  Result<ExprPtr> expression(bool with_conditional);
  Result<ExprPtr> conditional();
  Result<ExprPtr> logical_or();
  Result<ExprPtr> logical_and();
  Result<ExprPtr> logical_not();
  Result<ExprPtr> comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> concatenation();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> unary(bool with_filter);
  Result<ExprPtr> primary();
  Result<ExprPtr> name_or_constant();
  Result<ExprPtr> list_literal();
  Result<ExprPtr> dict_literal();
  Result<ExprPtr> postfix(ExprPtr node);
  Result<ExprPtr> filters_and_tests(ExprPtr node);
  Result<ExprPtr> subscript(ExprPtr node);
  Result<ExprPtr> subscript_item(ExprPtr node);
  Result<ExprPtr> call(ExprPtr node);
  Result<ExprPtr> test(ExprPtr node);
  Result<ExprPtr> filter_chain(ExprPtr node, bool inline_first);
  Result<std::string> dotted_name();
  Result<std::unique_ptr<Arguments>> call_arguments();
  ExprPtr make(ExprKind kind, uint32_t line) const;
  // Takes operands over and checks the height of the tree.
  Result<ExprPtr> finish(ExprPtr node) const;
  Result<ExprPtr> join(ExprKind kind, uint32_t line, ExprPtr left, ExprPtr right, BinaryOp op = BinaryOp::add) const;

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  ParseLimits limits_;
  uint32_t depth_ = 0;
  int loop_depth_ = 0;                                     // loops around this point within the same function body
  int for_depth_ = 0;                                      // for statements around this point, however far out
  bool soft_ = false;                                      // inside an `if`: an unknown filter fails only when it runs
  std::vector<std::pair<uint32_t, std::string>> unknown_;  // filters and tests that do not exist: line, message
  std::vector<Macro*> macros_;                             // the macros around this point
  std::unordered_map<std::string, NameId> ids_;
  std::vector<std::string> names_;
};

// The filters and tests that exist (jinja_filters.cpp, jinja_tests.cpp).
bool is_known_filter(std::string_view name);
bool is_known_test(std::string_view name);

}  // namespace quern::token::jinja
