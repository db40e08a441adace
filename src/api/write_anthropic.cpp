// /v1/messages. A call is held back until its arguments are whole: clients parse them as they come, and one that is not
// JSON becomes text instead.
#include "api/write.h"

namespace quern::api {
namespace {

using Kind = token::ReplyDelta::Kind;

const char* stop_reason(const Ending& ending) {
  if (ending.kind == EndKind::length) return "max_tokens";
  if (ending.kind == EndKind::calls) return "tool_use";
  return ending.matched_stop.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence(const Ending& ending) {
  return ending.matched_stop.empty() ? Json() : Json(ending.matched_stop);
}

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion}};
}

std::string tool_id(const Head& head, size_t call) {
  return "toolu_" + call_id(head.first_call + call);
}

std::string call_as_text(const token::ReplyCall& call) {
  return call.name + " " + call.arguments;
}

class MessagesEvents : public EventWriter {
 public:
  explicit MessagesEvents(Head head) : head_(std::move(head)) {}

  std::string begin(int, const Usage& usage) override {
    begun_ = true;
    Json message = {{"id", head_.id},          {"type", "message"},        {"role", "assistant"},
                    {"model", head_.model},    {"content", Json::array()}, {"stop_reason", nullptr},
                    {"stop_sequence", nullptr}};
    message["usage"] = usage_json(usage);
    return event_text("message_start", {{"type", "message_start"}, {"message", std::move(message)}});
  }
  std::string add(int, const Progress& progress) override {
    std::string out;
    for (const auto& delta : progress.deltas) {
      switch (delta.kind) {
        case Kind::reasoning:
          out += flush_call();
          out += text("thinking", "thinking_delta", delta.text);
          break;
        case Kind::content:
          out += flush_call();
          out += text("text", "text_delta", delta.text);
          break;
        case Kind::call:
          out += flush_call();
          pending_ = {delta.text, "", false};
          has_pending_ = true;
          break;
        case Kind::arguments:
          pending_.arguments += delta.text;
          break;
      }
    }
    return out;
  }
  std::string finish(int, const Choice& whole) override {
    std::string out = flush_call();
    out += close();
    Ending ending = whole.ending;
    if (ending.kind == EndKind::calls && n_calls_ == 0) ending.kind = EndKind::stop;
    Json delta = {{"stop_reason", stop_reason(ending)}};
    delta["stop_sequence"] = stop_sequence(ending);
    Json json = {{"type", "message_delta"}, {"delta", std::move(delta)}};
    json["usage"] = usage_json(whole.usage);
    return out + event_text("message_delta", json);
  }
  std::string end(const Usage&) override { return event_text("message_stop", {{"type", "message_stop"}}); }
  std::string error(const Problem& problem) override {
    return event_text("error", error_json(problem, Dialect::anthropic));
  }
  std::string ping() override { return begun_ ? event_text("ping", {{"type", "ping"}}) : EventWriter::ping(); }

 private:
  std::string open(Json block) {
    Json json = {{"type", "content_block_start"}, {"index", index_}};
    json["content_block"] = std::move(block);
    return event_text("content_block_start", json);
  }
  std::string delta(Json what) const {
    Json json = {{"type", "content_block_delta"}, {"index", index_}};
    json["delta"] = std::move(what);
    return event_text("content_block_delta", json);
  }
  std::string close() {
    if (open_.empty()) return {};
    std::string out;
    if (open_ == "thinking") out = delta({{"type", "signature_delta"}, {"signature", ""}});
    open_.clear();
    out += event_text("content_block_stop", {{"type", "content_block_stop"}, {"index", index_}});
    ++index_;
    return out;
  }
  std::string text(const std::string& kind, const char* delta_kind, const std::string& words) {
    std::string out;
    if (open_ != kind) {
      out = close();
      Json block = {{"type", kind}, {kind, ""}};
      if (kind == "thinking") block["signature"] = "";
      out += open(std::move(block));
      open_ = kind;
    }
    return out + delta({{"type", delta_kind}, {kind, words}});
  }
  std::string flush_call() {
    if (!has_pending_) return {};
    has_pending_ = false;
    const Json input = arguments_of(pending_);
    if (!input.is_object()) return text("text", "text_delta", call_as_text(pending_));
    std::string out = close();
    out += open(
        {{"type", "tool_use"}, {"id", tool_id(head_, n_calls_++)}, {"name", pending_.name}, {"input", Json::object()}});
    open_ = "tool_use";
    out += delta({{"type", "input_json_delta"}, {"partial_json", dump(input)}});
    return out + close();
  }

  Head head_;
  bool begun_ = false;
  int index_ = 0;
  std::string open_;  // kind of the block that is open; empty: none
  token::ReplyCall pending_;
  bool has_pending_ = false;
  size_t n_calls_ = 0;
};

}  // namespace

Json messages_response(const Head& head, const Choice& choice) {
  Json content = Json::array();
  const token::Reply& reply = choice.reply;
  if (!reply.reasoning.empty())
    content.push_back({{"type", "thinking"}, {"thinking", reply.reasoning}, {"signature", ""}});
  std::string text = reply.content;
  Json calls = Json::array();
  for (const auto& call : reply.calls) {
    Json input = arguments_of(call);
    if (input.is_object()) {
      calls.push_back({{"type", "tool_use"},
                       {"id", tool_id(head, calls.size())},
                       {"name", call.name},
                       {"input", std::move(input)}});
    } else {
      text += (text.empty() ? "" : "\n") + call_as_text(call);
    }
  }
  if (!text.empty() || (content.empty() && calls.empty())) content.push_back({{"type", "text"}, {"text", text}});
  Ending ending = choice.ending;
  if (ending.kind == EndKind::calls && calls.empty()) ending.kind = EndKind::stop;
  for (Json& call : calls) content.push_back(std::move(call));
  Json json = {{"id", head.id}, {"type", "message"}, {"role", "assistant"}, {"model", head.model}};
  json["content"] = std::move(content);
  json["stop_reason"] = stop_reason(ending);
  json["stop_sequence"] = stop_sequence(ending);
  json["usage"] = usage_json(choice.usage);
  return json;
}

std::unique_ptr<EventWriter> make_messages_events(Head head) {
  return std::make_unique<MessagesEvents>(std::move(head));
}

}  // namespace quern::api
