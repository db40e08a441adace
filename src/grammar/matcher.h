// Masks over a vocabulary. A Constraint is a grammar with a vocabulary and what has been learned about the two; it is
// shared between requests and threads. A Matcher is the state of one sequence, used by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace quern::grammar {

struct MatcherCache;

class Constraint {
 public:
  static Result<std::shared_ptr<Constraint>> create(const Grammar& grammar,
                                                    std::shared_ptr<const Vocabulary> vocabulary);
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  friend class Matcher;
  Constraint(std::shared_ptr<const Network> network, std::shared_ptr<const Vocabulary> vocabulary);
  // The newest cache; where that is `old`, a new one in its place.
  std::shared_ptr<MatcherCache> newer_than(const std::shared_ptr<MatcherCache>& old);

  std::shared_ptr<const Network> network_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::mutex mutex_;
  std::shared_ptr<MatcherCache> cache_;
};

// A copy goes its own way from where the original stands.
class Matcher {
 public:
  static constexpr size_t kMaxRollback = 512;  // tokens that can be taken back
  static constexpr size_t kMaxForced = 4096;   // bytes

  static Result<Matcher> create(std::shared_ptr<Constraint> constraint);

  // Bit i of word i / 64: token i may come next. Never all zero: where no token goes on that is an error. Valid until
  // the next call. Errors: limit_exceeded where the grammar is too ambiguous, unsupported where the vocabulary has no
  // token for what must follow.
  Result<std::span<const uint64_t>> mask();
  // Errors leave the state as it was: invalid_argument for a token that the mask forbids, limit_exceeded.
  Result<void> accept(int32_t id);
  // The same for text that came from elsewhere; counts as one token for rollback.
  Result<void> accept_text(std::string_view bytes);
  // Takes back the last n accepted tokens; at most kMaxRollback are kept.
  Result<void> rollback(size_t n);
  // Whether the text is whole, so that an end token is allowed.
  Result<bool> may_end();
  bool finished() const { return history_.back().finished; }  // an end token has been accepted
  size_t n_accepted() const { return n_accepted_; }

  // The bytes that must come next whatever happens, at most `limit` of them; empty where there is a choice.
  Result<std::string> forced_text(size_t limit = kMaxForced);
  // Tokens of that text, markers too, each the longest that fits; ends before one that might reach beyond it. They are
  // what the mask allows, not necessarily what the model would have chosen among the ways to cut the same text.
  Result<std::vector<int32_t>> forced_tokens();

 private:
  struct Point {
    int32_t state = 0;
    bool finished = false;
  };
  explicit Matcher(std::shared_ptr<Constraint> constraint);
  // Runs work under the cache's lock, again in a new cache where this one is full.
  template <class Work>
  Result<void> guarded(const Work& work);
  Result<std::string> forced_bytes(size_t limit);  // markers as the network spells them
  void move_to_newer_cache();
  bool move_to(const std::shared_ptr<MatcherCache>& newer);
  Result<void> push(Point point);
  int32_t state() const { return history_.back().state; }

  std::shared_ptr<Constraint> constraint_;
  std::shared_ptr<MatcherCache> cache_;
  std::deque<Point> history_;  // the start or the oldest kept, ..., now
  size_t n_accepted_ = 0;
  std::vector<uint64_t> mask_;
};

}  // namespace quern::grammar
