// /v1/responses. Tools of kinds that are not functions are skipped: clients announce them whatever the server has.
#include "api/parse_parts.h"

namespace quern::api {
namespace {

void read_message_item(Fields& item, ProblemSlot* problem, Request* out) {
  token::Message message;
  item.required("role");
  if (!item.choice("role", {"system", "developer", "user", "assistant"}, &message.role)) return;
  if (message.role == "developer") message.role = "system";
  item.required("content");
  const Json* content = item.any("content");
  if (content == nullptr) return;
  read_content(*content, item.name_of("content"), {"input_text", "output_text", "text", "refusal"}, problem,
               &message.content);
  item.without_effect({"id", "status", "phase"});
  if (item.good()) out->messages.push_back(std::move(message));
}

void read_call_item(Fields& item, Request* out) {
  std::string id, name, arguments;
  for (const char* field : {"call_id", "name", "arguments"}) item.required(field);
  item.text("call_id", &id);
  item.text("name", &name);
  item.text("arguments", &arguments);
  item.without_effect({"id", "status", "namespace"});
  if (!item.good()) return;
  Json call = {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  // Calls that follow each other, or reasoning, are of one message.
  const bool joins = !out->messages.empty() && out->messages.back().role == "assistant";
  if (!joins) {
    token::Message message;
    message.role = "assistant";
    out->messages.push_back(std::move(message));
  }
  Json& calls = out->messages.back().tool_calls;
  if (calls.is_null()) calls = Json::array();
  calls.push_back(std::move(call));
}

void read_output_item(Fields& item, ProblemSlot* problem, Request* out) {
  token::Message message;
  message.role = "tool";
  item.required("call_id");
  item.text("call_id", &message.tool_call_id);
  item.required("output");
  if (const Json* output = item.any("output"); output != nullptr)
    read_content(*output, item.name_of("output"), {"input_text", "output_text", "text"}, problem, &message.content);
  item.without_effect({"id", "status"});
  if (item.good()) out->messages.push_back(std::move(message));
}

void read_reasoning_item(Fields& item, Request* out) {
  std::string text;
  if (const Json* content = item.array("content"); content != nullptr) {
    for (const Json& part : *content) {
      if (!part.is_object() || !part.contains("text") || !part["text"].is_string())
        return item.refuse("content", "must hold parts with text");
      text += part["text"].get<std::string>();
    }
  }
  item.without_effect({"id", "status", "summary", "encrypted_content"});
  if (!item.good() || text.empty()) return;
  token::Message message;
  message.role = "assistant";
  message.reasoning_content = std::move(text);
  out->messages.push_back(std::move(message));
}

void read_item(const Json& json, const std::string& where, ProblemSlot* problem, Request* out) {
  Fields item(json, where, problem);
  std::string type = "message";
  item.text("type", &type);
  if (!item.good()) return;
  if (type == "message") {
    read_message_item(item, problem, out);
  } else if (type == "function_call") {
    read_call_item(item, out);
  } else if (type == "function_call_output") {
    read_output_item(item, problem, out);
  } else if (type == "reasoning") {
    read_reasoning_item(item, out);
  } else {
    item.refuse("type", "\"" + type.substr(0, 100) + "\" is not supported");
  }
  item.finish();
}

// Reasoning, words and calls of one turn come as items; templates want one message.
void join_turns(Request* out) {
  std::vector<token::Message> joined;
  for (token::Message& message : out->messages) {
    token::Message* last = joined.empty() ? nullptr : &joined.back();
    const bool same = last != nullptr && last->role == "assistant" && message.role == "assistant" &&
                      last->tool_calls.is_null() && last->content.is_null() && last->reasoning_content &&
                      !message.reasoning_content;
    if (!same) {
      joined.push_back(std::move(message));
      continue;
    }
    last->content = std::move(message.content);
    last->tool_calls = std::move(message.tool_calls);
  }
  out->messages = std::move(joined);
}

void read_items(Fields& fields, const Json& items, const std::string& name, ProblemSlot* problem, Request* out) {
  for (size_t i = 0; i < items.size() && fields.good(); ++i) {
    const std::string where = name + "[" + std::to_string(i) + "]";
    if (!items[i].is_object()) return fields.refuse(where, "must be an object");
    read_item(items[i], where, problem, out);
  }
}

void read_input(Fields& fields, const Json& earlier, const Defaults& defaults, ProblemSlot* problem, Request* out) {
  fields.required("input");
  const Json* input = fields.any("input");
  if (input == nullptr) return;
  if (!input->is_string() && !input->is_array()) return fields.refuse("input", "must be a string or an array of items");
  if (input->is_array() && input->empty()) return fields.refuse("input", "is empty");
  if (earlier.size() + input->size() > defaults.max_messages)  // a string has the size 1
    return fields.refuse("input", "has more than " + std::to_string(defaults.max_messages) +
                                      " entries, those of previous_response_id included");
  read_items(fields, earlier, "previous_response_id", problem, out);
  if (input->is_array()) {
    read_items(fields, *input, "input", problem, out);
  } else {
    token::Message message;
    message.role = "user";
    message.content = *input;
    out->messages.push_back(std::move(message));
  }
  if (fields.good()) join_turns(out);
}

void read_flat_tools(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr) return;
  if (tools->size() > defaults.max_tools)
    return fields.refuse("tools", "has more than " + std::to_string(defaults.max_tools) + " entries");
  for (size_t i = 0; i < tools->size() && fields.good(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    if (!(*tools)[i].is_object()) return fields.refuse(where, "must be an object");
    Fields tool((*tools)[i], where, problem);
    std::string type;
    tool.required("type");
    tool.text("type", &type);
    if (!tool.good()) return;
    if (type != "function") continue;
    add_tool(tool, "parameters", out);
    tool.without_effect({"defer_loading"});
    tool.finish();
  }
}

}  // namespace

std::optional<Problem> parse_responses(const Json& body, const Json& earlier, const Defaults& defaults, Request* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  fields.text("model", &out->model);
  std::string instructions;
  if (fields.text("instructions", &instructions) && !instructions.empty()) {
    token::Message message;
    message.role = "system";
    message.content = instructions;
    out->messages.push_back(std::move(message));
  }
  read_input(fields, earlier, defaults, &problem, out);
  if (fields.good()) settle_call_ids(&problem, "input", out);
  read_flat_tools(fields, defaults, &problem, out);
  read_tool_choice(fields, &problem, out);
  out->sampler = defaults.sampler;
  fields.number("temperature", -1, 100, &out->sampler.temperature);
  fields.number("top_p", 0, 1, &out->sampler.top_p);
  fields.integer("max_output_tokens", 1, kMaxTokens, &out->max_tokens);
  fields.flag("stream", &out->stream);
  if (const Json* reasoning = fields.object("reasoning"); reasoning != nullptr) {
    Fields inner(*reasoning, "reasoning", &problem);
    read_effort(inner, "effort", out);
    inner.without_effect({"summary", "generate_summary"});
    inner.finish();
  }
  if (const Json* text = fields.object("text"); text != nullptr) {
    Fields inner(*text, "text", &problem);
    if (const Json* format = inner.object("format"); format != nullptr)
      read_format(*format, "text.format", true, &problem, out);
    inner.without_effect({"verbosity"});
    inner.finish();
  }
  std::string previous;  // what it names has come as `earlier`
  fields.text("previous_response_id", &previous);
  fields.flag("store", &out->store);
  fields.unsupported("conversation", "is not supported: send previous_response_id, or the conversation as input");
  fields.unsupported("prompt", "is not supported");
  fields.only("background", false, "is not supported");
  fields.only("truncation", "disabled", "a prompt that is too long is refused");
  fields.only("top_logprobs", 0, "is not supported here");
  fields.without_effect({"metadata", "user", "service_tier", "safety_identifier", "prompt_cache_key",
                         "prompt_cache_retention", "include", "max_tool_calls", "stream_options", "client_metadata"});
  fields.finish();
  return problem;
}

}  // namespace quern::api
