// Tool calls in the text of an answer, one reader per way in which model families write them. What looks like a call
// and is none goes to the sink as the text that it is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "token/json_call.h"
#include "token/reply.h"

namespace quern::token {

class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual void text(std::string_view text) = 0;
  virtual void markup(std::string_view name) = 0;  // one of call_markup()
  virtual void finish() = 0;
};

// The names of a form's markup.
std::span<const std::string_view> call_markup(CallFormat format);
// Null for CallFormat::none. The sink must outlive it.
std::unique_ptr<CallReader> make_call_reader(CallFormat format, CallSink& sink, TextArguments is_text);

// Without white space on either side.
std::string_view trimmed(std::string_view text);
// Whether it may be the name of a function.
bool is_name(std::string_view text);

// Arguments in Gemma's notation, as JSON; "" where they are none. Quotes are kGemmaQuote.
inline constexpr char kGemmaQuote = '\xff';  // in no UTF-8 text
std::string gemma_arguments(std::string_view text);

}  // namespace quern::token
