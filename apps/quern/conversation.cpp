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
  drop_answer();
  if (turns_.empty() || turns_.back().role != "user") return false;
  turns_.pop_back();
  return true;
}

bool Conversation::drop_answer() {
  if (turns_.empty() || turns_.back().role != "assistant") return false;
  turns_.pop_back();
  return true;
}

Result<void> Conversation::save(const std::string& path) const {
  auto list = nlohmann::ordered_json::array();
  for (const Turn& turn : turns_) list.push_back({{"role", turn.role}, {"content", turn.content}});
  const std::string text =
      nlohmann::ordered_json{{"messages", list}}.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  return write_file_atomic(path, std::as_bytes(std::span(text)));
}

Result<Conversation> Conversation::load(const std::string& path) {
  const Error bad{Status::invalid_file,
                  path + ": not a saved conversation ({\"messages\": [{\"role\": ..., \"content\": ...}, ...]})"};
  QUERN_TRY(const std::string text, read_file(path, size_t{64} << 20));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) return bad;
  Conversation conversation;
  for (const auto& item : json["messages"]) {
    if (!item.is_object() || !item.contains("role") || !item.contains("content") || !item["role"].is_string() ||
        !item["content"].is_string())
      return bad;
    conversation.add(item["role"].get<std::string>(), item["content"].get<std::string>());
  }
  return conversation;
}

Result<std::vector<int32_t>> conversation_ids(engine::Engine& engine, const std::vector<Turn>& turns, bool raw) {
  const token::Tokenizer& tokenizer = engine.tokenizer();
  if (raw || engine.chat_template() == nullptr) {
    std::string text;
    for (const Turn& turn : turns) text += turn.content;
    token::EncodeOptions options;
    options.add_special = options.parse_special = true;
    return tokenizer.encode(text, options);
  }
  return engine::chat_prompt(engine, turns);
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
