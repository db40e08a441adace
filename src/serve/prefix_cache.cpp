#include "serve/prefix_cache.h"

#include <algorithm>

namespace quern::serve {

int PrefixCache::usable(const engine::Session& session, std::span<const int32_t> timeline,
                        std::span<const int32_t> tokens) {
  const auto evaluated = timeline.first(std::min(timeline.size(), static_cast<size_t>(session.n_past())));
  if (tokens.empty()) return 0;
  const auto wanted = tokens.first(tokens.size() - 1);
  const auto end = std::mismatch(evaluated.begin(), evaluated.end(), wanted.begin(), wanted.end()).first;
  return session.kept_by(static_cast<int>(end - evaluated.begin()));
}

PrefixCache::Match PrefixCache::find(std::span<const int32_t> tokens) {
  Match best;
  auto found = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const int n = usable(*it->session, it->tokens, tokens);
    if (n <= best.n) continue;
    best = {n, it->session.get()};
    found = it;
  }
  if (found != kept_.end()) kept_.splice(kept_.begin(), kept_, found);
  return best;
}

std::unique_ptr<engine::Session> PrefixCache::take_whole(const Match& match) {
  const auto it =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.session.get() == match.session; });
  if (it == kept_.end() || it->session->n_past() != match.n) return nullptr;
  auto session = std::move(it->session);
  kept_.erase(it);
  return session;
}

void PrefixCache::keep(std::unique_ptr<engine::Session> session, std::vector<int32_t> tokens) {
  if (max_kept_ == 0 || tokens.empty()) return;
  std::erase_if(kept_, [&](const Kept& kept) {
    const size_t n = kept.tokens.size();
    return n <= tokens.size() && session->kept_by(static_cast<int>(n)) == static_cast<int>(n) &&
           std::equal(kept.tokens.begin(), kept.tokens.end(), tokens.begin());
  });
  kept_.push_front({std::move(session), std::move(tokens)});
  if (kept_.size() > max_kept_) kept_.pop_back();
}

bool PrefixCache::drop_oldest() {
  if (kept_.empty()) return false;
  kept_.pop_back();
  return true;
}

}  // namespace quern::serve
