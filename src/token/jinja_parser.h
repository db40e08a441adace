// Tokens -> syntax tree, with Jinja's grammar and precedence. Checks what Jinja checks when it compiles: known filters
// and tests, assignable targets, break and continue inside loops, nesting.
#pragma once

#include <string_view>

#include "base/result.h"
#include "token/jinja_ast.h"

namespace quern::token::jinja {

struct ParseLimits {
  size_t max_bytes = size_t{4} << 20;  // of the template
  uint32_t max_depth = 200;            // height of an expression and nesting of statements
};

Result<Tree> parse(std::string_view source, const ParseLimits& limits = {});

}  // namespace quern::token::jinja
