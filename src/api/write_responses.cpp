// /v1/responses: output items, and the events by which a stream builds them.
#include "api/write.h"

namespace quern::api {
namespace {

using Kind = token::ReplyDelta::Kind;

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

std::string item_id(const Head& head, const char* prefix, size_t index) {
  return prefix + head.id.substr(head.id.find('_') + 1) + "_" + std::to_string(index);
}

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json message_item(const Head& head, size_t index, const char* status, const Json& content) {
  Json item = {{"id", item_id(head, "msg_", index)}, {"type", "message"}, {"status", status}, {"role", "assistant"}};
  item["content"] = content;
  return item;
}

Json reasoning_item(const Head& head, size_t index, const char* status, const std::string& text) {
  Json item = {
      {"id", item_id(head, "rs_", index)}, {"type", "reasoning"}, {"status", status}, {"summary", Json::array()}};
  item["content"] = text.empty() ? Json::array() : Json::array({Json{{"type", "reasoning_text"}, {"text", text}}});
  return item;
}

Json call_item(const Head& head, size_t index, const char* status, size_t call, const std::string& name,
               const std::string& arguments) {
  return {{"id", item_id(head, "fc_", index)},
          {"type", "function_call"},
          {"status", status},
          {"call_id", call_id(head.first_call + call)},
          {"name", name},
          {"arguments", arguments}};
}

// What a response says of its request, as the client gave it or as the API's default has it.
Json frame(const Head& head, const Json& asked, const char* status) {
  Json json = {{"id", head.id}, {"object", "response"}, {"created_at", head.created}, {"status", status}};
  json["error"] = nullptr;
  json["incomplete_details"] = nullptr;
  json["model"] = head.model;
  const auto echo = [&](const char* field, const Json& fallback) {
    const auto at = asked.find(field);
    json[field] = at == asked.end() || at->is_null() ? fallback : *at;
  };
  echo("instructions", nullptr);
  echo("max_output_tokens", nullptr);
  echo("metadata", Json::object());
  echo("parallel_tool_calls", true);
  echo("previous_response_id", nullptr);
  echo("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  echo("store", false);
  echo("temperature", nullptr);
  echo("text", {{"format", {{"type", "text"}}}});
  echo("tool_choice", "auto");
  echo("tools", Json::array());
  echo("top_p", nullptr);
  json["truncation"] = "disabled";
  json["output"] = Json::array();
  json["usage"] = nullptr;
  return json;
}

void complete(Json* json, const Ending& ending, const Usage& usage, Json output, const KeepResponse& keep) {
  (*json)["output"] = std::move(output);
  (*json)["usage"] = usage_json(usage);
  if (ending.kind == EndKind::length) {
    (*json)["status"] = "incomplete";
    (*json)["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  const bool whole = ending.kind != EndKind::cancelled;
  if (keep && !(whole && keep(*json))) (*json)["store"] = false;
}

class ResponsesEvents : public EventWriter {
 public:
  ResponsesEvents(Head head, Json asked, KeepResponse keep)
      : head_(std::move(head)), asked_(std::move(asked)), keep_(std::move(keep)) {}

  std::string begin(int, const Usage&) override {
    const Json response = frame(head_, asked_, "in_progress");
    std::string out = event("response.created", {{"response", response}});
    out += event("response.in_progress", {{"response", response}});
    return out;
  }
  std::string add(int, const Progress& progress) override {
    std::string out;
    for (const auto& delta : progress.deltas) {
      switch (delta.kind) {
        case Kind::reasoning:
          out += open("reasoning", "");
          out += event("response.reasoning_text.delta", place({{"content_index", 0}, {"delta", delta.text}}));
          text_ += delta.text;
          break;
        case Kind::content:
          out += open("message", "");
          out += event("response.output_text.delta",
                       place({{"content_index", 0}, {"delta", delta.text}, {"logprobs", Json::array()}}));
          text_ += delta.text;
          break;
        case Kind::call:
          out += close();
          out += open("function_call", delta.text);
          break;
        case Kind::arguments:
          out += event("response.function_call_arguments.delta", place({{"delta", delta.text}}));
          text_ += delta.text;
          break;
      }
    }
    return out;
  }
  std::string finish(int, const Choice& whole) override {
    std::string out = close();
    Json response = frame(head_, asked_, "completed");
    complete(&response, whole.ending, whole.usage, output_, keep_);
    const bool incomplete = whole.ending.kind == EndKind::length;
    return out + event(incomplete ? "response.incomplete" : "response.completed", {{"response", response}});
  }
  std::string end(const Usage&) override { return {}; }
  std::string error(const Problem& problem) override {
    Json response = frame(head_, asked_, "failed");
    response["error"] = {{"code", "server_error"}, {"message", problem.message}};
    response["output"] = output_;
    response["store"] = false;
    return event("response.failed", {{"response", response}});
  }

 private:
  std::string event(const char* name, const Json& members) {
    Json json = {{"type", name}, {"sequence_number", sequence_++}};
    json.update(members);
    return event_text(name, json);
  }
  Json place(const Json& members) const {
    Json json = {{"item_id", item_["id"]}, {"output_index", output_.size()}};
    json.update(members);
    return json;
  }
  Json item(const char* status) const {
    const size_t index = output_.size();
    if (kind_ == "reasoning") return reasoning_item(head_, index, status, text_);
    if (kind_ == "function_call") return call_item(head_, index, status, n_calls_ - 1, name_, text_);
    return message_item(head_, index, status, text_.empty() ? Json::array() : Json::array({text_part(text_)}));
  }
  std::string open(const std::string& kind, const std::string& name) {
    if (kind == kind_) return {};
    std::string out = close();
    kind_ = kind;
    name_ = name;
    text_.clear();
    if (kind == "function_call") ++n_calls_;
    item_ = item("in_progress");
    out += event("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
    if (kind == "message")
      out += event("response.content_part.added", place({{"content_index", 0}, {"part", text_part("")}}));
    return out;
  }
  std::string close() {
    if (kind_.empty()) return {};
    std::string out;
    if (kind_ == "message") {
      out += event("response.output_text.done",
                   place({{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}}));
      out += event("response.content_part.done", place({{"content_index", 0}, {"part", text_part(text_)}}));
    } else if (kind_ == "reasoning") {
      out += event("response.reasoning_text.done", place({{"content_index", 0}, {"text", text_}}));
    } else {
      out += event("response.function_call_arguments.done", place({{"name", name_}, {"arguments", text_}}));
    }
    const Json done = item("completed");
    out += event("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
    output_.push_back(done);
    kind_.clear();
    return out;
  }

  Head head_;
  Json asked_;
  KeepResponse keep_;
  Json item_ = Json::object(), output_ = Json::array();
  std::string kind_, name_, text_;  // of the item that is open; kind_ empty: none
  int64_t sequence_ = 0;
  size_t n_calls_ = 0;
};

}  // namespace

Json responses_response(const Head& head, const Choice& choice, const Json& asked, const KeepResponse& keep) {
  Json output = Json::array();
  const token::Reply& reply = choice.reply;
  if (!reply.reasoning.empty()) output.push_back(reasoning_item(head, output.size(), "completed", reply.reasoning));
  if (!reply.content.empty() || reply.calls.empty())
    output.push_back(message_item(head, output.size(), "completed", Json::array({text_part(reply.content)})));
  for (size_t i = 0; i < reply.calls.size(); ++i)
    output.push_back(call_item(head, output.size(), "completed", i, reply.calls[i].name, reply.calls[i].arguments));
  Json json = frame(head, asked, "completed");
  complete(&json, choice.ending, choice.usage, std::move(output), keep);
  return json;
}

std::unique_ptr<EventWriter> make_responses_events(Head head, Json asked, KeepResponse keep) {
  return std::make_unique<ResponsesEvents>(std::move(head), std::move(asked), std::move(keep));
}

}  // namespace quern::api
