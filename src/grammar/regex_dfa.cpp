// Deterministic automata over code points: from a syntax tree, products, lengths.
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "grammar/network.h"
#include "grammar/regex.h"

namespace quern::grammar {
namespace {

constexpr size_t kMaxNfaStates = 20000, kMaxTable = 2000000, kMaxLengthStates = 400000, kMaxSets = 1024,
                 kMaxCuts = 4096;

size_t index(int32_t i) {
  return static_cast<size_t>(i);
}

Error too_large() {
  return Error{Status::limit_exceeded, "the pattern is too large to combine with lengths or other patterns"};
}

// Thompson's construction; repeats are written out.
class Nfa {
 public:
  struct Arc {
    int32_t target;
    int32_t set;  // index into sets, -1: reads nothing
  };
  std::vector<std::vector<Arc>> arcs;
  std::vector<CodeSet> sets;
  int32_t start = 0, end = 0;

  explicit Nfa(const Regex& regex) : regex_(regex) {
    start = add();
    end = add();
    for (const RegexBranch& branch : regex.branches) {
      const int32_t in = add(), out = add();
      if (branch.open_left) read(in, in, CodeSet::all());
      if (branch.open_right) read(out, out, CodeSet::all());
      skip(start, in);
      skip(out, end);
      build(branch.node, in, out);
    }
  }
  bool full() const { return arcs.size() > kMaxNfaStates || sets.size() > kMaxSets; }

 private:
  int32_t add() {
    if (full()) return 0;
    arcs.emplace_back();
    return static_cast<int32_t>(arcs.size() - 1);
  }
  void skip(int32_t from, int32_t to) { arcs[index(from)].push_back({to, -1}); }
  void read(int32_t from, int32_t to, const CodeSet& set) {
    auto it = std::find(sets.begin(), sets.end(), set);
    if (it == sets.end()) it = sets.insert(sets.end(), set);
    arcs[index(from)].push_back({to, static_cast<int32_t>(it - sets.begin())});
  }

  void build(int32_t id, int32_t from, int32_t to) {
    if (full()) return;
    const RegexNode& node = regex_.nodes[index(id)];
    switch (node.kind) {
      case RegexNode::Kind::set:
        return read(from, to, node.set);
      case RegexNode::Kind::sequence:
        for (const int32_t child : node.children) {
          const int32_t next = add();
          build(child, from, next);
          from = next;
        }
        return skip(from, to);
      case RegexNode::Kind::alternatives:
        for (const int32_t child : node.children) build(child, from, to);
        return;
      case RegexNode::Kind::repeat:
        return repeat(node, from, to);
    }
  }
  void repeat(const RegexNode& node, int32_t from, int32_t to) {
    for (uint32_t i = 0; i < node.min && !full(); ++i) {
      const int32_t next = add();
      build(node.children[0], from, next);
      from = next;
    }
    if (node.max == kUnbounded) {
      const int32_t loop = add();
      skip(from, loop);
      build(node.children[0], loop, loop);
      return skip(loop, to);
    }
    for (uint32_t i = node.min; i < node.max && !full(); ++i) {
      skip(from, to);
      const int32_t next = add();
      build(node.children[0], from, next);
      from = next;
    }
    skip(from, to);
  }
  const Regex& regex_;
};

std::vector<uint32_t> cuts_of(std::span<const CodeSet> sets) {
  std::vector<uint32_t> cuts{0};
  for (const CodeSet& set : sets) {
    for (const CodeRange& range : set.ranges()) {
      cuts.push_back(range.first);
      if (range.last < kMaxCodePoint) cuts.push_back(range.last + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

// Everything reachable from a set without reading; sorted.
void close(const Nfa& nfa, std::vector<int32_t>& set, std::vector<uint32_t>& seen, uint32_t stamp) {
  for (const int32_t s : set) seen[index(s)] = stamp;
  for (size_t i = 0; i < set.size(); ++i) {
    for (const Nfa::Arc& arc : nfa.arcs[index(set[i])]) {
      if (arc.set < 0 && std::exchange(seen[index(arc.target)], stamp) != stamp) set.push_back(arc.target);
    }
  }
  std::sort(set.begin(), set.end());
}

}  // namespace

CodeSet Dfa::symbol(size_t i) const {
  return {{cuts[i], i + 1 < cuts.size() ? cuts[i + 1] - 1 : kMaxCodePoint}};
}

int32_t Dfa::step(int32_t state, uint32_t code) const {
  const auto symbol = std::upper_bound(cuts.begin(), cuts.end(), code) - cuts.begin() - 1;
  return next[index(state) * cuts.size() + static_cast<size_t>(symbol)];
}

bool Dfa::matches(std::string_view text) const {
  if (empty()) return false;
  int32_t state = 0;
  for (size_t at = 0; at < text.size() && state >= 0;) {
    const int32_t code = next_code_point(text, &at);
    state = code < 0 ? -1 : step(state, static_cast<uint32_t>(code));
  }
  return state >= 0 && accept[index(state)];
}

Result<Dfa> dfa_of(const Regex& regex, DfaWork& budget) {
  const Nfa nfa(regex);
  if (nfa.full() || !budget.spend(nfa.arcs.size())) return too_large();
  Dfa dfa;
  dfa.cuts = cuts_of(nfa.sets);
  const size_t n = dfa.cuts.size();
  if (n > kMaxCuts) return too_large();
  std::vector<std::vector<uint8_t>> has(nfa.sets.size(), std::vector<uint8_t>(n));  // [sets][symbols]
  for (size_t s = 0; s < nfa.sets.size(); ++s) {
    for (size_t i = 0; i < n; ++i) has[s][i] = nfa.sets[s].contains(dfa.cuts[i]);
  }
  std::map<std::vector<int32_t>, int32_t> ids;
  std::vector<const std::vector<int32_t>*> sets;
  std::vector<uint32_t> seen(nfa.arcs.size(), 0);
  uint32_t stamp = 0;
  bool has_work = true;
  const auto id_of = [&](std::vector<int32_t> set) {
    close(nfa, set, seen, ++stamp);
    has_work = budget.spend(set.size() + n);
    const auto [it, is_new] = ids.try_emplace(std::move(set), static_cast<int32_t>(sets.size()));
    if (is_new) {
      sets.push_back(&it->first);
      dfa.accept.push_back(std::ranges::binary_search(it->first, nfa.end));
    }
    return it->second;
  };
  id_of({nfa.start});
  for (size_t state = 0; state < sets.size(); ++state) {
    std::vector<std::vector<int32_t>> targets(n);
    for (const int32_t s : *sets[state]) {
      for (const Nfa::Arc& arc : nfa.arcs[index(s)]) {
        for (size_t i = 0; arc.set >= 0 && i < n; ++i) {
          if (has[index(arc.set)][i]) targets[i].push_back(arc.target);
        }
      }
    }
    for (auto& target : targets) {
      std::sort(target.begin(), target.end());
      target.erase(std::unique(target.begin(), target.end()), target.end());
      dfa.next.push_back(target.empty() ? -1 : id_of(std::move(target)));
    }
    if (dfa.next.size() > kMaxTable || !has_work) return too_large();
  }
  return trimmed(std::move(dfa));
}

Dfa trimmed(Dfa dfa) {
  const size_t n = dfa.cuts.size();
  std::vector<std::vector<int32_t>> into(dfa.size());
  for (size_t s = 0; s < dfa.size(); ++s) {
    for (size_t i = 0; i < n; ++i) {
      const int32_t target = dfa.next[s * n + i];
      if (target >= 0 && (into[index(target)].empty() || into[index(target)].back() != static_cast<int32_t>(s))) {
        into[index(target)].push_back(static_cast<int32_t>(s));
      }
    }
  }
  std::vector<int32_t> work, number(dfa.size(), -1);
  for (size_t s = 0; s < dfa.size(); ++s) {
    if (dfa.accept[s]) work.push_back(static_cast<int32_t>(s)), number[s] = 0;
  }
  while (!work.empty()) {
    const int32_t state = work.back();
    work.pop_back();
    for (const int32_t s : into[index(state)]) {
      if (std::exchange(number[index(s)], 0) < 0) work.push_back(s);
    }
  }
  Dfa result;
  result.cuts = dfa.cuts;
  if (dfa.empty() || number[0] < 0) return result;
  int32_t n_kept = 0;
  for (int32_t& id : number) id = id < 0 ? -1 : n_kept++;
  for (size_t s = 0; s < dfa.size(); ++s) {
    if (number[s] < 0) continue;
    result.accept.push_back(dfa.accept[s]);
    for (size_t i = 0; i < n; ++i) {
      const int32_t target = dfa.next[s * n + i];
      result.next.push_back(target < 0 ? -1 : number[index(target)]);
    }
  }
  return result;
}

Result<Dfa> intersect(const Dfa& a, const Dfa& b, DfaWork& work) {
  Dfa dfa;
  if (a.empty() || b.empty()) return dfa;
  std::ranges::set_union(a.cuts, b.cuts, std::back_inserter(dfa.cuts));
  dfa.cuts.erase(std::unique(dfa.cuts.begin(), dfa.cuts.end()), dfa.cuts.end());
  std::sort(dfa.cuts.begin(), dfa.cuts.end());
  dfa.cuts.erase(std::unique(dfa.cuts.begin(), dfa.cuts.end()), dfa.cuts.end());
  std::map<std::pair<int32_t, int32_t>, int32_t> ids{{{0, 0}, 0}};
  std::vector<std::pair<int32_t, int32_t>> pairs{{0, 0}};
  for (size_t state = 0; state < pairs.size(); ++state) {
    const auto [p, q] = pairs[state];
    dfa.accept.push_back(a.accept[index(p)] && b.accept[index(q)]);
    for (const uint32_t code : dfa.cuts) {
      const std::pair<int32_t, int32_t> target{a.step(p, code), b.step(q, code)};
      if (target.first < 0 || target.second < 0) {
        dfa.next.push_back(-1);
        continue;
      }
      const auto [it, is_new] = ids.try_emplace(target, static_cast<int32_t>(pairs.size()));
      if (is_new) pairs.push_back(target);
      dfa.next.push_back(it->second);
    }
    if (dfa.next.size() > kMaxTable || !work.spend(dfa.cuts.size())) return too_large();
  }
  return trimmed(std::move(dfa));
}

Result<Dfa> with_length(const Dfa& dfa, uint32_t min, uint32_t max, DfaWork& work) {
  Dfa result;
  result.cuts = dfa.cuts;
  if (dfa.empty() || min > max) return result;
  const uint32_t cap = max == kUnbounded ? min : max;  // without an upper bound, lengths from min on are alike
  const uint64_t factor = uint64_t{cap} + 1;
  if (factor * dfa.size() > kMaxLengthStates || !work.spend(factor * dfa.next.size())) return too_large();
  const auto n = static_cast<uint32_t>(dfa.size());
  const auto id = [n](int32_t state, uint32_t length) {
    return static_cast<int32_t>(length * n + static_cast<uint32_t>(state));
  };
  for (uint32_t length = 0; length <= cap; ++length) {
    for (uint32_t s = 0; s < n; ++s) {
      result.accept.push_back(dfa.accept[s] && length >= min);
      const bool may_go_on = length < cap || max == kUnbounded;
      for (size_t i = 0; i < dfa.cuts.size(); ++i) {
        const int32_t target = dfa.next[s * dfa.cuts.size() + i];
        result.next.push_back(target < 0 || !may_go_on ? -1 : id(target, std::min(length + 1, cap)));
      }
    }
  }
  return trimmed(std::move(result));
}

Dfa multiples_of(uint32_t divisor) {
  Dfa dfa;
  dfa.cuts = {0, '-', '-' + 1};
  for (uint32_t c = '0'; c <= '9' + 1; ++c) dfa.cuts.push_back(c);
  for (uint32_t value = 0; value <= divisor; ++value) {  // state 0: no digit yet; state r + 1: remainder r
    dfa.accept.push_back(value == 1);
    dfa.next.insert(dfa.next.end(), {-1, value == 0 ? 0 : -1, -1});
    for (uint32_t digit = 0; digit < 10; ++digit) {
      const uint32_t rest = ((value == 0 ? 0 : value - 1) * 10 + digit) % divisor;
      dfa.next.push_back(static_cast<int32_t>(rest) + 1);
    }
    dfa.next.push_back(-1);
  }
  return dfa;
}

LengthBounds length_bounds(const Dfa& dfa) {
  LengthBounds bounds{kUnbounded, 0};
  const size_t n = dfa.cuts.size();
  std::vector<int32_t> level{0};
  std::vector<uint32_t> seen(dfa.size(), kUnbounded);
  // Level i holds the states after i characters: in a trimmed automaton more levels than states mean a cycle.
  for (uint32_t length = 0; !level.empty(); ++length) {
    if (length > dfa.size()) return {bounds.shortest, kUnbounded};
    std::vector<int32_t> next;
    for (const int32_t s : level) {
      if (dfa.accept[index(s)]) bounds = {std::min(bounds.shortest, length), length};
      for (size_t i = 0; i < n; ++i) {
        const int32_t target = dfa.next[index(s) * n + i];
        if (target >= 0 && std::exchange(seen[index(target)], length) != length) next.push_back(target);
      }
    }
    level = std::move(next);
  }
  return bounds;
}

}  // namespace quern::grammar
