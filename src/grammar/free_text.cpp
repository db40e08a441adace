// The automaton of Aho and Corasick over the triggers' bytes, so that a token may end inside one.
#include "grammar/free_text.h"

#include <array>
#include <map>

#include "token/reply.h"

namespace quern::grammar {
namespace {

struct TextNode {
  std::array<int32_t, 256> next;
  size_t fail = 0;
  bool found = false;
  bool in_marker = false;
};

std::vector<TextNode> tree_of(const std::vector<std::string>& texts) {
  TextNode blank;
  blank.next.fill(-1);
  std::vector<TextNode> nodes{blank};
  for (const std::string& text : texts) {
    size_t at = 0;
    for (const char c : text) {
      const int32_t next = nodes[at].next[static_cast<uint8_t>(c)];
      if (next < 0) {
        nodes[at].next[static_cast<uint8_t>(c)] = static_cast<int32_t>(nodes.size());
        blank.in_marker = nodes[at].in_marker || static_cast<uint8_t>(c) == kMarkerOpen;
        at = nodes.size();
        nodes.push_back(blank);
      } else {
        at = static_cast<size_t>(next);
      }
    }
    nodes[at].found = true;
  }
  return nodes;
}

}  // namespace

void add_free_text(NetworkBuilder& b, int32_t from, int32_t ends, int32_t found,
                   const std::vector<std::string>& triggers, bool any_token,
                   const std::vector<std::string>& not_first) {
  std::vector<TextNode> nodes = tree_of(triggers);
  std::vector<size_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t c = 0; c < 256; ++c) {
      const size_t at = order[i];
      const int32_t child = nodes[at].next[c];
      const int32_t other = at == 0 ? 0 : nodes[nodes[at].fail].next[c];
      if (child < 0) {
        nodes[at].next[c] = other;
        continue;
      }
      TextNode& node = nodes[static_cast<size_t>(child)];
      node.fail = static_cast<size_t>(other);
      // The name of a marker may hold a trigger, and is no text.
      node.found = node.found || (!node.in_marker && nodes[node.fail].found);
      order.push_back(static_cast<size_t>(child));
    }
  }
  std::vector<int32_t> states(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) states[i] = nodes[i].found ? found : b.add_state();
  // target(byte, where its triggers lead): the state behind it, or -1.
  const auto add_bytes = [&](int32_t state, size_t node, const auto& target) {
    b.empty(state, ends);
    std::map<int32_t, ByteSet> sets;
    for (size_t c = 0; c < 256; ++c) {
      const auto next = static_cast<size_t>(nodes[node].next[c]);
      const int32_t to = any_token || c < kMarkerClose || next != 0 ? target(static_cast<uint8_t>(c), next) : -1;
      if (to >= 0) sets[to].set(c);
    }
    for (const auto& [to, set] : sets) b.bytes(state, to, set);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].found) add_bytes(states[i], i, [&](uint8_t, size_t next) { return states[next]; });
  }
  if (not_first.empty()) return b.empty(from, states[0]);
  // The beginning: places in the tree of not_first, beside those among the triggers.
  const std::vector<TextNode> heads = tree_of(not_first);
  std::map<std::pair<size_t, size_t>, int32_t> known{{{0, 0}, b.add_state()}};
  b.empty(from, known.begin()->second);
  std::vector<std::pair<size_t, size_t>> work{{0, 0}};
  while (!work.empty()) {
    const auto [head, node] = work.back();
    work.pop_back();
    add_bytes(known.at({head, node}), node, [&, head = head](uint8_t c, size_t next) {
      const int32_t child = heads[head].next[c];
      const bool blank = head == 0 && token::is_white_space(static_cast<char>(c));
      if (nodes[next].found || (child < 0 && !blank)) return states[next];
      const size_t deeper = child < 0 ? 0 : static_cast<size_t>(child);
      if (heads[deeper].found) return -1;
      const auto [it, is_new] = known.try_emplace({deeper, next}, 0);
      if (is_new) {
        it->second = b.add_state();
        work.emplace_back(deeper, next);
      }
      return it->second;
    });
  }
}

std::string spelled(const Piece& piece) {
  if (!piece.marker) return piece.text;
  return static_cast<char>(kMarkerOpen) + piece.text + static_cast<char>(kMarkerClose);
}

std::vector<std::string> triggers_of(const Piece& piece) {
  if (!piece.marker || !piece.both) return {spelled(piece)};
  return {spelled(piece), piece.text};
}

void add_pieces(NetworkBuilder& b, int32_t from, int32_t to, std::span<const Piece> list) {
  std::string text;
  for (const Piece& piece : list) text += spelled(piece);
  b.literal(from, to, text);
}

}  // namespace quern::grammar
