// A network run one byte at a time. What may still follow is a set of places, each with a stack of where to go on when
// its rule ends; equal sets are one numbered state, and steps between states are remembered. So a grammar becomes a
// deterministic automaton, of which only the part that texts reach is ever made.
//
// Stacks are shared: a stack is a set of frames, each with a stack below, and calls of one rule at one place of the
// text join theirs, as in Tomita's graph-structured stack; ambiguity costs the square of a text's length at most, not
// more. Not for several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/network.h"

namespace quern::grammar {

// A place: a state of the network, how many turns its loop has made, and the stack below (-1: none).
struct Element {
  int32_t state = 0;
  uint32_t count = 0;
  int32_t stack = -1;
  auto operator<=>(const Element&) const = default;
};

// Sorted lists of elements, each stored once.
class ElementLists {
 public:
  int32_t intern(std::span<const Element> elements);  // sorted, distinct
  std::span<const Element> at(int32_t id) const;
  size_t size() const { return begin_.size() - 1; }
  size_t n_elements() const { return elements_.size(); }

 private:
  void grow();
  std::vector<Element> elements_;
  std::vector<size_t> begin_{0};
  std::vector<uint64_t> hashes_;
  std::vector<int32_t> slots_ = std::vector<int32_t>(64, -1);
};

// A loop that a state can go round by single characters.
struct CharLoop {
  int32_t rule = -1;   // of one turn; -1: no such loop
  uint32_t turns = 0;  // how many are left; kUnbounded
  int32_t after = -1;  // where the state is this loop alone: the state in which no turn is left
};

enum class RunLimit : uint8_t { none, memory, ambiguity };

class Automaton {
 public:
  static constexpr int32_t kDead = -1;     // no text goes on so
  static constexpr int32_t kStopped = -2;  // a limit was met: see limit()
  static constexpr size_t kMaxStates = 32768, kMaxTableBytes = size_t{32} << 20, kMaxElements = 2000000;
  static constexpr size_t kMaxPlaces = 16384;  // in one state

  explicit Automaton(std::shared_ptr<const Network> network);

  int32_t start() const { return 0; }
  // After kStopped the caller goes on in a new automaton (adopt), or gives up.
  int32_t next(int32_t state, uint8_t byte) {
    const int32_t known = table_[static_cast<size_t>(state) * n_classes_ + network_->byte_class[byte]];
    return known != kUnknown ? known : step(state, byte);
  }
  bool may_end(int32_t state) { return expand(state) && info(state).may_end; }
  // Whether text leads from state to one in which it may end (or only: may go on).
  int32_t run(int32_t state, std::string_view text);
  CharLoop char_loop(int32_t state);
  bool can_read(int32_t state, const ByteSet& bytes);  // whether some byte of the set goes on
  // The state after rule, alone, has been entered; final() is where it has ended and nothing else is possible.
  int32_t enter(int32_t rule);
  int32_t final();

  RunLimit limit() const { return limit_; }
  // Work since construction, in edges looked at; next() stops with RunLimit::ambiguity when it passes this.
  uint64_t work() const { return work_; }
  void set_work_limit(uint64_t limit) { work_limit_ = limit; }
  void clear_limit() { limit_ = RunLimit::none; }
  size_t n_states() const { return states_.size(); }
  // The state here that is other's `state`; kStopped where it does not fit.
  int32_t adopt(const Automaton& other, int32_t state);
  const Network& network() const { return *network_; }

 private:
  static constexpr int32_t kUnknown = -3;
  struct Arc {
    int32_t set, target, stack;
  };
  struct StateInfo {
    size_t arcs_begin = 0, arcs_end = 0;
    bool expanded = false, may_end = false;
    int32_t loop_rule = -1;
    uint32_t loop_turns = 0;
  };
  struct Call {
    int32_t rank, rule;
    Element frame;
  };
  StateInfo& info(int32_t state) { return states_[static_cast<size_t>(state)]; }
  int32_t step(int32_t state, uint8_t byte);
  int32_t state_of(std::vector<Element>& elements);
  bool expand(int32_t state);
  void close_places(StateInfo& info);
  void close_calls(StateInfo& info);
  void enter_rule(int32_t rule, int32_t stack, StateInfo& info);
  void take_edges(const Element& place, bool fresh, StateInfo& info);
  void arrive(int32_t state, int32_t stack, bool fresh);
  void add_call(int32_t rule, Element frame);
  void push_place(const Element& place);
  int32_t stop(RunLimit limit) {
    if (limit_ == RunLimit::none) limit_ = limit;
    return kStopped;
  }

  std::shared_ptr<const Network> network_;
  size_t n_classes_;
  ElementLists kernels_;  // by state: the places just after its last byte
  ElementLists stacks_;
  std::vector<StateInfo> states_;
  std::vector<int32_t> table_;  // [states, classes]
  std::vector<Arc> arcs_;
  RunLimit limit_ = RunLimit::none;
  uint64_t work_ = 0, work_limit_ = UINT64_MAX;

  // Scratch of step and expand.
  std::vector<Element> places_, targets_, frames_;
  std::vector<Call> calls_;
  std::vector<int32_t> rule_work_;
  std::vector<uint64_t> seen_;  // [network states] when a rule's state was last taken up
  uint64_t stamp_ = 0;
  std::vector<size_t> seen_places_;  // open addressing into places_, for large sets
};

}  // namespace quern::grammar
