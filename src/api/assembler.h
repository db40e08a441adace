// One answer, taken apart as its events come: reasoning, text and calls of a conversation, or the plain text of a
// completion; which tokens belong to it; how it ended. Knows no dialect.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/request.h"
#include "serve/serve.h"

namespace quern::api {

struct Usage {
  int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;  // tokens; cached are of the prompt's
  void add(const Usage& other, bool same_prompt);
};

enum class EndKind : uint8_t { stop, length, calls, cancelled, failed };

struct Ending {
  EndKind kind = EndKind::stop;
  std::string matched_stop;  // a stop string that ended it
  Problem problem;           // of EndKind::failed
};

// One answer so far.
struct Choice {
  token::Reply reply;
  std::vector<serve::TokenScore> scores;         // of generated tokens, where they were asked for
  std::vector<serve::TokenScore> prompt_scores;  // of the prompt's
  Usage usage;
  Ending ending;
};

// What an event added.
struct Progress {
  std::vector<token::ReplyDelta> deltas;
  std::vector<serve::TokenScore> scores;
};

class Assembler {
 public:
  // rendered: the prompt of a conversation, which its reply follows; null for a completion.
  Assembler(const Request& request, const engine::Engine& engine, const token::Rendered* rendered);

  Progress take(const serve::Event& event);
  bool ended() const { return ended_; }
  // More has come than the request allows (a second call where calls may not be parallel): cancel the stream.
  bool enough() const { return enough_; }

  const Choice& choice() const { return choice_; }

 private:
  std::vector<token::ReplyDelta> parse(std::span<const serve::Piece> pieces, bool last);
  void keep(std::vector<token::ReplyDelta>& deltas);
  void end(const serve::Finish& finish);

  bool calls_, parallel_;                       // the request has tools; several calls are welcome
  std::unique_ptr<token::ReplyParser> parser_;  // null: plain text
  Choice choice_;
  bool ended_ = false, enough_ = false;
};

// The problem that a refusal or a failed answer is for a client.
Problem problem_of(const serve::Refusal& refusal);

}  // namespace quern::api
