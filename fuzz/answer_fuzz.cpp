// Whatever a model writes, as answers of each dialect: every event is one block with one line of JSON, and so is the
// whole. The input: a byte for the dialect, then pieces: a byte for kind and choice, one for the length, the text.
#include <algorithm>
#include <cstdlib>

#include "api/write.h"

namespace api = quern::api;
using Kind = quern::token::ReplyDelta::Kind;

namespace {

constexpr std::string_view kData = "data: ";

void check(std::string_view stream) {
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    if (end == std::string_view::npos) std::abort();
    std::string_view block = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    if (block.starts_with(':')) continue;
    if (block.starts_with("event: ")) block.remove_prefix(block.find('\n') + 1);
    if (!block.starts_with(kData) || block.find('\n') != std::string_view::npos) std::abort();
    block.remove_prefix(kData.size());
    if (block != "[DONE]" && !api::Json::accept(block)) std::abort();
  }
}

std::unique_ptr<api::EventWriter> writer_of(unsigned dialect, const api::Head& head) {
  if (dialect == 0) return api::make_chat_events(head);
  if (dialect == 1) return api::make_completion_events(head);
  return dialect == 2 ? api::make_messages_events(head) : api::make_responses_events(head, api::Json::object());
}

void add(const quern::token::ReplyDelta& delta, api::Choice* choice) {
  auto& reply = choice->reply;
  if (delta.kind == Kind::reasoning) reply.reasoning += delta.text;
  if (delta.kind == Kind::content) reply.content += delta.text;
  if (delta.kind == Kind::call) reply.calls.push_back({delta.text, "", false});
  if (delta.kind == Kind::arguments) reply.calls.back().arguments += delta.text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const unsigned dialect = data[0] % 4U;
  api::Head head;
  head.id = "id_1";
  head.logprobs = (data[0] & 4) != 0;
  head.include_usage = (data[0] & 8) != 0;
  head.bytes = [&](int32_t) { return std::string(rest.substr(0, 3)); };
  const auto writer = writer_of(dialect, head);
  std::string stream = writer->ping();
  std::vector<api::Choice> choices(dialect < 2 ? 2 : 1);
  for (size_t i = 0; i < choices.size(); ++i) stream += writer->begin(static_cast<int>(i), {});
  for (int n_pieces = 0; n_pieces < 64 && rest.size() >= 2; ++n_pieces) {
    const auto op = static_cast<uint8_t>(rest[0]);
    const size_t n = std::min<size_t>(static_cast<uint8_t>(rest[1]), rest.size() - 2), i = (op >> 2U) % choices.size();
    api::Choice& choice = choices[i];
    quern::token::ReplyDelta delta{static_cast<Kind>(op % 4U), std::string(rest.substr(2, n)), 0};
    rest.remove_prefix(2 + n);
    if (dialect == 1) delta.kind = Kind::content;
    if (delta.kind == Kind::arguments && choice.reply.calls.empty()) delta.kind = Kind::call;
    add(delta, &choice);
    if (!choice.reply.calls.empty()) delta.call = choice.reply.calls.size() - 1;
    api::Progress progress{{delta}, {}};
    if (head.logprobs) progress.scores.push_back({1, -0.5F, {{2, -1}}});
    for (const auto& score : progress.scores) choice.scores.push_back(score);
    stream += writer->add(static_cast<int>(i), progress);
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].ending.kind = choices[i].reply.calls.empty() ? api::EndKind::stop : api::EndKind::calls;
    stream += writer->finish(static_cast<int>(i), choices[i]);
  }
  check(stream + writer->end({}) + writer->error({.message = std::string(rest)}));
  const api::Json whole = dialect == 0   ? api::chat_response(head, choices, {})
                          : dialect == 1 ? api::completion_response(head, choices, {}, {})
                          : dialect == 2 ? api::messages_response(head, choices[0])
                                         : api::responses_response(head, choices[0], api::Json::object());
  if (!api::Json::accept(api::dump(whole))) std::abort();
  return 0;
}
