#include "api/parse_parts.h"

#include <algorithm>
#include <map>

namespace quern::api {

size_t Request::n_calls() const {
  size_t count = 0;
  for (const token::Message& message : messages) count += message.tool_calls.is_array() ? message.tool_calls.size() : 0;
  return count;
}

namespace {

void read_logit_bias(Fields& fields, Request* out) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& item : bias->items()) {
    const std::string& key = item.key();
    const bool digits = !key.empty() && key.size() <= 9 &&
                        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return fields.refuse("logit_bias", "its names must be token ids");
    if (!item.value().is_number()) return fields.refuse("logit_bias", "its values must be numbers");
    const double value = item.value().get<double>();
    if (!(value >= -100 && value <= 100)) return fields.refuse("logit_bias", "its values must be from -100 to 100");
    // -100 is documented as a ban.
    const float number = value <= -100 ? -std::numeric_limits<float>::infinity() : static_cast<float>(value);
    out->sampler.logit_bias.emplace_back(std::stoi(key), number);
  }
}

}  // namespace

void read_sampling(Fields& fields, const Defaults& defaults, Request* out) {
  token::SamplerOptions& sampler = out->sampler;
  sampler = defaults.sampler;
  fields.number("temperature", -1, 100, &sampler.temperature);
  fields.number("top_p", 0, 1, &sampler.top_p);
  fields.number("min_p", 0, 1, &sampler.min_p);
  fields.number("typical_p", 0, 1, &sampler.typical_p);
  int64_t whole = 0;
  if (fields.integer("top_k", -1, kMaxTokens, &whole)) sampler.top_k = static_cast<int32_t>(whole);
  if (fields.integer("repeat_last_n", -1, kMaxTokens, &whole)) sampler.repeat_last_n = static_cast<int32_t>(whole);
  fields.number("repeat_penalty", 0.01, 100, &sampler.repeat_penalty);
  fields.number("repetition_penalty", 0.01, 100, &sampler.repeat_penalty);
  fields.number("presence_penalty", -100, 100, &sampler.presence_penalty);
  fields.number("frequency_penalty", -100, 100, &sampler.frequency_penalty);
  if (fields.integer("seed", INT64_MIN, INT64_MAX, &whole)) {
    sampler.seed = static_cast<uint64_t>(whole);
    out->has_seed = true;
  }
  read_logit_bias(fields, out);
  fields.flag("ignore_eos", &out->ignore_eos);
  if (fields.integer("n", 1, defaults.max_n, &whole)) out->n = static_cast<int>(whole);
  fields.flag("stream", &out->stream);
  if (const Json* options = fields.object("stream_options"); options != nullptr) {
    ProblemSlot problem;
    Fields inner(*options, fields.name_of("stream_options"), &problem);
    inner.flag("include_usage", &out->include_usage);
    inner.without_effect({"include_obfuscation"});
    inner.finish();
    if (problem) fields.refuse("stream_options", problem->message);
    if (!out->stream) fields.refuse("stream_options", "is only allowed when stream is true");
  }
}

void read_stop(Fields& fields, std::string_view field, const Defaults& defaults, Request* out) {
  const Json* stop = fields.any(field);
  if (stop == nullptr) return;
  const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array()) return fields.refuse(field, "must be a string or an array of strings");
  if (list.size() > defaults.max_stops)
    return fields.refuse(field, "has more than " + std::to_string(defaults.max_stops) + " entries");
  for (const Json& text : list) {
    if (!text.is_string()) return fields.refuse(field, "must be a string or an array of strings");
    if (text.get_ref<const std::string&>().empty()) return fields.refuse(field, "has an empty string");
    if (text.get_ref<const std::string&>().size() > 4096)
      return fields.refuse(field, "has a string of more than 4096 bytes");
    out->stop.push_back(text.get<std::string>());
  }
}

bool read_ids(const Json& array, const std::string& name, ProblemSlot* problem, TokenIds* out) {
  out->reserve(array.size());
  for (const Json& id : array) {
    const bool good = id.is_number_integer() && id >= 0 && id <= INT32_MAX;
    if (!good) {
      if (!*problem) *problem = Problem{.message = name + ": must hold token ids, whole numbers from 0", .field = name};
      return false;
    }
    out->push_back(id.get<int32_t>());
  }
  return true;
}

void read_texts(Fields& fields, std::string_view field, size_t limit,
                std::vector<std::variant<std::string, TokenIds>>* out) {
  const Json* value = fields.any(field);
  if (value == nullptr) return;
  if (value->is_string()) return out->push_back(value->get<std::string>()), void();
  if (!value->is_array()) return fields.refuse(field, "must be a string, an array of strings or token ids");
  if (value->empty()) return fields.refuse(field, "is empty");
  ProblemSlot problem;
  if (value->front().is_number()) {
    TokenIds ids;
    if (!read_ids(*value, fields.name_of(field), &problem, &ids))
      return fields.refuse(field, "must hold token ids, whole numbers from 0");
    return out->push_back(std::move(ids)), void();
  }
  if (value->size() > limit) return fields.refuse(field, "has more than " + std::to_string(limit) + " entries");
  for (const Json& item : *value) {
    TokenIds ids;
    if (item.is_string()) {
      out->push_back(item.get<std::string>());
    } else if (item.is_array() && !item.empty() && read_ids(item, fields.name_of(field), &problem, &ids)) {
      out->push_back(std::move(ids));
    } else {
      return fields.refuse(field, "must be a string, an array of strings or token ids");
    }
  }
}

void read_effort(Fields& fields, std::string_view field, Request* out) {
  std::string word;
  if (!fields.choice(field, {"none", "minimal", "low", "medium", "high", "xhigh"}, &word)) return;
  if (word == "none") {
    out->reasoning.thinking = false;
  } else {
    out->reasoning.effort = word == "minimal" ? "low" : word == "xhigh" ? "high" : word;
  }
}

bool has_tool(const Request& request, std::string_view name) {
  if (!request.tools.is_array()) return false;
  return std::any_of(request.tools.begin(), request.tools.end(),
                     [&](const Json& tool) { return tool["function"]["name"] == name; });
}

void add_tool(Fields& fields, std::string_view schema_field, Request* out) {
  Json function = Json::object();
  std::string name, description;
  fields.required("name");
  fields.text("name", &name);
  if (!fields.good()) return;
  const bool good = !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
  });
  if (!good) return fields.refuse("name", "must be letters, digits, _ - . : /, at most 128");
  if (has_tool(*out, name)) return fields.refuse("name", "is given to two tools");
  function["name"] = name;
  if (fields.text("description", &description)) function["description"] = description;
  bool strict = false;
  if (fields.flag("strict", &strict) && strict) out->strict_tools.insert(name);
  const Json* schema = fields.object(schema_field);
  function["parameters"] = schema != nullptr ? *schema : Json{{"type", "object"}, {"properties", Json::object()}};
  if (out->tools.is_null()) out->tools = Json::array();
  out->tools.push_back({{"type", "function"}, {"function", std::move(function)}});
}

void check_tool_choice(Fields& fields, std::string_view field, Request* out) {
  if (out->tool_choice == ToolChoice::named && !has_tool(*out, out->tool_name))
    return fields.refuse(field, "names no tool of this request: \"" + out->tool_name.substr(0, 128) + "\"");
  if (out->tool_choice == ToolChoice::required && out->tools.is_null())
    return fields.refuse(field, "asks for a call, and there are no tools");
}

void settle_call_ids(ProblemSlot* problem, std::string_view field, Request* out) {
  struct Call {
    std::string id, name;
  };
  std::map<std::string, Call> calls;  // id as given -> as the template sees it
  const auto plain = [](const std::string& id) {
    return id.size() == 9 && std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  };
  const auto refuse = [&](size_t message, const std::string& why) {
    if (!*problem) {
      const std::string name = std::string(field) + "[" + std::to_string(message) + "]";
      *problem = Problem{.message = name + ": " + why, .field = name};
    }
  };
  size_t n = 0;
  for (size_t i = 0; i < out->messages.size() && !*problem; ++i) {
    token::Message& message = out->messages[i];
    if (message.tool_calls.is_array()) {
      for (Json& call : message.tool_calls) {
        const std::string id = call["id"].get<std::string>();
        std::string number = std::to_string(n++);
        number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
        // The same call may stand in a conversation twice, where a client repeats a turn.
        const Call& known = calls[id] = {plain(id) ? id : "call" + number, call["function"]["name"].get<std::string>()};
        call["id"] = known.id;
      }
    }
    if (message.role != "tool") continue;
    const auto at = calls.find(message.tool_call_id);
    if (at == calls.end())
      return refuse(i,
                    "answers a call that no message before it makes: \"" + message.tool_call_id.substr(0, 100) + "\"");
    message.tool_call_id = at->second.id;
    if (message.name.empty()) message.name = at->second.name;  // clients leave it out, and some templates print it
  }
}

void read_format(const Json& format, const std::string& where, bool flat, ProblemSlot* problem, Request* out) {
  Fields fields(format, where, problem);
  std::string type;
  fields.required("type");
  if (!fields.choice("type", {"text", "json_object", "json_schema"}, &type)) return;
  if (type == "json_object") out->format = ResponseFormat::json_object;
  if (type != "json_schema") {
    if (type == "json_object") {
      if (const Json* schema = fields.any("schema"); schema != nullptr) {  // an extension that llama-server has
        out->format = ResponseFormat::json_schema;
        out->schema = *schema;
      }
    }
    return fields.finish();
  }
  out->format = ResponseFormat::json_schema;
  const auto read = [&](Fields& inner) {
    inner.required("schema");
    if (const Json* schema = inner.any("schema"); schema != nullptr) {
      if (!schema->is_object() && !schema->is_boolean())
        return inner.refuse("schema", "must be an object, true or false");
      out->schema = *schema;
    }
    inner.without_effect({"name", "description", "strict"});  // a schema always holds
  };
  if (flat) {
    read(fields);
  } else {
    fields.required("json_schema");
    const Json* object = fields.object("json_schema");
    if (object == nullptr) return;
    Fields inner(*object, fields.name_of("json_schema"), problem);
    read(inner);
    inner.finish();
  }
  fields.finish();
}

void read_content(const Json& content, const std::string& where, std::initializer_list<std::string_view> types,
                  ProblemSlot* problem, Json* out) {
  if (content.is_string()) {
    *out = content;
    return;
  }
  const auto refuse = [&](const std::string& name, const std::string& why) {
    if (!*problem) *problem = Problem{.message = name + ": " + why, .field = name};
  };
  if (!content.is_array()) return refuse(where, "must be a string or an array of parts");
  *out = Json::array();
  for (size_t i = 0; i < content.size() && !*problem; ++i) {
    const std::string name = where + "[" + std::to_string(i) + "]";
    if (!content[i].is_object()) return refuse(name, "must be an object");
    Fields part(content[i], name, problem);
    std::string type, text;
    part.required("type");
    part.text("type", &type);
    if (!part.good()) return;
    if (std::find(types.begin(), types.end(), type) == types.end())
      return part.refuse("type", "\"" + type.substr(0, 100) + "\" is not supported; only text is");
    const char* field = type == "refusal" ? "refusal" : "text";
    part.required(field);
    part.text(field, &text);
    part.without_effect({"cache_control", "annotations", "citations", "logprobs"});
    part.finish();
    out->push_back({{"type", "text"}, {"text", text}});
  }
}

}  // namespace quern::api
