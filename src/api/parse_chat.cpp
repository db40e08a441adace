// The OpenAI dialect's conversations: /v1/chat/completions and /apply-template.
#include <algorithm>

#include "api/parse_parts.h"

namespace quern::api {
namespace {

void read_call(const Json& json, const std::string& where, ProblemSlot* problem, token::Message* message) {
  Fields call(json, where, problem);
  std::string id, name;
  call.required("id");
  call.text("id", &id);
  call.only("type", "function", "only functions are supported");
  call.without_effect({"index"});
  call.required("function");
  const Json* function = call.object("function");
  if (function == nullptr) return;
  Fields fields(*function, call.name_of("function"), problem);
  fields.required("name");
  fields.text("name", &name);
  Json arguments = "{}";
  if (const Json* value = fields.any("arguments"); value != nullptr) {
    // A string as in the standard; an object as some clients send it.
    if (value->is_object()) {
      arguments = dump(*value);
    } else if (value->is_string()) {
      arguments = *value;
    } else {
      fields.refuse("arguments", "must be a string");
    }
  }
  fields.finish();
  call.finish();
  if (message->tool_calls.is_null()) message->tool_calls = Json::array();
  message->tool_calls.push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

void read_assistant(Fields& fields, const std::string& where, ProblemSlot* problem, token::Message* message) {
  std::string reasoning;
  if (fields.text("reasoning_content", &reasoning) || fields.text("reasoning", &reasoning)) {
    if (!reasoning.empty()) message->reasoning_content = reasoning;
  }
  if (const Json* calls = fields.array("tool_calls"); calls != nullptr) {
    for (size_t i = 0; i < calls->size() && fields.good(); ++i) {
      const std::string name = where + ".tool_calls[" + std::to_string(i) + "]";
      if (!(*calls)[i].is_object()) return fields.refuse("tool_calls", "must hold objects");
      read_call((*calls)[i], name, problem, message);
    }
  }
  fields.unsupported("function_call", "use tool_calls");
  fields.unsupported("audio", "is not supported");
  fields.without_effect({"refusal", "annotations", "reasoning_details"});
}

void read_message(const Json& json, const std::string& where, ProblemSlot* problem, Request* out) {
  Fields fields(json, where, problem);
  token::Message message;
  fields.required("role");
  if (!fields.choice("role", {"system", "developer", "user", "assistant", "tool"}, &message.role)) return;
  if (message.role == "developer") message.role = "system";
  if (message.role == "assistant") read_assistant(fields, where, problem, &message);
  if (message.role == "tool") {
    fields.required("tool_call_id");
    fields.text("tool_call_id", &message.tool_call_id);
  }
  fields.text("name", &message.name);
  const bool may_be_empty = message.role == "assistant" && (message.tool_calls.is_array() || message.reasoning_content);
  if (!may_be_empty) fields.required("content");
  const Json* content = fields.any("content");
  if (content != nullptr) {
    if (message.role == "assistant") {
      read_content(*content, fields.name_of("content"), {"text", "refusal"}, problem, &message.content);
    } else {
      read_content(*content, fields.name_of("content"), {"text"}, problem, &message.content);
    }
  }
  fields.finish();
  if (!fields.good()) return;
  out->messages.push_back(std::move(message));
}

// What both requests have: all that a prompt depends on.
void read_conversation(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out) {
  fields.text("model", &out->model);
  read_messages(fields, defaults, problem, out);
  read_tools(fields, defaults, problem, out);
  read_tool_choice(fields, problem, out);
  read_effort(fields, "reasoning_effort", out);
  bool thinking = false;
  if (fields.flag("enable_thinking", &thinking)) out->reasoning.thinking = thinking;
  if (const Json* variables = fields.object("chat_template_kwargs"); variables != nullptr)
    out->template_variables = *variables;
}

void read_logprobs(Fields& fields, Request* out) {
  bool logprobs = false;
  int64_t top = 0;
  fields.flag("logprobs", &logprobs);
  const bool given = fields.integer("top_logprobs", 0, 20, &top);
  if (given && !logprobs && top > 0) return fields.refuse("top_logprobs", "is only allowed when logprobs is true");
  if (logprobs) out->top_logprobs = static_cast<int>(top);
}

}  // namespace

void read_messages(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out) {
  fields.required("messages");
  const Json* messages = fields.array("messages");
  if (messages == nullptr) return;
  if (messages->empty()) return fields.refuse("messages", "is empty");
  if (messages->size() > defaults.max_messages)
    return fields.refuse("messages", "has more than " + std::to_string(defaults.max_messages) + " entries");
  for (size_t i = 0; i < messages->size() && fields.good(); ++i) {
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (!(*messages)[i].is_object()) return fields.refuse(where, "must be an object");
    read_message((*messages)[i], where, problem, out);
  }
  if (fields.good()) settle_call_ids(problem, "messages", out);
}

void read_tools(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr) return;
  if (tools->size() > defaults.max_tools)
    return fields.refuse("tools", "has more than " + std::to_string(defaults.max_tools) + " entries");
  for (size_t i = 0; i < tools->size() && fields.good(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    if (!(*tools)[i].is_object()) return fields.refuse(where, "must be an object");
    Fields tool((*tools)[i], where, problem);
    tool.required("type");
    tool.only("type", "function", "only functions are supported");
    tool.required("function");
    const Json* function = tool.object("function");
    if (function == nullptr) return;
    Fields inner(*function, where + ".function", problem);
    add_tool(inner, "parameters", out);
    inner.finish();
    tool.without_effect({"cache_control"});
    tool.finish();
  }
}

void read_tool_choice(Fields& fields, ProblemSlot* problem, Request* out) {
  fields.flag("parallel_tool_calls", &out->parallel_tool_calls);
  const Json* choice = fields.any("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    std::string word;
    if (!fields.choice("tool_choice", {"none", "auto", "required"}, &word)) return;
    if (word == "none") out->tool_choice = ToolChoice::none;
    if (word == "required") out->tool_choice = ToolChoice::required;
  } else if (choice->is_object()) {
    Fields inner(*choice, "tool_choice", problem);
    inner.required("type");
    inner.only("type", "function", "only functions are supported");
    // Flat in the Responses API.
    const Json* function = inner.object("function");
    if (function != nullptr) {
      Fields named(*function, "tool_choice.function", problem);
      named.required("name");
      named.text("name", &out->tool_name);
      named.finish();
      inner.finish();
    } else {
      inner.required("name");
      inner.text("name", &out->tool_name);
      inner.finish();
    }
    out->tool_choice = ToolChoice::named;
  } else {
    return fields.refuse("tool_choice", "must be a word or an object");
  }
  check_tool_choice(fields, "tool_choice", out);
}

std::optional<Problem> parse_chat(const Json& body, const Defaults& defaults, Request* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  read_conversation(fields, defaults, &problem, out);
  read_sampling(fields, defaults, out);
  read_stop(fields, "stop", defaults, out);
  read_logprobs(fields, out);
  int64_t old_limit = 0, limit = 0;
  const bool has_old = fields.integer("max_tokens", 1, kMaxTokens, &old_limit);
  const bool has_new = fields.integer("max_completion_tokens", 1, kMaxTokens, &limit);
  if (has_old && has_new && old_limit != limit) fields.refuse("max_tokens", "differs from max_completion_tokens");
  out->max_tokens = has_new ? limit : old_limit;
  fields.integer("thinking_budget_tokens", 0, kMaxTokens, &out->thinking_budget);
  if (const Json* format = fields.object("response_format"); format != nullptr)
    read_format(*format, "response_format", false, &problem, out);
  fields.text("grammar", &out->grammar);
  fields.unsupported("functions", "use tools");
  fields.unsupported("function_call", "use tool_choice");
  fields.unsupported("audio", "is not supported");
  fields.unsupported("prediction", "is not supported");
  fields.unsupported("web_search_options", "is not supported");
  if (const Json* modalities = fields.array("modalities");
      modalities != nullptr && *modalities != Json::array({"text"}))
    fields.refuse("modalities", "only [\"text\"] is supported", "unsupported_parameter");
  fields.only("store", false, "nothing is stored");
  fields.only("cache_prompt", true, "prompts are always cached");
  fields.without_effect({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                         "prompt_cache_retention", "verbosity"});
  fields.finish();
  return problem;
}

std::optional<Problem> parse_apply_template(const Json& body, const Defaults& defaults, Request* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  read_conversation(fields, defaults, &problem, out);
  fields.finish();
  return problem;
}

}  // namespace quern::api
