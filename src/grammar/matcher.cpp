// Masks by walking the trie with the automaton's states; both are remembered in a MatcherCache that matchers share.
#include "grammar/matcher.h"

#include <algorithm>
#include <new>
#include <unordered_map>

#include "grammar/automaton.h"

namespace quern::grammar {

// Everything in it is under its mutex.
struct MatcherCache {
  static constexpr size_t kMaxMaskBytes = size_t{32} << 20;
  static constexpr uint64_t kMaskWork = 4000000;  // edges looked at

  MatcherCache(std::shared_ptr<const Network> network, size_t n_words)
      : automaton(std::move(network)), n_kept(std::max(size_t{16}, kMaxMaskBytes / (n_words * sizeof(uint64_t)))) {}

  std::mutex mutex;
  Automaton automaton;
  std::vector<int32_t> walk;                    // states by depth
  std::unordered_map<int32_t, SliceKey> loops;  // by rule: the characters that a turn of it reads
  // The masks of the last n_kept states that needed one.
  size_t n_kept, oldest = 0;
  std::unordered_map<int32_t, size_t> mask_of;
  std::vector<std::pair<int32_t, std::vector<uint64_t>>> masks;

  SliceKey loop_key(int32_t rule);
  bool reads_all_others(int32_t entered, int32_t final);
  void walk_trie(const Vocabulary& vocabulary, const Trie& trie, int32_t state, std::vector<uint64_t>& mask);
  void compute(const Vocabulary& vocabulary, int32_t state, std::vector<uint64_t>& mask);
  void keep(int32_t state, const std::vector<uint64_t>& mask);
};

namespace {

constexpr int kMaxMoves = 3;

// What may follow the lead byte of a character: the bytes of the next one, and how many more come after that.
struct Utf8Lead {
  uint8_t first, last, next_first, next_last;
  int more;
};
constexpr Utf8Lead kUtf8Leads[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
    {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2}, {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};

void set_bit(std::vector<uint64_t>& mask, int32_t id) {
  mask[static_cast<size_t>(id) / 64] |= 1ULL << (id % 64);
}

Error no_memory() {
  return Error{Status::out_of_memory, "no memory to match a grammar"};
}

}  // namespace

// Whether every character outside ASCII is one whole turn.
bool MatcherCache::reads_all_others(int32_t entered, int32_t final) {
  struct Step {
    int32_t state;
    uint8_t first, last;
    int more;
    auto operator<=>(const Step&) const = default;
  };
  std::vector<Step> work, seen;
  for (const Utf8Lead& lead : kUtf8Leads) {
    for (unsigned b = lead.first; b <= lead.last; ++b) {
      const int32_t state = automaton.next(entered, static_cast<uint8_t>(b));
      if (state < 0) return false;
      const Step step{state, lead.next_first, lead.next_last, lead.more};
      if (std::ranges::find(seen, step) != seen.end()) continue;
      seen.push_back(step);
      work.push_back(step);
    }
  }
  while (!work.empty()) {
    const Step step = work.back();
    work.pop_back();
    for (unsigned b = step.first; b <= step.last; ++b) {
      const int32_t state = automaton.next(step.state, static_cast<uint8_t>(b));
      if (state < 0 || (step.more == 0 && state != final)) return false;
      const Step next{state, 0x80, 0xBF, step.more - 1};
      if (step.more == 0 || std::ranges::find(seen, next) != seen.end()) continue;
      if (seen.size() > 512) return false;
      seen.push_back(next);
      work.push_back(next);
    }
  }
  return true;
}

SliceKey MatcherCache::loop_key(int32_t rule) {
  const auto found = loops.find(rule);
  if (found != loops.end()) return found->second;
  SliceKey key;
  const int32_t entered = automaton.enter(rule), final = automaton.final();
  if (entered >= 0 && final >= 0) {
    for (unsigned b = 0; b < 128; ++b) key.ascii[b] = automaton.next(entered, static_cast<uint8_t>(b)) == final;
    key.others = reads_all_others(entered, final);
  }
  if (automaton.limit() == RunLimit::none) loops[rule] = key;
  return key;
}

void MatcherCache::walk_trie(const Vocabulary& vocabulary, const Trie& trie, int32_t state,
                             std::vector<uint64_t>& mask) {
  const auto& nodes = trie.nodes();
  walk.resize(trie.depth() + 1);
  walk[0] = state;
  for (size_t i = 0; i < nodes.size();) {
    const Trie::Node& node = nodes[i];
    const int32_t next = automaton.next(walk[node.depth - 1U], node.byte);
    if (next < 0) {
      if (next == Automaton::kStopped) return;
      i = node.end;
      continue;
    }
    walk[node.depth] = next;
    for (int32_t id = node.token; id >= 0; id = node.byte == kMarkerClose ? -1 : vocabulary.next_same(id))
      set_bit(mask, id);
    ++i;
  }
}

void MatcherCache::compute(const Vocabulary& vocabulary, int32_t state, std::vector<uint64_t>& mask) {
  mask.assign(vocabulary.mask_words(), 0);
  const Trie* trie = &vocabulary.trie();
  std::shared_ptr<const Slice> slice;
  const CharLoop loop = automaton.char_loop(state);
  const SliceKey key = loop.rule >= 0 ? loop_key(loop.rule) : SliceKey{};
  if (key.any()) slice = vocabulary.slice(key);
  if (slice) {
    const auto& allowed = slice->up_to[std::min(size_t{loop.turns}, Slice::kMaxChars)];
    std::ranges::copy(allowed, mask.begin());
    // Longer tokens of the slice's characters are walked only where something else might read them.
    const bool nothing_else = loop.after >= 0 && !automaton.can_read(loop.after, key.first_bytes());
    if (loop.turns >= Slice::kMaxChars || nothing_else) trie = &slice->rest;
  }
  walk_trie(vocabulary, *trie, state, mask);
  if (automaton.limit() != RunLimit::none) return;
  if (automaton.may_end(state)) {
    for (const int32_t id : vocabulary.end_tokens()) set_bit(mask, id);
  }
}

void MatcherCache::keep(int32_t state, const std::vector<uint64_t>& mask) {
  if (masks.size() < n_kept) {
    mask_of[state] = masks.size();
    masks.emplace_back(state, mask);
    return;
  }
  mask_of.erase(masks[oldest].first);
  mask_of[state] = oldest;
  masks[oldest] = {state, mask};
  oldest = (oldest + 1) % n_kept;
}

Constraint::Constraint(std::shared_ptr<const Network> network, std::shared_ptr<const Vocabulary> vocabulary)
    : network_(std::move(network)),
      vocabulary_(std::move(vocabulary)),
      cache_(std::make_shared<MatcherCache>(network_, vocabulary_->mask_words())) {}

Result<std::shared_ptr<Constraint>> Constraint::create(const Grammar& grammar,
                                                       std::shared_ptr<const Vocabulary> vocabulary) {
  if (!vocabulary) return Error{Status::invalid_argument, "a grammar needs a vocabulary"};
  try {
    return std::shared_ptr<Constraint>(new Constraint(grammar.network(), std::move(vocabulary)));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

std::shared_ptr<MatcherCache> Constraint::newer_than(const std::shared_ptr<MatcherCache>& old) {
  const std::lock_guard lock(mutex_);
  if (cache_ == old) cache_ = std::make_shared<MatcherCache>(network_, vocabulary_->mask_words());
  return cache_;
}

Matcher::Matcher(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {
  const std::lock_guard lock(constraint_->mutex_);
  cache_ = constraint_->cache_;
  history_.push_back({cache_->automaton.start(), false});
}

Result<Matcher> Matcher::create(std::shared_ptr<Constraint> constraint) {
  if (!constraint) return Error{Status::invalid_argument, "a matcher needs a constraint"};
  try {
    return Matcher(std::move(constraint));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

bool Matcher::move_to(const std::shared_ptr<MatcherCache>& newer) {
  const std::scoped_lock lock(cache_->mutex, newer->mutex);
  std::deque<Point> moved = history_;
  newer->automaton.clear_limit();
  newer->automaton.set_work_limit(newer->automaton.work() + MatcherCache::kMaskWork);
  for (Point& point : moved) {
    point.state = newer->automaton.adopt(cache_->automaton, point.state);
    if (point.state < 0) return false;
  }
  history_ = std::move(moved);
  cache_ = newer;
  return true;
}

// To the newest cache, or where that is full as well to an empty one.
void Matcher::move_to_newer_cache() {
  const auto newer = constraint_->newer_than(cache_);
  if (!move_to(newer)) move_to(constraint_->newer_than(newer));
}

template <class Work>
Result<void> Matcher::guarded(const Work& work) {
  try {
    for (int i = 0; i < kMaxMoves; ++i) {
      {
        const std::lock_guard lock(cache_->mutex);
        Automaton& automaton = cache_->automaton;
        automaton.clear_limit();
        automaton.set_work_limit(automaton.work() + MatcherCache::kMaskWork);
        work(*cache_);
        if (automaton.limit() == RunLimit::none) return {};
        if (automaton.limit() == RunLimit::ambiguity) break;
      }
      move_to_newer_cache();
    }
    return Error{Status::limit_exceeded, "the grammar is too ambiguous here: too many ways to read the text at once"};
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<std::span<const uint64_t>> Matcher::mask() {
  const Vocabulary& vocabulary = constraint_->vocabulary();
  const auto work = [&](MatcherCache& cache) {
    const auto known = cache.mask_of.find(state());
    if (known != cache.mask_of.end()) {
      mask_ = cache.masks[known->second].second;
      return;
    }
    cache.compute(vocabulary, state(), mask_);
    if (cache.automaton.limit() == RunLimit::none) cache.keep(state(), mask_);
  };
  if (finished()) {
    mask_.assign(vocabulary.mask_words(), 0);
    for (const int32_t id : vocabulary.end_tokens()) set_bit(mask_, id);
  } else {
    QUERN_TRY_VOID(guarded(work));
  }
  if (std::ranges::all_of(mask_, [](uint64_t word) { return word == 0; })) {
    return Error{Status::unsupported, "the vocabulary has no token for what the grammar wants next"};
  }
  return std::span<const uint64_t>(mask_);
}

Result<void> Matcher::push(Point point) {
  try {
    history_.push_back(point);
    if (history_.size() > kMaxRollback + 1) history_.pop_front();
    ++n_accepted_;
    return {};
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<void> Matcher::accept(int32_t id) {
  const Vocabulary& vocabulary = constraint_->vocabulary();
  const auto forbidden = [&] {
    return Error{Status::invalid_argument, "the grammar does not allow token " + std::to_string(id) + " here"};
  };
  if (id < 0 || static_cast<size_t>(id) >= vocabulary.size()) return forbidden();
  const TokenKind kind = vocabulary.kind(id);
  if (finished()) return kind == TokenKind::end ? push(history_.back()) : Result<void>(forbidden());
  int32_t next = Automaton::kDead;
  bool ends = false;
  QUERN_TRY_VOID(guarded([&](MatcherCache& cache) {
    Automaton& automaton = cache.automaton;
    const std::string& bytes = vocabulary.bytes(id);
    next = Automaton::kDead;
    if (kind == TokenKind::unused || bytes.empty()) return;
    const auto is_marker_byte = [](char c) { return static_cast<uint8_t>(c) >= kMarkerClose; };
    if (std::ranges::any_of(bytes, is_marker_byte)) return;
    if (kind == TokenKind::text || kind == TokenKind::both) next = automaton.run(state(), bytes);
    if (next == Automaton::kDead && kind != TokenKind::text) {
      next = automaton.next(state(), kMarkerOpen);
      next = automaton.run(next, bytes);
      if (next >= 0) next = automaton.next(next, kMarkerClose);
    }
    ends = kind == TokenKind::end && next == Automaton::kDead && automaton.may_end(state());
  }));
  if (ends) return push({state(), true});
  return next >= 0 ? push({next, false}) : Result<void>(forbidden());
}

Result<void> Matcher::accept_text(std::string_view bytes) {
  int32_t next = Automaton::kDead;
  if (!finished()) {
    QUERN_TRY_VOID(guarded([&](MatcherCache& cache) { next = cache.automaton.run(state(), bytes); }));
  }
  if (next < 0) return Error{Status::invalid_argument, "the grammar does not allow this text here"};
  return push({next, false});
}

Result<void> Matcher::rollback(size_t n) {
  if (n >= history_.size()) {
    return Error{Status::invalid_argument, "cannot take back " + std::to_string(n) + " tokens of a grammar's text: " +
                                               std::to_string(history_.size() - 1) + " are kept"};
  }
  for (size_t i = 0; i < n; ++i) history_.pop_back();
  n_accepted_ -= n;
  return {};
}

Result<bool> Matcher::may_end() {
  bool result = finished();
  if (!result) QUERN_TRY_VOID(guarded([&](MatcherCache& cache) { result = cache.automaton.may_end(state()); }));
  return result;
}

namespace {

// The only byte that goes on from state, or -1.
int only_byte(Automaton& automaton, int32_t state) {
  if (automaton.may_end(state)) return -1;
  int only = -1;
  for (unsigned b = 0; b < 256; ++b) {
    const int32_t next = automaton.next(state, static_cast<uint8_t>(b));
    if (next == Automaton::kStopped) return -1;
    if (next == Automaton::kDead) continue;
    if (only >= 0) return -1;
    only = static_cast<int>(b);
  }
  return only;
}

}  // namespace

Result<std::string> Matcher::forced_text(size_t limit) {
  QUERN_TRY(std::string text, forced_bytes(limit));
  const auto is_marker_byte = [](char c) { return static_cast<uint8_t>(c) >= kMarkerClose; };
  text.erase(std::find_if(text.begin(), text.end(), is_marker_byte), text.end());
  return text;
}

Result<std::string> Matcher::forced_bytes(size_t limit) {
  std::string text;
  if (finished()) return text;
  QUERN_TRY_VOID(guarded([&](MatcherCache& cache) {
    text.clear();
    int32_t at = state();
    while (text.size() < limit) {
      const int byte = only_byte(cache.automaton, at);
      if (byte < 0) break;
      text.push_back(static_cast<char>(byte));
      at = cache.automaton.next(at, static_cast<uint8_t>(byte));
    }
  }));
  return text;
}

Result<std::vector<int32_t>> Matcher::forced_tokens() {
  QUERN_TRY(const std::string text, forced_bytes(kMaxForced));
  try {
    const Trie& trie = constraint_->vocabulary().trie();
    std::vector<int32_t> ids;
    for (size_t begin = 0; begin < text.size();) {
      int32_t best = -1;
      size_t best_end = begin, at = begin;
      int64_t node = -1;
      for (; at < text.size(); ++at) {
        node = trie.child(node, static_cast<uint8_t>(text[at]));
        if (node < 0) break;
        const Trie::Node& reached = trie.nodes()[static_cast<size_t>(node)];
        if (reached.token >= 0) {
          best = reached.token;
          best_end = at + 1;
        }
      }
      const bool may_reach_beyond =
          node >= 0 && trie.nodes()[static_cast<size_t>(node)].end > static_cast<size_t>(node) + 1;
      if (best < 0 || may_reach_beyond) break;
      ids.push_back(best);
      begin = best_end;
    }
    return ids;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<TextMatch> match_text(const Grammar& grammar, std::string_view text) {
  constexpr uint64_t kWork = 100000000;
  try {
    auto automaton = std::make_unique<Automaton>(grammar.network());
    automaton->set_work_limit(kWork);
    TextMatch match;
    int32_t state = automaton->start();
    for (const char c : text) {
      int32_t next = automaton->next(state, static_cast<uint8_t>(c));
      if (next == Automaton::kStopped && automaton->limit() == RunLimit::memory) {
        auto newer = std::make_unique<Automaton>(grammar.network());
        newer->set_work_limit(kWork);
        state = newer->adopt(*automaton, state);
        automaton = std::move(newer);
        next = state < 0 ? state : automaton->next(state, static_cast<uint8_t>(c));
      }
      if (next == Automaton::kStopped) {
        return Error{Status::limit_exceeded, "the grammar is too ambiguous at byte " + std::to_string(match.n_bytes)};
      }
      if (next == Automaton::kDead) return match;
      state = next;
      ++match.n_bytes;
    }
    match.complete = automaton->may_end(state);
    return match;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

}  // namespace quern::grammar
