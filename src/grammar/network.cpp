// Building networks. What is done to a whole one is in network_finish.cpp.
#include "grammar/network.h"

#include <map>

namespace quern::grammar {

int32_t NetworkBuilder::add_state() {
  if (full()) return kFinalState;
  states_.emplace_back();
  return static_cast<int32_t>(states_.size() - 1);
}

int32_t NetworkBuilder::add_rule(std::string name) {
  if (full() && !rules_.empty()) return 0;
  Rule rule;
  rule.name = std::move(name);
  rule.start = add_state();
  rule.end = add_state();
  rules_.push_back(std::move(rule));
  return static_cast<int32_t>(rules_.size() - 1);
}

void NetworkBuilder::add_edge(int32_t from, const Edge& edge) {
  if (full()) return;
  ++n_edges_;
  states_[static_cast<size_t>(from)].edges.push_back(edge);
}

void NetworkBuilder::bytes(int32_t from, int32_t to, const ByteSet& set) {
  const auto [it, is_new] = set_index_.try_emplace(set, static_cast<int32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  add_edge(from, {EdgeKind::bytes, to, it->second, 0, 0});
}

void NetworkBuilder::literal(int32_t from, int32_t to, std::string_view text) {
  if (text.empty()) return empty(from, to);
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t next = i + 1 == text.size() ? to : add_state();
    bytes(from, next, ByteSet().set(static_cast<uint8_t>(text[i])));
    from = next;
  }
}

void NetworkBuilder::marker(int32_t from, int32_t to, std::string_view token_name) {
  std::string spelled(1, static_cast<char>(kMarkerOpen));
  spelled += token_name;
  spelled += static_cast<char>(kMarkerClose);
  literal(from, to, spelled);
}

void NetworkBuilder::code_points(int32_t from, int32_t to, const CodeSet& set) {
  ByteSet single;
  std::map<std::array<uint8_t, 6>, ByteSet> last_bytes;  // by the ranges before the last byte
  std::map<std::array<uint8_t, 6>, int> lengths;
  for (const Utf8Sequence& sequence : utf8_sequences(set)) {
    std::array<uint8_t, 6> before{};
    for (int i = 0; i + 1 < sequence.length; ++i) {
      before[static_cast<size_t>(2 * i)] = sequence.bytes[i].first;
      before[static_cast<size_t>(2 * i + 1)] = sequence.bytes[i].last;
    }
    ByteSet& tail = sequence.length == 1 ? single : last_bytes[before];
    if (sequence.length > 1) lengths[before] = sequence.length;
    const ByteRange& range = sequence.bytes[sequence.length - 1];
    for (unsigned b = range.first; b <= range.last; ++b) tail.set(b);
  }
  if (single.any()) bytes(from, to, single);
  for (const auto& [before, tail] : last_bytes) {
    int32_t at = from;
    for (int i = 0; i + 1 < lengths[before]; ++i) {
      ByteSet lead;
      for (unsigned b = before[static_cast<size_t>(2 * i)]; b <= before[static_cast<size_t>(2 * i + 1)]; ++b)
        lead.set(b);
      const int32_t next = add_state();
      bytes(at, next, lead);
      at = next;
    }
    bytes(at, to, tail);
  }
}

void NetworkBuilder::repeat(int32_t from, int32_t to, int32_t rule, uint32_t min, uint32_t max) {
  if (max == 0) return empty(from, to);
  const int32_t loop = add_state();
  empty(from, loop);
  add_edge(loop, {EdgeKind::repeat, to, rule, min, max});
}

int32_t NetworkBuilder::embed(const Network& network) {
  std::vector<int32_t> states(network.is_end.size(), kFinalState);
  for (size_t s = 1; s < states.size(); ++s) states[s] = add_state();
  const auto first_rule = static_cast<int32_t>(rules_.size());
  for (const Rule& rule : network.rules) {
    rules_.push_back({rule.name, states[static_cast<size_t>(rule.start)], states[static_cast<size_t>(rule.end)]});
  }
  for (size_t s = 1; s < states.size(); ++s) {
    for (int32_t e = network.edge_begin[s]; e < network.edge_begin[s + 1]; ++e) {
      Edge edge = network.edges[static_cast<size_t>(e)];
      edge.target = states[static_cast<size_t>(edge.target)];
      if (edge.kind == EdgeKind::bytes) {
        bytes(states[s], edge.target, network.sets[static_cast<size_t>(edge.index)]);
        continue;
      }
      if (edge.kind != EdgeKind::empty) edge.index += first_rule;
      add_edge(states[s], edge);
    }
  }
  return first_rule + network.root;
}

}  // namespace quern::grammar
