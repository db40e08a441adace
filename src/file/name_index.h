// Names to positions: sorted, so that look-up cost has a bound that no choice of names can break.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::file {

// Does not own the names.
class NameIndex {
 public:
  // names[i] is the name of item i. Gives back the position of an item whose name an earlier item has, if there is one.
  std::optional<size_t> build(const std::vector<std::string_view>& names) {
    sorted_.clear();
    sorted_.reserve(names.size());
    for (size_t i = 0; i < names.size(); ++i) sorted_.emplace_back(names[i], i);
    std::sort(sorted_.begin(), sorted_.end());
    const auto same = std::adjacent_find(sorted_.begin(), sorted_.end(),
                                         [](const Item& a, const Item& b) { return a.first == b.first; });
    if (same == sorted_.end()) return std::nullopt;
    return std::next(same)->second;
  }

  // The position of the first item of that name.
  std::optional<size_t> find(std::string_view name) const {
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), Item{name, 0});
    if (at == sorted_.end() || at->first != name) return std::nullopt;
    return at->second;
  }

 private:
  using Item = std::pair<std::string_view, size_t>;
  std::vector<Item> sorted_;
};

}  // namespace quern::file
