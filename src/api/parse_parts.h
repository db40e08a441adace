// Parts that several parsers share.
#pragma once

#include "api/fields.h"
#include "api/request.h"

namespace quern::api {

inline constexpr int64_t kMaxTokens = 1'000'000'000;

// temperature, top_p, top_k ... of the OpenAI dialect, with the names that local servers added.
void read_sampling(Fields& fields, const Defaults& defaults, Request* out);
// A string or an array of strings, none empty.
void read_stop(Fields& fields, std::string_view field, const Defaults& defaults, Request* out);
// An array of token ids, at `name`. False: *problem says why.
bool read_ids(const Json& array, const std::string& name, ProblemSlot* problem, TokenIds* out);
// A string, an array of strings, an array of ids, or an array of those.
void read_texts(Fields& fields, std::string_view field, size_t limit,
                std::vector<std::variant<std::string, TokenIds>>* out);
// messages, tools, tool_choice, reasoning ... of the OpenAI dialect.
void read_messages(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out);
void read_tools(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out);
void read_tool_choice(Fields& fields, ProblemSlot* problem, Request* out);
void read_effort(Fields& fields, std::string_view field, Request* out);
// One function of a request: its name, description, schema of parameters and `strict`, into out->tools.
void add_tool(Fields& fields, std::string_view schema_field, Request* out);
// Whether a tool of this name was added.
bool has_tool(const Request& request, std::string_view name);
void check_tool_choice(Fields& fields, std::string_view field, Request* out);
// Calls have ids that are not given twice; results name a call before them. Ids in other forms than nine letters and
// digits, which some templates insist on, get one, in calls and results alike.
void settle_call_ids(ProblemSlot* problem, std::string_view field, Request* out);
// {"type": "json_schema", ...}, as response_format has it and, flat, the Responses API.
void read_format(const Json& format, const std::string& where, bool flat, ProblemSlot* problem, Request* out);
// Text of a string or of parts of the given types ("text"), joined as parts of the message.
void read_content(const Json& content, const std::string& where, std::initializer_list<std::string_view> types,
                  ProblemSlot* problem, Json* out);

}  // namespace quern::api
