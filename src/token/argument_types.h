// Which arguments of tools are text, by their schemas: for forms of calls that write values without quotes.
#pragma once

#include "token/chat.h"
#include "token/reply.h"

namespace quern::token {

// Whether the argument `key` of a function with this schema of parameters is text: it may be a string, or nothing says
// what it is. A reference that leads nowhere says nothing.
bool is_text_argument(const Json& parameters, std::string_view key);

// The same for tools as ChatOptions has them; arguments of functions that are not there are text.
TextArguments text_arguments(const Json& tools);

}  // namespace quern::token
