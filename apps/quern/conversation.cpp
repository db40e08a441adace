#include "apps/quern/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file_io.h"
#include "token/tokenizer.h"

namespace quern::apps {

void Conversation::set_system(const std::string& text) {
  const bool has = !turns_.empty() && turns_.front().role == "system";
  if (has) turns_.erase(turns_.begin());
  if (!text.empty()) turns_.insert(turns_.begin(), Turn{"system", text});
}

void Conversation::clear() {
  const bool has_system = !turns_.empty() && turns_.front().role == "system";
  turns_.erase(turns_.begin() + (has_system ? 1 : 0), turns_.end());
}

bool Conversation::undo() {
  const auto last = std::find_if(turns_.rbegin(), turns_.rend(), [](const Turn& turn) { return turn.role == "user"; });
  if (last == turns_.rend()) return false;
  turns_.erase(last.base() - 1, turns_.end());
  return true;
}

bool Conversation::drop_answer() {
  if (turns_.empty() || turns_.back().role != "assistant") return false;
  turns_.pop_back();
  return true;
}

std::optional<engine::TurnCall> Conversation::open_call() const {
  size_t results = 0;
  auto turn = turns_.rbegin();
  for (; turn != turns_.rend() && turn->role == "tool"; ++turn) ++results;
  if (turn == turns_.rend() || turn->calls.size() <= results) return std::nullopt;
  return turn->calls[results];
}

size_t Conversation::n_calls() const {
  size_t n = 0;
  for (const Turn& turn : turns_) n += turn.calls.size();
  return n;
}

Result<void> Conversation::save(const std::string& path) const {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Turn& turn : turns_) {
    Json& item = list.emplace_back(Json{{"role", turn.role}, {"content", turn.content}});
    if (!turn.reasoning.empty()) item["reasoning_content"] = turn.reasoning;
    for (const auto& call : turn.calls) {
      item["tool_calls"].push_back(
          {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    if (!turn.call_id.empty()) item["tool_call_id"] = turn.call_id;
    if (!turn.tool.empty()) item["name"] = turn.tool;
  }
  const std::string text = Json{{"messages", list}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return write_file_atomic(path, std::as_bytes(std::span(text)));
}

namespace {

using nlohmann::json;

// The text of a key; empty where it is absent or null. False where it is something else.
bool read_text(const json& object, const char* key, std::string& out) {
  if (!object.contains(key) || object[key].is_null()) return true;
  if (!object[key].is_string()) return false;
  out = object[key].get<std::string>();
  return true;
}

bool read_calls(const json& calls, std::vector<engine::TurnCall>& out) {
  if (!calls.is_array()) return false;
  for (const json& item : calls) {
    engine::TurnCall& call = out.emplace_back();
    if (!item.is_object() || !item.contains("function") || !item["function"].is_object()) return false;
    const json& function = item["function"];
    if (!read_text(item, "id", call.id) || !read_text(function, "name", call.name) || call.name.empty()) return false;
    if (function.contains("arguments") && function["arguments"].is_object()) {
      call.arguments = function["arguments"].dump();
    } else if (!read_text(function, "arguments", call.arguments)) {
      return false;
    }
  }
  return true;
}

bool read_turn(const json& item, Turn& turn) {
  if (!item.is_object() || !read_text(item, "role", turn.role) || turn.role.empty()) return false;
  const bool calls = item.contains("tool_calls") && !item["tool_calls"].is_null();
  if (calls && !read_calls(item["tool_calls"], turn.calls)) return false;
  // Only beside calls is no content content.
  if (!calls && !item.contains("content")) return false;
  if (!calls && item["content"].is_null()) return false;
  return read_text(item, "content", turn.content) && read_text(item, "reasoning_content", turn.reasoning) &&
         read_text(item, "tool_call_id", turn.call_id) && read_text(item, "name", turn.tool);
}

}  // namespace

Result<Conversation> Conversation::load(const std::string& path) {
  const Error bad{Status::invalid_file,
                  path + ": not a saved conversation ({\"messages\": [{\"role\": ..., \"content\": ...}, ...]})"};
  QUERN_TRY(const std::string text, read_file(path, size_t{64} << 20));
  const json list = json::parse(text, nullptr, false);
  if (!list.is_object() || !list.contains("messages") || !list["messages"].is_array()) return bad;
  Conversation conversation;
  for (const json& item : list["messages"]) {
    Turn turn;
    if (!read_turn(item, turn)) return bad;
    conversation.add(std::move(turn));
  }
  return conversation;
}

Result<engine::ChatPrompt> conversation_prompt(engine::Engine& engine, const std::vector<Turn>& turns, bool raw,
                                               const token::Json& variables) {
  if (raw || engine.chat_template() == nullptr) {
    std::string text;
    for (const Turn& turn : turns) text += turn.content;
    token::EncodeOptions options;
    options.add_special = options.parse_special = true;
    engine::ChatPrompt prompt;
    QUERN_TRY(prompt.ids, engine.tokenizer().encode(text, options));
    return prompt;
  }
  token::ChatOptions options;
  options.variables = variables;
  return engine::chat_prompt(engine, turns, options);
}

std::string stats_line(const engine::GenerateStats& stats) {
  const auto rate = [](int n, double seconds) { return n > 0 && seconds > 0 ? n / seconds : 0.0; };
  const int evaluated = stats.n_prompt - stats.n_reused;
  const std::string reused = stats.n_reused > 0 ? fmt::format(" ({} reused)", stats.n_reused) : "";
  return fmt::format("[prompt {} tok{}, {:.1f} tok/s | answer {} tok, {:.1f} tok/s]", stats.n_prompt, reused,
                     rate(evaluated, stats.prompt_seconds), stats.n_generated,
                     rate(stats.n_generated, stats.decode_seconds));
}

}  // namespace quern::apps
