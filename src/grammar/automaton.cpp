// The lazy automaton: interning, expansion of a state into the bytes it can read, steps.
#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <string>

namespace quern::grammar {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 29);
}

uint64_t hash_of(const Element& e) {
  return mix((static_cast<uint64_t>(static_cast<uint32_t>(e.state)) << 32 | e.count) ^
             mix(static_cast<uint64_t>(static_cast<uint32_t>(e.stack)) + 0x51ULL));
}

uint64_t hash_of(std::span<const Element> elements) {
  uint64_t hash = elements.size();
  for (const Element& e : elements) hash = mix(hash + hash_of(e));
  return hash;
}

size_t index(int32_t i) {
  return static_cast<size_t>(i);
}

}  // namespace

std::span<const Element> ElementLists::at(int32_t id) const {
  const size_t i = index(id);
  return std::span(elements_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
}

int32_t ElementLists::intern(std::span<const Element> elements) {
  const uint64_t hash = hash_of(elements);
  size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const int32_t id = slots_[slot];
    if (hashes_[index(id)] == hash && std::ranges::equal(at(id), elements)) return id;
  }
  const auto id = static_cast<int32_t>(size());
  slots_[slot] = id;
  hashes_.push_back(hash);
  elements_.insert(elements_.end(), elements.begin(), elements.end());
  begin_.push_back(elements_.size());
  if (2 * size() > slots_.size()) grow();
  return id;
}

void ElementLists::grow() {
  slots_.assign(2 * slots_.size(), -1);
  for (size_t id = 0; id < size(); ++id) {
    size_t slot = hashes_[id] & (slots_.size() - 1);
    while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<int32_t>(id);
  }
}

Automaton::Automaton(std::shared_ptr<const Network> network)
    : network_(std::move(network)), n_classes_(network_->class_byte.size()) {
  seen_.assign(network_->is_end.size(), 0);
  enter(network_->root);
}

int32_t Automaton::enter(int32_t rule) {
  const Element done{kFinalState, 0, -1};
  targets_.assign(1, {network_->rules[index(rule)].start, 0, stacks_.intern({&done, 1})});
  if (network_->is_end[index(targets_[0].state)]) targets_[0] = done;  // a rule of nothing
  return state_of(targets_);
}

int32_t Automaton::final() {
  targets_.assign(1, {kFinalState, 0, -1});
  return state_of(targets_);
}

int32_t Automaton::state_of(std::vector<Element>& elements) {
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  if (elements.size() > kMaxPlaces) return stop(RunLimit::ambiguity);
  const size_t before = kernels_.size();
  const bool full = before >= kMaxStates || table_.size() * sizeof(int32_t) >= kMaxTableBytes ||
                    kernels_.n_elements() + stacks_.n_elements() + arcs_.size() > kMaxElements;
  if (full) return stop(RunLimit::memory);
  const int32_t state = kernels_.intern(elements);
  if (kernels_.size() > before) {
    states_.emplace_back();
    table_.resize(table_.size() + n_classes_, kUnknown);
  }
  return state;
}

// From edges to where they lead. An end gives way to what waits on the stack, unless the rule was entered just now:
// then it has read nothing, and whoever called it has passed over it already.
void Automaton::arrive(int32_t state, int32_t stack, bool fresh) {
  if (!network_->is_end[index(state)]) {
    targets_.push_back({state, 0, stack});
  } else if (!fresh) {
    const auto frames = stacks_.at(stack);
    targets_.insert(targets_.end(), frames.begin(), frames.end());
    work_ += frames.size();
  }
}

// A call whose rule would only end afterwards hands on its own stack, so that right recursion needs no depth.
void Automaton::add_call(int32_t rule, Element frame) {
  const Rule& called = network_->rules[index(rule)];
  if (!network_->is_end[index(frame.state)]) {
    calls_.push_back({called.rank, rule, frame});
    return;
  }
  for (const Element& below : stacks_.at(frame.stack)) calls_.push_back({called.rank, rule, below});
  work_ += stacks_.at(frame.stack).size();
}

void Automaton::take_edges(const Element& place, bool fresh, StateInfo& info) {
  const size_t state = index(place.state);
  for (int32_t e = network_->edge_begin[state]; e < network_->edge_begin[state + 1]; ++e) {
    const Edge& edge = network_->edges[index(e)];
    ++work_;
    switch (edge.kind) {
      case EdgeKind::empty:
        arrive(edge.target, place.stack, fresh);
        break;
      case EdgeKind::bytes:
        arcs_.push_back({edge.index, edge.target, place.stack});
        break;
      case EdgeKind::call:
        add_call(edge.index, {edge.target, 0, place.stack});
        if (network_->rules[index(edge.index)].nullable) arrive(edge.target, place.stack, fresh);
        break;
      case EdgeKind::repeat: {
        if (place.count >= edge.min) arrive(edge.target, place.stack, fresh);
        if (place.count >= edge.max && edge.max != kUnbounded) break;
        // Without an upper bound, turns after the lower one are alike.
        const uint32_t turns = edge.max == kUnbounded ? std::min(place.count + 1, edge.min) : place.count + 1;
        add_call(edge.index, {place.state, turns, place.stack});
        const uint32_t left = edge.max == kUnbounded ? kUnbounded : edge.max - place.count;
        if (left > info.loop_turns) {
          info.loop_turns = left;
          info.loop_rule = edge.index;
        }
        break;
      }
    }
  }
}

void Automaton::push_place(const Element& place) {
  // A set of places by open addressing once they are many; a look at all of them before.
  if (places_.size() < 16) {
    if (std::ranges::find(places_, place) == places_.end()) places_.push_back(place);
    return;
  }
  if (seen_places_.size() < 4 * places_.size()) {
    seen_places_.assign(16 * places_.size(), SIZE_MAX);
    for (size_t i = 0; i < places_.size(); ++i) {
      size_t slot = hash_of(places_[i]) % seen_places_.size();
      while (seen_places_[slot] != SIZE_MAX) slot = (slot + 1) % seen_places_.size();
      seen_places_[slot] = i;
    }
  }
  size_t slot = hash_of(place) % seen_places_.size();
  for (; seen_places_[slot] != SIZE_MAX; slot = (slot + 1) % seen_places_.size()) {
    if (places_[seen_places_[slot]] == place) return;
  }
  seen_places_[slot] = places_.size();
  places_.push_back(place);
}

// The places reached without reading or entering a rule; places_ holds the state's own at first.
void Automaton::close_places(StateInfo& info) {
  for (size_t i = 0; i < places_.size() && limit_ == RunLimit::none; ++i) {
    const Element place = places_[i];
    if (place.state == kFinalState) {
      info.may_end = true;
      continue;
    }
    targets_.clear();
    take_edges(place, false, info);
    for (const Element& target : targets_) push_place(target);
    if (places_.size() > 4 * kMaxPlaces || calls_.size() > 16 * kMaxPlaces || work_ > work_limit_)
      stop(RunLimit::ambiguity);
  }
}

// Callers have lower ranks, so when a rule's turn comes all its calls are known and their frames are one stack.
void Automaton::close_calls(StateInfo& info) {
  const auto later = [](const Call& a, const Call& b) { return a.rank > b.rank; };
  std::make_heap(calls_.begin(), calls_.end(), later);
  size_t in_heap = calls_.size();
  while (!calls_.empty() && limit_ == RunLimit::none) {
    const int32_t rule = calls_.front().rule;
    frames_.clear();
    while (in_heap > 0 && calls_.front().rule == rule) {
      std::pop_heap(calls_.begin(), calls_.begin() + static_cast<ptrdiff_t>(in_heap), later);
      frames_.push_back(calls_[--in_heap].frame);
      calls_.pop_back();
    }
    std::sort(frames_.begin(), frames_.end());
    frames_.erase(std::unique(frames_.begin(), frames_.end()), frames_.end());
    work_ += frames_.size();
    enter_rule(rule, stacks_.intern(frames_), info);
    for (; in_heap < calls_.size(); ++in_heap) {
      std::push_heap(calls_.begin(), calls_.begin() + static_cast<ptrdiff_t>(in_heap) + 1, later);
    }
    if (calls_.size() > 16 * kMaxPlaces || work_ > work_limit_) stop(RunLimit::ambiguity);
    if (stacks_.n_elements() + arcs_.size() > 2 * kMaxElements) stop(RunLimit::memory);
  }
}

void Automaton::enter_rule(int32_t rule, int32_t stack, StateInfo& info) {
  ++stamp_;
  rule_work_.assign(1, network_->rules[index(rule)].start);
  while (!rule_work_.empty()) {
    const int32_t state = rule_work_.back();
    rule_work_.pop_back();
    if (std::exchange(seen_[index(state)], stamp_) == stamp_) continue;
    targets_.clear();
    take_edges({state, 0, stack}, true, info);
    for (const Element& target : targets_) rule_work_.push_back(target.state);
  }
}

bool Automaton::expand(int32_t state) {
  if (info(state).expanded) return true;
  StateInfo result;
  result.arcs_begin = arcs_.size();
  const auto kernel = kernels_.at(state);
  places_.assign(kernel.begin(), kernel.end());
  seen_places_.clear();
  calls_.clear();
  close_places(result);
  close_calls(result);
  if (limit_ != RunLimit::none) {
    arcs_.resize(result.arcs_begin);
    calls_.clear();
    return false;
  }
  const auto less = [](const Arc& a, const Arc& b) {
    return std::tie(a.set, a.target, a.stack) < std::tie(b.set, b.target, b.stack);
  };
  std::sort(arcs_.begin() + static_cast<ptrdiff_t>(result.arcs_begin), arcs_.end(), less);
  result.arcs_end = arcs_.size();
  result.expanded = true;
  info(state) = result;
  return true;
}

int32_t Automaton::step(int32_t state, uint8_t byte) {
  if (limit_ != RunLimit::none || !expand(state)) return kStopped;
  const StateInfo& from = info(state);
  targets_.clear();
  for (size_t i = from.arcs_begin; i < from.arcs_end; ++i) {
    if (network_->sets[index(arcs_[i].set)][byte]) arrive(arcs_[i].target, arcs_[i].stack, false);
  }
  work_ += from.arcs_end - from.arcs_begin;
  if (work_ > work_limit_) return stop(RunLimit::ambiguity);
  const int32_t target = targets_.empty() ? kDead : state_of(targets_);
  if (target != kStopped) table_[index(state) * n_classes_ + network_->byte_class[byte]] = target;
  return target;
}

int32_t Automaton::run(int32_t state, std::string_view text) {
  for (const char c : text) {
    if (state < 0) break;
    state = next(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool Automaton::can_read(int32_t state, const ByteSet& bytes) {
  if (!expand(state)) return true;
  for (size_t i = info(state).arcs_begin; i < info(state).arcs_end; ++i) {
    if ((network_->sets[index(arcs_[i].set)] & bytes).any()) return true;
  }
  return false;
}

CharLoop Automaton::char_loop(int32_t state) {
  CharLoop loop;
  if (!expand(state)) return loop;
  loop.rule = info(state).loop_rule;
  loop.turns = info(state).loop_turns;
  const auto kernel = kernels_.at(state);
  if (loop.rule < 0 || loop.turns == kUnbounded || kernel.size() != 1) return loop;
  const Element place = kernel[0];
  const size_t s = index(place.state);
  if (network_->edge_begin[s] == network_->edge_begin[s + 1]) return loop;
  const Edge& edge = network_->edges[index(network_->edge_begin[s])];
  if (edge.kind != EdgeKind::repeat || edge.index != loop.rule) return loop;
  targets_.assign(1, {place.state, edge.max, place.stack});
  loop.after = state_of(targets_);
  return loop;
}

int32_t Automaton::adopt(const Automaton& other, int32_t state) {
  std::map<int32_t, int32_t> stacks;  // other's -> ours
  std::vector<int32_t> work;
  const auto want = [&](const Element& e) {
    if (e.stack >= 0 && !stacks.contains(e.stack)) work.push_back(e.stack);
  };
  const auto ours = [&](std::span<const Element> list) {
    std::vector<Element> result(list.begin(), list.end());
    for (Element& e : result) e.stack = e.stack < 0 ? -1 : stacks.at(e.stack);
    std::sort(result.begin(), result.end());
    return result;
  };
  for (const Element& e : other.kernels_.at(state)) want(e);
  while (!work.empty()) {
    const int32_t stack = work.back();
    const size_t depth = work.size();
    for (const Element& e : other.stacks_.at(stack)) want(e);
    if (work.size() > depth) continue;  // what is below comes first
    work.pop_back();
    if (!stacks.contains(stack)) stacks[stack] = stacks_.intern(ours(other.stacks_.at(stack)));
    if (stacks_.n_elements() > kMaxElements) return stop(RunLimit::memory);
  }
  std::vector<Element> places = ours(other.kernels_.at(state));
  return state_of(places);
}

}  // namespace quern::grammar
