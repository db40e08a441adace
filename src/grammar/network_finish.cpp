// From what a builder collected to a Network that can run: dead parts dropped, empty matches known, left recursion
// refused, bytes sorted into classes. Everything here is loops over work lists: no input can deepen the stack.
#include <algorithm>
#include <map>
#include <utility>

#include "grammar/network.h"

namespace quern::grammar {

class NetworkFinisher {
 public:
  explicit NetworkFinisher(NetworkBuilder& builder)
      : rules_(builder.rules_), states_(builder.states_), sets_(builder.sets_) {
    is_end_.assign(states_.size(), 0);
    for (const Rule& rule : rules_) is_end_[index(rule.end)] = 1;
  }

  Result<std::shared_ptr<const Network>> run(int32_t root, const std::vector<int32_t>& needed) {
    complete_ = reaches_end(&NetworkFinisher::may_pass);
    for (const int32_t rule : needed) {
      if (complete_[index(rules_[index(rule)].start)]) continue;
      return Error{Status::invalid_argument, "no text matches '" + rules_[index(rule)].name + "'"};
    }
    drop_dead_edges();
    shorten();
    const std::vector<uint8_t> empty = reaches_end(&NetworkFinisher::may_skip);
    for (Rule& rule : rules_) rule.nullable = empty[index(rule.start)] != 0;
    for (auto& state : states_) {
      for (Edge& edge : state.edges) {
        // Empty turns of a loop count as any number of turns; only turns that read something are run.
        if (edge.kind == EdgeKind::repeat && rules_[index(edge.index)].nullable) edge.min = 0;
      }
    }
    QUERN_TRY_VOID(rank_rules(root));
    return pack(root);
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  // What an edge needs before its source is marked, given that its target is: nothing, its rule, or it never helps.
  enum class Need : uint8_t { nothing, rule, never };
  static Need may_pass(const Edge& edge) {
    const bool calls = edge.kind == EdgeKind::call || (edge.kind == EdgeKind::repeat && edge.min > 0);
    return calls ? Need::rule : Need::nothing;
  }
  static Need may_skip(const Edge& edge) { return edge.kind == EdgeKind::bytes ? Need::never : may_pass(edge); }

  // The least marking in which ends are marked, and a state with an edge whose needs are met.
  std::vector<uint8_t> reaches_end(Need (*need)(const Edge&)) const {
    std::vector<uint8_t> marked(states_.size(), 0);
    struct Place {
      int32_t state, edge;
    };
    std::vector<std::vector<Place>> into(states_.size()), waiting(rules_.size());
    std::vector<std::vector<int32_t>> starts(states_.size());
    for (size_t s = 0; s < states_.size(); ++s) {
      for (size_t e = 0; e < states_[s].edges.size(); ++e) {
        const Edge& edge = states_[s].edges[e];
        const Need n = need(edge);
        const Place place{static_cast<int32_t>(s), static_cast<int32_t>(e)};
        if (n != Need::never) into[index(edge.target)].push_back(place);
        if (n == Need::rule) waiting[index(edge.index)].push_back(place);
      }
    }
    for (size_t r = 0; r < rules_.size(); ++r) starts[index(rules_[r].start)].push_back(static_cast<int32_t>(r));
    std::vector<int32_t> work;
    const auto mark = [&](int32_t state) {
      if (!std::exchange(marked[index(state)], uint8_t{1})) work.push_back(state);
    };
    const auto review = [&](Place place) {
      const Edge& edge = states_[index(place.state)].edges[index(place.edge)];
      const bool rule_holds = need(edge) == Need::nothing || marked[index(rules_[index(edge.index)].start)];
      if (marked[index(edge.target)] && rule_holds) mark(place.state);
    };
    mark(kFinalState);
    for (const Rule& rule : rules_) mark(rule.end);
    while (!work.empty()) {
      const int32_t state = work.back();
      work.pop_back();
      for (const Place& place : into[index(state)]) review(place);
      for (const int32_t rule : starts[index(state)]) {
        for (const Place& place : waiting[index(rule)]) review(place);
      }
    }
    return marked;
  }

  void drop_dead_edges() {
    for (auto& state : states_) {
      for (Edge& edge : state.edges) {
        const bool calls = edge.kind == EdgeKind::call || edge.kind == EdgeKind::repeat;
        if (edge.kind == EdgeKind::repeat && !complete_[index(rules_[index(edge.index)].start)] && edge.min == 0) {
          edge = {EdgeKind::empty, edge.target, 0, 0, 0};
        } else if (calls && !complete_[index(rules_[index(edge.index)].start)]) {
          edge.target = -1;
        } else if (!complete_[index(edge.target)]) {
          edge.target = -1;
        }
      }
      std::erase_if(state.edges, [](const Edge& edge) { return edge.target < 0; });
    }
  }

  // Skips states that only lead on to another.
  void shorten() {
    std::vector<int32_t> path;
    const auto skip = [&](int32_t state) {
      path.clear();
      const auto leads_on = [&](int32_t s) {
        const auto& edges = states_[index(s)].edges;
        return edges.size() == 1 && edges[0].kind == EdgeKind::empty && edges[0].target != s;
      };
      while (leads_on(state) && path.size() < states_.size()) {
        path.push_back(state);
        state = states_[index(state)].edges[0].target;
      }
      for (const int32_t s : path) states_[index(s)].edges[0].target = state;
      return state;
    };
    for (auto& state : states_) {
      for (Edge& edge : state.edges) edge.target = skip(edge.target);
    }
    for (Rule& rule : rules_) rule.start = skip(rule.start);
  }

  // Rules called before a byte is read, from each rule; then an order of rules in which callers come first.
  Result<void> rank_rules(int32_t root) {
    std::vector<std::vector<int32_t>> left(rules_.size());
    std::vector<int32_t> seen(states_.size(), -1);
    std::vector<int32_t> work;
    for (size_t r = 0; r < rules_.size(); ++r) {
      work.assign(1, rules_[r].start);
      while (!work.empty()) {
        const int32_t state = work.back();
        work.pop_back();
        if (std::exchange(seen[index(state)], static_cast<int32_t>(r)) == static_cast<int32_t>(r)) continue;
        for (const Edge& edge : states_[index(state)].edges) {
          const bool calls = edge.kind == EdgeKind::call || edge.kind == EdgeKind::repeat;
          if (calls) left[r].push_back(edge.index);
          const bool passes = edge.kind == EdgeKind::empty || (calls && rules_[index(edge.index)].nullable) ||
                              (edge.kind == EdgeKind::repeat && edge.min == 0);
          if (passes) work.push_back(edge.target);
        }
      }
      std::sort(left[r].begin(), left[r].end());
      left[r].erase(std::unique(left[r].begin(), left[r].end()), left[r].end());
    }
    return order(left, root);
  }

  // Depth first with a stack of our own; the reverse of the order in which rules are done.
  Result<void> order(const std::vector<std::vector<int32_t>>& left, int32_t root) {
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> mark(rules_.size(), kNew);
    std::vector<std::pair<int32_t, size_t>> stack;
    auto rank = static_cast<int32_t>(rules_.size());
    for (size_t i = 0; i <= rules_.size(); ++i) {
      const int32_t first = i == 0 ? root : static_cast<int32_t>(i - 1);
      if (mark[index(first)] != kNew) continue;
      stack.emplace_back(first, 0);
      mark[index(first)] = kOpen;
      while (!stack.empty()) {
        auto& [rule, next] = stack.back();
        if (next == left[index(rule)].size()) {
          mark[index(rule)] = kDone;
          rules_[index(rule)].rank = --rank;
          stack.pop_back();
          continue;
        }
        const int32_t called = left[index(rule)][next++];
        if (mark[index(called)] == kOpen) {
          return Error{Status::invalid_argument, "rule '" + rules_[index(called)].name +
                                                     "' is left-recursive: it calls itself before any text is read"};
        }
        if (mark[index(called)] == kNew) {
          mark[index(called)] = kOpen;
          stack.emplace_back(called, 0);
        }
      }
    }
    return {};
  }

  std::shared_ptr<const Network> pack(int32_t root) {
    auto network = std::make_shared<Network>();
    network->root = root;
    network->edge_begin.reserve(states_.size() + 1);
    for (auto& state : states_) {
      network->edge_begin.push_back(static_cast<int32_t>(network->edges.size()));
      network->edges.insert(network->edges.end(), state.edges.begin(), state.edges.end());
    }
    network->edge_begin.push_back(static_cast<int32_t>(network->edges.size()));
    network->is_end = std::move(is_end_);
    network->rules = std::move(rules_);
    network->sets = std::move(sets_);
    classify(*network);
    return network;
  }

  static void classify(Network& network) {
    std::array<int, 256> part{};
    int n_parts = 1;
    for (const ByteSet& set : network.sets) {
      std::map<std::pair<int, bool>, int> next;
      for (size_t b = 0; b < 256; ++b) {
        part[b] = next.try_emplace({part[b], set[b]}, static_cast<int>(next.size())).first->second;
      }
      n_parts = static_cast<int>(next.size());
      if (n_parts == 256) break;
    }
    network.class_byte.resize(static_cast<size_t>(n_parts));
    for (size_t b = 0; b < 256; ++b) {
      network.byte_class[b] = static_cast<uint8_t>(part[b]);
      network.class_byte[static_cast<size_t>(part[b])] = static_cast<uint8_t>(b);
    }
  }

  std::vector<Rule>& rules_;
  std::vector<NetworkBuilder::State>& states_;
  std::vector<ByteSet>& sets_;
  std::vector<uint8_t> is_end_;
  std::vector<uint8_t> complete_;
};

Result<std::shared_ptr<const Network>> NetworkBuilder::finish(int32_t root, std::vector<int32_t> needed) {
  needed.push_back(root);
  if (full()) {
    return Error{Status::limit_exceeded, "the grammar is too large: more than " + std::to_string(kMaxStates) +
                                             " states or " + std::to_string(kMaxEdges) + " edges"};
  }
  return NetworkFinisher(*this).run(root, needed);
}

}  // namespace quern::grammar
