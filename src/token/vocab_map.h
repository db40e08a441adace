// The two hash tables of tokenizers: text -> token id, and pair of ids -> merge. Built once, then only read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace quern::token {

inline constexpr int32_t kNoToken = -1;

// Open addressing, at most half full. Keys are views whose bytes the owner of the table keeps.
class TextMap {
 public:
  explicit TextMap(size_t count = 0) : slots_(std::bit_ceil(2 * count + 2)) {}

  // The id of an equal text that is there already, else kNoToken after adding. At most `count` texts may be added.
  int32_t add(std::string_view text, int32_t id) {
    Slot& slot = slots_[place(text)];
    if (slot.id != kNoToken) return slot.id;
    slot = {text, id};
    return kNoToken;
  }
  int32_t find(std::string_view text) const { return slots_[place(text)].id; }

 private:
  struct Slot {
    std::string_view text;
    int32_t id = kNoToken;
  };
  size_t place(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t i = std::hash<std::string_view>{}(text)&mask;
    while (slots_[i].id != kNoToken && slots_[i].text != text) i = (i + 1) & mask;
    return i;
  }
  std::vector<Slot> slots_;
};

struct Merge {
  int32_t rank = kNoToken;  // lower merges first
  int32_t result = kNoToken;
};

class MergeMap {
 public:
  explicit MergeMap(size_t count = 0) : slots_(std::bit_ceil(2 * count + 2)) {}

  // False where the pair is there already. At most `count` pairs may be added.
  bool add(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[place(key(left, right))];
    if (slot.merge.rank != kNoToken) return false;
    slot = {key(left, right), merge};
    return true;
  }
  Merge find(int32_t left, int32_t right) const { return slots_[place(key(left, right))].merge; }  // rank < 0: none

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t place(uint64_t k) const {
    const size_t mask = slots_.size() - 1;
    size_t i = (k * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (slots_[i].merge.rank != kNoToken && slots_[i].key != k) i = (i + 1) & mask;
    return i;
  }
  std::vector<Slot> slots_;
};

}  // namespace quern::token
