// Answers in the forms of the dialects, whole or as events of a stream: pure functions of what came and of a Head.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/assembler.h"

namespace quern::api {

// The bytes of a token, for logprobs.
using TokenBytes = std::function<std::string(int32_t id)>;

// What stands in every answer to one request.
struct Head {
  std::string id, model;
  int64_t created = 0;    // seconds since 1970
  size_t first_call = 0;  // numbers the ids of calls through a conversation
  bool include_usage = false, logprobs = false;
  TokenBytes bytes = {};
};

// "call00007": nine letters and digits, as some templates insist.
std::string call_id(size_t number);

Json chat_response(const Head& head, std::span<const Choice> choices, const Usage& usage);
// prompt of echo: its text stands before the answer's, its tokens among the logprobs'. One of each per choice, or none.
struct Echo {
  std::string text;
  std::vector<int32_t> ids;
};
Json completion_response(const Head& head, std::span<const Choice> choices, std::span<const Echo> echoes,
                         const Usage& usage);
Json messages_response(const Head& head, const Choice& choice);
// Keeps a whole answer of /v1/responses for later; false: it could not, and the answer says so (`store`).
using KeepResponse = std::function<bool(const Json& response)>;
Json responses_response(const Head& head, const Choice& choice, const Json& asked, const KeepResponse& keep = {});

// The events of one streamed answer, as bytes of a text/event-stream. An empty string: nothing to send.
class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual std::string begin(int choice,
                            const Usage& usage) = 0;  // the prompt is done; once, before a choice's first add
  virtual std::string add(int choice, const Progress& progress) = 0;
  virtual std::string finish(int choice, const Choice& whole) = 0;
  virtual std::string end(const Usage& usage) = 0;  // all choices have finished
  virtual std::string error(const Problem& problem) = 0;
  // A comment, which clients pass over, until an event would do.
  virtual std::string ping() { return ": ping\n\n"; }
};
std::unique_ptr<EventWriter> make_chat_events(Head head);
std::unique_ptr<EventWriter> make_completion_events(Head head);
std::unique_ptr<EventWriter> make_messages_events(Head head);
// keep: see KeepResponse; empty where the answer is not to be kept.
std::unique_ptr<EventWriter> make_responses_events(Head head, Json asked, KeepResponse keep = {});

// "event: NAME\ndata: JSON\n\n", without the first line where the name is empty.
std::string event_text(std::string_view name, const Json& data);
// A token's likelihood as /v1/chat/completions has it; and a completion's four lists, whose offsets begin at *offset.
Json chat_logprob(const serve::TokenScore& score, const TokenBytes& bytes);
Json completion_logprobs(std::span<const serve::TokenScore> scores, const TokenBytes& bytes, int64_t* offset);
// The arguments of a call as an object; null where they are none.
Json arguments_of(const token::ReplyCall& call);

}  // namespace quern::api
