// /v1/chat/completions and /v1/completions.
#include <cmath>

#include "api/write.h"

namespace quern::api {

using Kind = token::ReplyDelta::Kind;

std::string event_text(std::string_view name, const Json& data) {
  std::string out = name.empty() ? std::string() : "event: " + std::string(name) + "\n";
  return out + "data: " + dump(data) + "\n\n";
}

std::string call_id(size_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  return "call" + digits;
}

Json arguments_of(const token::ReplyCall& call) {
  if (call.arguments.find_first_not_of(" \t\r\n") == std::string::npos) return Json::object();
  Json json;
  if (parse_body(call.arguments, &json, {.max_depth = 512})) return {};
  return json;
}

namespace {

// JSON has no infinity; the API's own stand-in for "impossible" is -9999.
Json log_prob_json(float value) {
  if (std::isnan(value)) return {};
  return value < -9999.0F ? Json(-9999.0) : Json(value);
}

Json token_json(int32_t id, float log_prob, const TokenBytes& bytes) {
  const std::string text = bytes(id);
  Json numbers = Json::array();
  for (const char c : text) numbers.push_back(static_cast<uint8_t>(c));
  return {{"token", text}, {"logprob", log_prob_json(log_prob)}, {"bytes", std::move(numbers)}};
}

// A key for a token's text; bytes that are no text by number, or several tokens would have one key.
std::string token_key(const std::string& text) {
  const std::string shown = dump(Json(text));
  if (Json::accept("\"" + text + "\"") || shown.find("\xEF\xBF\xBD") == std::string::npos) return text;
  std::string key = "bytes:";
  for (const char c : text) {
    constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<uint8_t>(c);
    key += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return key;
}

int64_t characters(std::string_view text) {
  int64_t n = 0;
  for (const char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

const char* finish_word(EndKind kind) {
  switch (kind) {
    case EndKind::length:
      return "length";
    case EndKind::calls:
      return "tool_calls";
    default:
      return "stop";
  }
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

Json head_json(const Head& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

Json chat_logprobs(const Head& head, std::span<const serve::TokenScore> scores) {
  if (!head.logprobs) return {};
  Json list = Json::array();
  for (const auto& score : scores) list.push_back(chat_logprob(score, head.bytes));
  return {{"content", std::move(list)}, {"refusal", nullptr}};
}

// What ends a stream: usage, where it was asked for, and the mark.
std::string last_events(const Head& head, const char* object, const Usage& usage) {
  std::string out;
  if (head.include_usage) {
    Json json = head_json(head, object);
    json["choices"] = Json::array();
    json["usage"] = usage_json(usage);
    out = event_text("", json);
  }
  return out + "data: [DONE]\n\n";
}

class ChatEvents : public EventWriter {
 public:
  explicit ChatEvents(Head head) : head_(std::move(head)) {}

  std::string begin(int choice, const Usage&) override {
    return chunk(choice, {{"role", "assistant"}, {"content", ""}}, {}, {});
  }
  std::string add(int choice, const Progress& progress) override {
    std::string out;
    for (size_t i = 0; i < progress.deltas.size(); ++i) {
      const bool last = i + 1 == progress.deltas.size();
      out +=
          chunk(choice, delta_json(progress.deltas[i]), last ? progress.scores : std::vector<serve::TokenScore>{}, {});
    }
    // A token that shows nothing yet still has its likelihood.
    if (progress.deltas.empty() && head_.logprobs && !progress.scores.empty())
      out += chunk(choice, {{"content", ""}}, progress.scores, {});
    return out;
  }
  std::string finish(int choice, const Choice& whole) override {
    return chunk(choice, Json::object(), {}, finish_word(whole.ending.kind));
  }
  std::string end(const Usage& usage) override { return last_events(head_, "chat.completion.chunk", usage); }
  std::string error(const Problem& problem) override { return event_text("", error_json(problem, Dialect::openai)); }

 private:
  Json delta_json(const token::ReplyDelta& delta) const {
    switch (delta.kind) {
      case Kind::reasoning:
        return {{"reasoning_content", delta.text}};
      case Kind::content:
        return {{"content", delta.text}};
      case Kind::call:
        return {{"tool_calls", Json::array({{{"index", delta.call},
                                             {"id", call_id(head_.first_call + delta.call)},
                                             {"type", "function"},
                                             {"function", {{"name", delta.text}, {"arguments", ""}}}}})}};
      case Kind::arguments:
        return {{"tool_calls", Json::array({{{"index", delta.call}, {"function", {{"arguments", delta.text}}}}})}};
    }
    return Json::object();
  }
  std::string chunk(int choice, Json delta, const std::vector<serve::TokenScore>& scores, const Json& finish) const {
    Json json = head_json(head_, "chat.completion.chunk");
    Json entry = {{"index", choice}, {"delta", std::move(delta)}};
    entry["logprobs"] = scores.empty() ? Json() : chat_logprobs(head_, scores);
    entry["finish_reason"] = finish;
    json["choices"] = Json::array({std::move(entry)});
    if (head_.include_usage) json["usage"] = nullptr;
    return event_text("", json);
  }

  Head head_;
};

class CompletionEvents : public EventWriter {
 public:
  explicit CompletionEvents(Head head) : head_(std::move(head)) {}

  std::string begin(int, const Usage&) override { return {}; }
  std::string add(int choice, const Progress& progress) override {
    std::string text;
    for (const auto& delta : progress.deltas) text += delta.text;
    const bool scores = head_.logprobs && !progress.scores.empty();
    if (text.empty() && !scores) return {};
    const auto place = static_cast<size_t>(choice);
    if (place >= offsets_.size()) offsets_.resize(place + 1, 0);
    return chunk(choice, text, scores ? completion_logprobs(progress.scores, head_.bytes, &offsets_[place]) : Json(),
                 {});
  }
  std::string finish(int choice, const Choice& whole) override {
    return chunk(choice, "", {}, finish_word(whole.ending.kind));
  }
  std::string end(const Usage& usage) override { return last_events(head_, "text_completion", usage); }
  std::string error(const Problem& problem) override { return event_text("", error_json(problem, Dialect::openai)); }

 private:
  std::string chunk(int choice, const std::string& text, const Json& logprobs, const Json& finish) const {
    Json json = head_json(head_, "text_completion");
    Json entry = {{"text", text}, {"index", choice}};
    entry["logprobs"] = logprobs;
    entry["finish_reason"] = finish;
    json["choices"] = Json::array({std::move(entry)});
    if (head_.include_usage) json["usage"] = nullptr;
    return event_text("", json);
  }

  Head head_;
  std::vector<int64_t> offsets_;
};

}  // namespace

Json chat_logprob(const serve::TokenScore& score, const TokenBytes& bytes) {
  Json json = token_json(score.id, score.log_prob, bytes);
  Json top = Json::array();
  for (const auto& other : score.top) top.push_back(token_json(other.id, other.log_prob, bytes));
  json["top_logprobs"] = std::move(top);
  return json;
}

Json completion_logprobs(std::span<const serve::TokenScore> scores, const TokenBytes& bytes, int64_t* offset) {
  Json tokens = Json::array(), log_probs = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const auto& score : scores) {
    const std::string text = bytes(score.id);
    tokens.push_back(token_key(text));
    log_probs.push_back(log_prob_json(score.log_prob));
    Json top;
    if (!std::isnan(score.log_prob)) {
      top = Json::object();
      for (const auto& other : score.top) top.emplace(token_key(bytes(other.id)), log_prob_json(other.log_prob));
      // The token itself always stands among them.
      top.emplace(token_key(text), log_prob_json(score.log_prob));
    }
    tops.push_back(std::move(top));
    offsets.push_back(*offset);
    *offset += characters(text);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(log_probs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json chat_response(const Head& head, std::span<const Choice> choices, const Usage& usage) {
  Json json = head_json(head, "chat.completion");
  Json list = Json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    Json message = {{"role", "assistant"}};
    message["content"] =
        choice.reply.content.empty() && !choice.reply.calls.empty() ? Json() : Json(choice.reply.content);
    if (!choice.reply.reasoning.empty()) message["reasoning_content"] = choice.reply.reasoning;
    for (size_t k = 0; k < choice.reply.calls.size(); ++k) {
      const auto& call = choice.reply.calls[k];
      message["tool_calls"].push_back({{"id", call_id(head.first_call + k)},
                                       {"type", "function"},
                                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    message["refusal"] = nullptr;
    list.push_back({{"index", i},
                    {"message", std::move(message)},
                    {"logprobs", chat_logprobs(head, choice.scores)},
                    {"finish_reason", finish_word(choice.ending.kind)}});
  }
  json["choices"] = std::move(list);
  json["usage"] = usage_json(usage);
  return json;
}

Json completion_response(const Head& head, std::span<const Choice> choices, std::span<const Echo> echoes,
                         const Usage& usage) {
  Json json = head_json(head, "text_completion");
  Json list = Json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    const std::string before = i < echoes.size() ? echoes[i].text : std::string();
    Json logprobs;
    if (head.logprobs) {
      std::vector<serve::TokenScore> scores =
          i < echoes.size() ? choice.prompt_scores : std::vector<serve::TokenScore>{};
      scores.insert(scores.end(), choice.scores.begin(), choice.scores.end());
      int64_t offset = 0;
      logprobs = completion_logprobs(scores, head.bytes, &offset);
    }
    list.push_back({{"text", before + choice.reply.content},
                    {"index", i},
                    {"logprobs", std::move(logprobs)},
                    {"finish_reason", finish_word(choice.ending.kind)}});
  }
  json["choices"] = std::move(list);
  json["usage"] = usage_json(usage);
  return json;
}

std::unique_ptr<EventWriter> make_chat_events(Head head) {
  return std::make_unique<ChatEvents>(std::move(head));
}

std::unique_ptr<EventWriter> make_completion_events(Head head) {
  return std::make_unique<CompletionEvents>(std::move(head));
}

}  // namespace quern::api
