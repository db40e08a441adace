// serve: many requests at once over one engine, or over several. What a request is, and what comes back.
//
// Owns: Scheduler (scheduler.h: one engine, its thread, its queue and its prefix cache), ModelPool (model_pool.h:
//       several models under a memory budget), the types of both, stop strings.
// Never: HTTP, JSON, chat templates, what a client's fields are called.
// In -> out: token ids and options -> a Stream of events, which any thread may read.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "token/reply.h"
#include "token/sampler.h"

namespace quern::serve {

using Seconds = std::chrono::duration<double>;

// Which tokens may come next: a grammar's state, or anything else. Belongs to one request and is called by the engine
// thread only, so it should be quick. An error ends its request, and no other.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  // Bit i of word i / 64: token i may come next. Ids beyond the span are forbidden. Valid until the next call.
  virtual Result<std::span<const uint64_t>> mask() = 0;
  virtual Result<void> accept(int32_t id) = 0;  // a token was taken, also one that ends the generation
  // Tokens that must come next whatever the model says; they are taken without sampling, and evaluated in one run.
  virtual Result<std::vector<int32_t>> forced() { return std::vector<int32_t>{}; }
};

// Tokens put into the answer once, in place of the model's, while it reasons: the end of thinking when a budget is
// spent, or on demand.
struct Insertion {
  int after_tokens = -1;     // so many tokens of reasoning later; -1: only by Stream::insert_now()
  std::vector<int32_t> ids;  // e.g. of "\n</think>\n\n"
  // Tells where the answer reasons: of its format, and following its prompt. Not null.
  std::unique_ptr<token::ReplyParser> reply;
};

inline constexpr int kMaxLogProbs = 64;

struct Request {
  std::vector<int32_t> prompt;  // not empty
  token::SamplerOptions sampling;
  int max_tokens = -1;  // tokens to generate; -1: as many as the context holds. 0: the prompt is evaluated, no more
  // The generation ends where one of these appears in the text; it is left out, and text is held back only while it may
  // become one. The name of a control token counts too.
  std::vector<std::string> stop;
  std::vector<int32_t> stop_tokens;  // end it as an end-of-generation token does
  bool ignore_eog = false;           // end-of-generation tokens are never sampled
  int n_logprobs = -1;               // -1: none; else the likelihood of each token, and of so many of the likeliest
  int n_prompt_logprobs =
      -1;  // the same for the prompt's tokens (PromptDone::scores); nothing is taken from the cache then
  std::unique_ptr<TokenMask> mask;  // null: every token
  std::optional<Insertion> insertion;
  bool embed = false;     // PromptDone brings the prompt's vector; then max_tokens is 0, and there are no likelihoods
  bool use_cache = true;  // take a prefix from the cache, and leave this timeline in it
  std::string client;     // requests of one client wait for each other before they make others wait; "" is one client
  // Called when an event has come and none waited to be read, and at the end, mostly by the engine thread and without
  // locks: who reads seldom is woken seldom, which leaves the cores to the engine. It must not block or throw, and
  // so only wakes or posts to the thread that reads. It may come once more just after the Stream is gone.
  std::function<void()> on_ready;
};

// Likelihoods by the model itself: before bias, penalties, temperature and masks.
struct TokenScore {
  int32_t id = -1;
  float log_prob = 0;                    // NaN: unknown (the first token of a prompt)
  std::vector<token::TokenLogProb> top;  // likeliest first; bytes of ids: Tokenizer::token_bytes
};

// What a token adds to the answer.
struct Piece {
  enum class Kind : uint8_t {
    text,     // whole UTF-8 characters
    defined,  // a user-defined token, by its text: it is text, or markup where a reply's parser knows it
    control,  // a control token, by its name: never shown as text
  };
  Kind kind = Kind::text;
  std::string text;
};

// The prompt has been evaluated; comes once, before the first token.
struct PromptDone {
  int n_prompt = 0;
  int n_cached = 0;                   // of them, taken from the cache
  std::vector<TokenScore> scores;     // [n_prompt] where n_prompt_logprobs >= 0
  std::vector<float> embedding = {};  // [n_embedding] where Request::embed
};

// One generated token. Its pieces may be those of tokens before, which were held back, and may be none.
struct Token {
  int32_t id = -1;
  bool inserted = false;  // by Request::insertion or TokenMask::forced
  std::vector<Piece> pieces;
  std::optional<TokenScore> score;
};

enum class FinishReason : uint8_t {
  eog,           // an end-of-generation token, or one of stop_tokens: end_token
  stop,          // one of Request::stop: matched_stop
  max_tokens,    // Request::max_tokens
  context_full,  // the context holds no more
  cancelled,     // Stream::cancel(), or the Stream went away
  shutdown,      // the scheduler was stopped before the end
  error,         // `error` says what
};
const char* finish_reason_name(FinishReason reason);

// The last event.
struct Finish {
  FinishReason reason = FinishReason::eog;
  std::optional<Error> error;
  int32_t end_token = -1;
  std::optional<TokenScore> end_score;  // the end token's, where likelihoods were asked for
  std::vector<Piece> pieces;            // what was still held back, and the end token's name (kind control)
  std::string matched_stop;
  int n_prompt = 0, n_cached = 0;
  int n_generated = 0;                                               // tokens, without an end token
  double queue_seconds = 0, prompt_seconds = 0, decode_seconds = 0;  // waited, until the first token, after it
};

using Event = std::variant<PromptDone, Token, Finish>;

// Pieces as plain text: control tokens are left out.
std::string plain_text(std::span<const Piece> pieces);
// Pieces into a reply's parser; markup goes by token, as token::ReplyStream does it. After Finish: also finish().
std::vector<token::ReplyDelta> feed(token::ReplyParser& parser, std::span<const Piece> pieces);

// Why a request was not taken.
struct Refusal {
  enum class Kind : uint8_t {
    invalid,   // an option or token makes no sense: 400
    too_long,  // the prompt does not fit the context; both numbers are below and in the message: 400
    busy,      // the queue is full: 429 or 503, with retry_after_seconds
    stopping,  // draining or stopped: 503
  };
  Kind kind = Kind::invalid;
  std::string message;  // one line
  int n_prompt = 0, n_ctx = 0;
  int retry_after_seconds = 0;  // an estimate, at least 1
};

struct StreamState;

// One request's answer. Read by one thread at a time, which need not always be the same; cancel(), insert_now() and
// progress() may be called by any. Destroying it cancels. It may outlive its Scheduler.
class Stream {
 public:
  struct Progress {
    enum class Phase : uint8_t { queued, prompt, generating, finished };
    Phase phase = Phase::queued;
    int n_prompt = 0, n_prompt_done = 0;  // n_prompt_done counts cached tokens too
    int n_generated = 0;
  };

  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // All events that have come since, waiting for the first until the timeout; empty after a timeout, and after Finish
  // was handed out. Finish always comes, and nothing after it.
  std::vector<Event> wait(std::chrono::milliseconds timeout);
  std::vector<Event> poll();
  bool finished() const;  // Finish has been handed out

  void cancel();      // the generation ends within a token; Finish still comes
  void insert_now();  // Request::insertion takes place with the next token, or once the answer reasons
  Progress progress() const;

 private:
  std::shared_ptr<StreamState> state_;
};

// Either a stream or a refusal.
struct Submission {
  std::unique_ptr<Stream> stream;  // null: refused
  Refusal refusal;
};

}  // namespace quern::serve
