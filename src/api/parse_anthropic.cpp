// The Anthropic dialect's conversations: /v1/messages and /v1/messages/count_tokens.
#include "api/parse_parts.h"

namespace quern::api {
namespace {

// Ids of calls go out as "toolu_" and nine letters and digits.
std::string id_without_prefix(const std::string& id) {
  return id.size() == 15 && id.starts_with("toolu_") ? id.substr(6) : id;
}

// A client's billing line is different in each request, and would end every shared prefix.
bool is_billing(const Json& block) {
  const auto text = block.find("text");
  return text != block.end() && text->is_string() &&
         text->get_ref<const std::string&>().starts_with("x-anthropic-billing-header:");
}

void read_system(Fields& fields, ProblemSlot* problem, Request* out) {
  const Json* system = fields.any("system");
  if (system == nullptr) return;
  Json blocks = *system;
  if (blocks.is_array() && !blocks.empty() && blocks[0].is_object() && is_billing(blocks[0])) blocks.erase(0);
  token::Message message;
  message.role = "system";
  read_content(blocks, "system", {"text"}, problem, &message.content);
  if (fields.good() && !message.content.empty() && message.content != "") out->messages.push_back(std::move(message));
}

// What one message of the client becomes: an assistant's turn, or results of tools and then a user's words.
struct Turn {
  token::Message words;
  std::vector<token::Message> results;
  bool any = false;  // there are words
};

void read_tool_use(Fields& block, Turn* turn) {
  std::string id, name;
  block.required("id");
  block.text("id", &id);
  block.required("name");
  block.text("name", &name);
  block.required("input");
  const Json* input = block.object("input");
  if (input == nullptr) return;
  if (turn->words.tool_calls.is_null()) turn->words.tool_calls = Json::array();
  turn->words.tool_calls.push_back({{"id", id_without_prefix(id)},
                                    {"type", "function"},
                                    {"function", {{"name", name}, {"arguments", dump(*input)}}}});
}

void read_tool_result(Fields& block, ProblemSlot* problem, Turn* turn) {
  token::Message result;
  result.role = "tool";
  bool failed = false;
  block.required("tool_use_id");
  block.text("tool_use_id", &result.tool_call_id);
  result.tool_call_id = id_without_prefix(result.tool_call_id);
  block.flag("is_error", &failed);
  result.content = "";
  if (const Json* content = block.any("content"); content != nullptr)
    read_content(*content, block.name_of("content"), {"text"}, problem, &result.content);
  if (!block.good()) return;
  if (failed) {
    // Templates have no place for it; the model should know.
    Json text = "Error: ";
    if (result.content.is_string()) {
      result.content = text.get<std::string>() + result.content.get<std::string>();
    } else {
      result.content.insert(result.content.begin(), Json{{"type", "text"}, {"text", text}});
    }
  }
  turn->results.push_back(std::move(result));
}

void read_block(const Json& json, const std::string& where, ProblemSlot* problem, Turn* turn) {
  Fields block(json, where, problem);
  std::string type, text;
  block.required("type");
  block.text("type", &type);
  if (!block.good()) return;
  const bool assistant = turn->words.role == "assistant";
  if (type == "text") {
    block.required("text");
    block.text("text", &text);
    turn->words.content.push_back({{"type", "text"}, {"text", text}});
    turn->any = true;
    block.without_effect({"citations"});
  } else if (type == "thinking" && assistant) {
    block.required("thinking");
    if (block.text("thinking", &text))
      turn->words.reasoning_content = turn->words.reasoning_content.value_or("") + text;
    block.without_effect({"signature"});
  } else if (type == "redacted_thinking" && assistant) {
    block.without_effect({"data"});
  } else if (type == "tool_use" && assistant) {
    read_tool_use(block, turn);
    block.without_effect({"caller"});
  } else if (type == "tool_result" && !assistant) {
    read_tool_result(block, problem, turn);
  } else {
    block.refuse("type", "\"" + type.substr(0, 100) + "\" is not supported here");
  }
  block.without_effect({"cache_control"});
  block.finish();
}

void read_turn(const Json& json, const std::string& where, ProblemSlot* problem, Request* out) {
  Fields fields(json, where, problem);
  Turn turn;
  fields.required("role");
  if (!fields.choice("role", {"user", "assistant", "system"}, &turn.words.role)) return;
  fields.required("content");
  const Json* content = fields.any("content");
  if (content == nullptr) return;
  if (content->is_string()) {
    turn.words.content = *content;
    turn.any = true;
  } else if (content->is_array()) {
    turn.words.content = Json::array();
    for (size_t i = 0; i < content->size() && fields.good(); ++i) {
      const std::string name = where + ".content[" + std::to_string(i) + "]";
      if (!(*content)[i].is_object()) return fields.refuse("content", "must hold objects");
      read_block((*content)[i], name, problem, &turn);
    }
  } else {
    return fields.refuse("content", "must be a string or an array of blocks");
  }
  fields.finish();
  if (!fields.good()) return;
  for (auto& result : turn.results) out->messages.push_back(std::move(result));
  const bool assistant = turn.words.role == "assistant";
  if (assistant && !turn.any) turn.words.content = nullptr;
  if (assistant ? turn.any || turn.words.tool_calls.is_array() || turn.words.reasoning_content.has_value() : turn.any)
    out->messages.push_back(std::move(turn.words));
}

void read_tools_of_anthropic(Fields& fields, const Defaults& defaults, ProblemSlot* problem, Request* out) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr) return;
  if (tools->size() > defaults.max_tools)
    return fields.refuse("tools", "has more than " + std::to_string(defaults.max_tools) + " entries");
  for (size_t i = 0; i < tools->size() && fields.good(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    if (!(*tools)[i].is_object()) return fields.refuse(where, "must be an object");
    Fields tool((*tools)[i], where, problem);
    tool.only("type", "custom", "only tools of the client are supported");
    add_tool(tool, "input_schema", out);
    tool.without_effect(
        {"cache_control", "eager_input_streaming", "input_examples", "defer_loading", "allowed_callers"});
    tool.finish();
  }
}

void read_choice(Fields& fields, ProblemSlot* problem, Request* out) {
  const Json* choice = fields.object("tool_choice");
  if (choice == nullptr) return;
  Fields inner(*choice, "tool_choice", problem);
  std::string type;
  bool one = false;
  inner.required("type");
  if (!inner.choice("type", {"auto", "any", "tool", "none"}, &type)) return;
  if (type == "any") out->tool_choice = ToolChoice::required;
  if (type == "none") out->tool_choice = ToolChoice::none;
  if (type == "tool") {
    out->tool_choice = ToolChoice::named;
    inner.required("name");
    inner.text("name", &out->tool_name);
  }
  if (inner.flag("disable_parallel_tool_use", &one)) out->parallel_tool_calls = !one;
  inner.finish();
  check_tool_choice(fields, "tool_choice", out);
}

void read_thinking(Fields& fields, ProblemSlot* problem, Request* out) {
  const Json* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  Fields inner(*thinking, "thinking", problem);
  std::string type;
  inner.required("type");
  if (!inner.choice("type", {"enabled", "disabled", "adaptive"}, &type)) return;
  if (type != "adaptive") out->reasoning.thinking = type == "enabled";
  if (type == "enabled") {
    inner.required("budget_tokens");
    inner.integer("budget_tokens", 1, kMaxTokens, &out->thinking_budget);
  }
  inner.without_effect({"display"});
  inner.finish();
}

}  // namespace

std::optional<Problem> parse_messages(const Json& body, const Defaults& defaults, bool count, Request* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  out->dialect = Dialect::anthropic;
  out->sampler = defaults.sampler;
  fields.required("model");
  fields.text("model", &out->model);
  read_system(fields, &problem, out);
  fields.required("messages");
  if (const Json* messages = fields.array("messages"); messages != nullptr) {
    if (messages->empty()) fields.refuse("messages", "is empty");
    if (messages->size() > defaults.max_messages)
      fields.refuse("messages", "has more than " + std::to_string(defaults.max_messages) + " entries");
    for (size_t i = 0; i < messages->size() && fields.good(); ++i) {
      const std::string where = "messages[" + std::to_string(i) + "]";
      if (!(*messages)[i].is_object()) fields.refuse(where, "must be an object");
      if (fields.good()) read_turn((*messages)[i], where, &problem, out);
    }
    if (fields.good() && out->messages.empty()) fields.refuse("messages", "has no text");
    if (fields.good()) settle_call_ids(&problem, "messages", out);
  }
  read_tools_of_anthropic(fields, defaults, &problem, out);
  read_choice(fields, &problem, out);
  read_thinking(fields, &problem, out);
  if (!count) {
    fields.required("max_tokens");
    fields.integer("max_tokens", 1, kMaxTokens, &out->max_tokens);
    fields.number("temperature", 0, 100, &out->sampler.temperature);
    fields.number("top_p", 0, 1, &out->sampler.top_p);
    int64_t top_k = 0;
    if (fields.integer("top_k", 0, kMaxTokens, &top_k)) out->sampler.top_k = static_cast<int32_t>(top_k);
    read_stop(fields, "stop_sequences", defaults, out);
    fields.flag("stream", &out->stream);
    fields.without_effect({"metadata", "service_tier"});
  }
  fields.unsupported("container", "is not supported");
  if (const Json* servers = fields.array("mcp_servers"); servers != nullptr && !servers->empty())
    fields.refuse("mcp_servers", "is not supported", "unsupported_parameter");
  fields.without_effect({"context_management", "cache_control"});
  if (const Json* config = fields.object("output_config"); config != nullptr) {
    Fields inner(*config, "output_config", &problem);
    inner.without_effect({"effort"});
    if (const Json* format = inner.object("format"); format != nullptr)
      read_format(*format, "output_config.format", true, &problem, out);
    inner.finish();
  }
  fields.finish();
  return problem;
}

}  // namespace quern::api
