// PrefixCache: sessions whose requests have ended, to begin new ones with. Used by the engine thread only. When pages
// are short is the caller's to know.
#pragma once

#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace quern::serve {

class PrefixCache {
 public:
  explicit PrefixCache(size_t max_kept) : max_kept_(max_kept) {}

  struct Match {
    int n = 0;  // positions that can be taken
    const engine::Session* session = nullptr;
  };
  // What a session with that timeline, evaluated up to its n_past(), has for tokens (at most all but the last, whose
  // logits are wanted).
  static int usable(const engine::Session& session, std::span<const int32_t> timeline, std::span<const int32_t> tokens);

  // The most there is for these tokens; counts as a use.
  Match find(std::span<const int32_t> tokens);
  // Hands out the session of a match where all of it is of use; null where others may want the rest, or it is not here.
  std::unique_ptr<engine::Session> take_whole(const Match& match);
  // tokens: the session's timeline. Timelines that are the beginning of this one go; so does the least recently used
  // one where there are too many.
  void keep(std::unique_ptr<engine::Session> session, std::vector<int32_t> tokens);
  // Each kept timeline, most recently used first.
  template <class Visit>
  void each(const Visit& visit) const {
    for (const Kept& kept : kept_) visit(*kept.session, std::span<const int32_t>(kept.tokens));
  }
  bool drop_oldest();  // false: empty
  size_t size() const { return kept_.size(); }
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    std::unique_ptr<engine::Session> session;
    std::vector<int32_t> tokens;  // [session->n_past()]
  };
  size_t max_kept_;
  std::list<Kept> kept_;  // most recently used first
};

}  // namespace quern::serve
