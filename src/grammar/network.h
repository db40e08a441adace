// The one form that every grammar becomes: a recursive transition network over bytes. A rule is a small automaton whose
// edges read a byte, call a rule, or repeat one; the rules together describe any context-free language without left
// recursion. NetworkBuilder collects it and finish() checks and prepares it. Running it is automaton.h.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/code_set.h"

namespace quern::grammar {

using ByteSet = std::bitset<256>;

inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
inline constexpr int32_t kFinalState = 0;  // of no rule: the whole text has been read
// A token given by its name is spelled kMarkerOpen name kMarkerClose: bytes that no text has.
inline constexpr uint8_t kMarkerOpen = 0xFF, kMarkerClose = 0xFE;

enum class EdgeKind : uint8_t { empty, bytes, call, repeat };

struct Edge {
  EdgeKind kind = EdgeKind::empty;
  int32_t target = 0;
  int32_t index = 0;          // bytes: which set; call, repeat: which rule
  uint32_t min = 0, max = 0;  // repeat: how often; max may be kUnbounded
};

struct Rule {
  std::string name;
  int32_t start = 0, end = 0;  // end has no edges
  bool nullable = false;
  int32_t rank = 0;  // callers at a rule's left have lower ranks
};

// Immutable. Every state can reach its rule's end; a state with a repeat edge has no other edge.
struct Network {
  std::vector<Rule> rules;
  int32_t root = 0;
  std::vector<Edge> edges;          // by state
  std::vector<int32_t> edge_begin;  // [states + 1]
  std::vector<uint8_t> is_end;      // [states]
  std::vector<ByteSet> sets;
  std::array<uint8_t, 256> byte_class{};  // bytes of one class are in the same sets
  std::vector<uint8_t> class_byte;        // [classes] one byte of each
};

class NetworkBuilder {
 public:
  static constexpr size_t kMaxStates = 1000000, kMaxEdges = 2000000;

  NetworkBuilder() { states_.emplace_back(); }  // kFinalState

  int32_t add_rule(std::string name);  // with a start and an end that nothing joins yet
  int32_t start(int32_t rule) const { return rules_[static_cast<size_t>(rule)].start; }
  int32_t end(int32_t rule) const { return rules_[static_cast<size_t>(rule)].end; }
  size_t n_rules() const { return rules_.size(); }
  const std::string& name(int32_t rule) const { return rules_[static_cast<size_t>(rule)].name; }

  int32_t add_state();
  void empty(int32_t from, int32_t to) { add_edge(from, {EdgeKind::empty, to, 0, 0, 0}); }
  void bytes(int32_t from, int32_t to, const ByteSet& set);
  void literal(int32_t from, int32_t to, std::string_view text);
  void marker(int32_t from, int32_t to, std::string_view token_name);
  void code_points(int32_t from, int32_t to, const CodeSet& set);
  void call(int32_t from, int32_t to, int32_t rule) { add_edge(from, {EdgeKind::call, to, rule, 0, 0}); }
  void repeat(int32_t from, int32_t to, int32_t rule, uint32_t min, uint32_t max);
  int32_t embed(const Network& network);  // a copy of all its rules; the root's

  // Past the limits nothing more is added, and finish() says so.
  bool full() const { return states_.size() > kMaxStates || n_edges_ > kMaxEdges; }
  void set_name(int32_t rule, std::string name) { rules_[static_cast<size_t>(rule)].name = std::move(name); }
  // Drops what cannot be finished. Errors: limit_exceeded; invalid_argument where root or a rule of `needed` matches no
  // text at all, or a rule calls itself before reading a byte.
  Result<std::shared_ptr<const Network>> finish(int32_t root, std::vector<int32_t> needed = {});

 private:
  friend class NetworkFinisher;
  struct State {
    std::vector<Edge> edges;
  };
  void add_edge(int32_t from, const Edge& edge);

  std::vector<Rule> rules_;
  std::vector<State> states_;
  size_t n_edges_ = 0;
  std::vector<ByteSet> sets_;
  std::unordered_map<ByteSet, int32_t> set_index_;
};

}  // namespace quern::grammar
