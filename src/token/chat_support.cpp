// What a chat template can take, found by trying, and messages rewritten to fit.
#include <algorithm>
#include <iterator>
#include <new>

#include "token/chat.h"

namespace quern::token {
namespace {

// Words that no template contains by itself.
constexpr const char* kQuestion = "Question7f3a";
constexpr const char* kSystem = "System7f3a";
constexpr const char* kReason = "Reason7f3a";
constexpr const char* kTool = "tool_7f3a";
constexpr const char* kOtherTool = "other_7f3a";
constexpr const char* kKey = "key_7f3a";

Message text_message(const char* role, const char* text) {
  Message message;
  message.role = role;
  message.content = text;
  return message;
}

Json text_parts(const std::string& text) {
  return Json::array({Json{{"type", "text"}, {"text", text}}});
}

Json tool_definition() {
  return Json::array({Json{{"type", "function"},
                           {"function",
                            {{"name", kTool},
                             {"description", "Does it."},
                             {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}}});
}

// Nine letters and digits: some templates insist on that.
constexpr const char* kCallId = "call00001";
constexpr const char* kOtherCallId = "call00002";

Json tool_call(const Json& arguments, const char* name = kTool, const char* id = kCallId) {
  return Json{{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

std::tm some_day() {
  std::tm t{};
  t.tm_year = 100;
  t.tm_mday = 1;
  return t;
}

}  // namespace

void ChatTemplate::probe() {
  const auto shows = [&](std::vector<Message> messages, ChatOptions options, std::string_view needle) {
    options.now = some_day;
    options.fuel = 1'000'000;
    const auto rendered = render(messages, options);
    return rendered.ok() && rendered->text.find(needle) != std::string::npos;
  };
  const ChatOptions plain;
  const Message question = text_message("user", kQuestion);
  Message in_parts = question;
  in_parts.content = text_parts(kQuestion);
  support_.string_content = shows({question}, plain, kQuestion);
  support_.part_content = shows({in_parts}, plain, kQuestion) && !shows({in_parts}, plain, "'text'") &&
                          !shows({in_parts}, plain, "\"text\"");
  const bool parts = support_.part_content && !support_.string_content;
  const Message& user = parts ? in_parts : question;
  const auto fit = [&](Message message) {
    if (parts && message.content.is_string()) message.content = text_parts(message.content.get<std::string>());
    return message;
  };
  support_.system_role = shows({fit(text_message("system", kSystem)), user}, plain, kSystem);
  ChatOptions with_tools;
  with_tools.tools = tool_definition();
  support_.tools = shows({user}, with_tools, kTool);

  const auto with_call = [&](const Json& arguments) {
    Message call;
    call.role = "assistant";
    call.tool_calls = Json::array({tool_call(arguments)});
    Message answer = fit(text_message("tool", "42"));
    answer.tool_call_id = kCallId;
    answer.name = kTool;
    return std::vector<Message>{user, call, answer};
  };
  const Json object = Json{{kKey, 1}};
  const std::string text = object.dump();
  support_.tool_calls = shows(with_call(object), plain, kTool) || shows(with_call(text), plain, kTool);
  support_.object_arguments = shows(with_call(object), plain, kKey);
  support_.string_arguments = shows(with_call(text), plain, text);
  const Json fitting = support_.object_arguments ? object : Json(text);
  auto two = with_call(fitting);
  two[1].tool_calls.push_back(tool_call(fitting, kOtherTool, kOtherCallId));
  two.push_back(two[2]);
  two[3].tool_call_id = kOtherCallId;
  two[3].name = kOtherTool;
  support_.several_calls = shows(two, plain, kTool) && shows(two, plain, kOtherTool);
  auto beside = with_call(fitting);
  beside[1].content = fit(text_message("assistant", "Answer.")).content;
  beside[1].reasoning_content = kReason;
  support_.text_beside_calls = shows(beside, plain, kTool);

  ChatOptions finished;
  finished.add_generation_prompt = false;
  Message answer = fit(text_message("assistant", "Answer."));
  answer.reasoning_content = kReason;
  support_.reasoning = shows({user, answer}, finished, kReason);
  ChatOptions open = plain;
  open.now = finished.now = some_day;
  const std::vector<Message> turn = {user};
  const auto a = render(turn, open);
  const auto b = render(turn, finished);
  support_.generation_prompt = a.ok() && b.ok() && a->text != b->text;
}

namespace {

Result<void> parts_to_string(Message& message) {
  std::string text;
  for (const auto& part : message.content) {
    const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
    if (!is_text) {
      const bool typed = part.is_object() && part.contains("type") && part["type"].is_string();
      return Error{Status::unsupported, "the chat template takes text only, and a message has a part of type '" +
                                            (typed ? part["type"].get<std::string>() : std::string("?")) + "'"};
    }
    if (!text.empty()) text += "\n";
    text += part["text"].get_ref<const std::string&>();
  }
  message.content = std::move(text);
  return {};
}

void fit_arguments(Json& tool_calls, const ChatSupport& support) {
  for (auto& call : tool_calls) {
    if (!call.is_object()) continue;
    Json* function = call.contains("function") && call["function"].is_object() ? &call["function"] : &call;
    if (!function->contains("arguments")) continue;
    Json& arguments = (*function)["arguments"];
    if (arguments.is_string() && support.object_arguments && !support.string_arguments) {
      Json parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
      if (parsed.is_object()) arguments = std::move(parsed);
    } else if (arguments.is_structured() && support.string_arguments && !support.object_arguments) {
      arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
}

// Moves the content of a message with calls to the end of its reasoning.
void join_text(Message& message) {
  if (!message.reasoning_content || !message.content.is_string()) return;
  const std::string& content = message.content.get_ref<const std::string&>();
  if (!content.empty() && !message.reasoning_content->empty()) *message.reasoning_content += "\n\n";
  *message.reasoning_content += content;
  message.content = nullptr;
}

// Messages with one call each, and behind each the result with its id, or the next one that has no id. `results`: the
// tools' messages behind `message`.
void split_calls(Message message, std::span<Message> results, std::vector<Message>& out) {
  std::vector<bool> used(results.size());
  const auto take = [&](const std::string& id) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (used[i] || results[i].tool_call_id != id) continue;
      used[i] = true;
      out.push_back(std::move(results[i]));
      return true;
    }
    return false;
  };
  const Json calls = std::exchange(message.tool_calls, nullptr);
  for (const Json& call : calls) {
    message.tool_calls = Json::array({call});
    out.push_back(message);
    message = Message();
    message.role = "assistant";
    const bool has_id = call.is_object() && call.contains("id") && call["id"].is_string();
    if (!take(has_id ? call["id"].get<std::string>() : "")) take("");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!used[i]) out.push_back(std::move(results[i]));
  }
}

void split_calls(std::vector<Message>& messages) {
  std::vector<Message> out;
  for (size_t i = 0; i < messages.size();) {
    size_t end = i + 1;
    if (!messages[i].tool_calls.is_array() || messages[i].tool_calls.size() < 2) {
      out.push_back(std::move(messages[i]));
    } else {
      while (end < messages.size() && messages[end].role == "tool") ++end;
      split_calls(std::move(messages[i]), {messages.data() + i + 1, end - i - 1}, out);
    }
    i = end;
  }
  messages = std::move(out);
}

}  // namespace

Result<void> ChatTemplate::adapt(std::vector<Message>& messages) const {
  try {
    for (auto& message : messages) {
      if (message.content.is_array() && support_.string_content && !support_.part_content) {
        QUERN_TRY_VOID(parts_to_string(message));
      } else if (message.content.is_string() && support_.part_content && !support_.string_content) {
        message.content = text_parts(message.content.get<std::string>());
      }
      if (!message.tool_calls.is_array() || message.tool_calls.empty()) continue;
      fit_arguments(message.tool_calls, support_);
      if (support_.tool_calls && !support_.text_beside_calls) join_text(message);
    }
    if (support_.tool_calls && !support_.several_calls) split_calls(messages);
    return {};
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to adapt the chat"};
  }
}

}  // namespace quern::token
