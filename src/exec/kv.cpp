#include "exec/kv.h"

#include <algorithm>
#include <cstring>

namespace quern::exec {

using kernels::kPagePositions;

namespace {

// Slabs stay below this: more pages would be taken at once than a short conversation ever needs.
constexpr size_t kMostSlabBytes = size_t{32} << 20;

}  // namespace

Result<std::byte*> KvPool::take(size_t kind) {
  auto& free = free_[kind];
  if (free.empty()) {
    const size_t bytes = layout_.kinds[kind].page_bytes,
                 n = std::max<size_t>(1, std::min(slab_pages_[kind], kMostSlabBytes / bytes));
    QUERN_TRY(Buffer slab, Buffer::allocate(n * bytes, "keys and values"));
    for (size_t i = n; i > 0; --i) free.push_back(slab.data() + (i - 1) * bytes);
    slabs_.push_back(std::move(slab));
    slab_pages_[kind] = 2 * n;
  }
  std::byte* page = free.back();
  free.pop_back();
  ++pages_used_;
  bytes_used_ += layout_.kinds[kind].page_bytes;
  return page;
}

void KvPool::give_back(size_t kind, std::byte* page) {
  if (const auto shared = shared_.find(page); shared != shared_.end()) {
    if (--shared->second == 0) shared_.erase(shared);
    return;
  }
  free_[kind].push_back(page);
  --pages_used_;
  bytes_used_ -= layout_.kinds[kind].page_bytes;
}

KvTable::KvTable(KvPool& pool) : pool_(pool), tables_(pool.layout().kinds.size()), heads_(tables_.size(), nullptr) {}

KvTable::~KvTable() {
  clear();
}

void KvTable::clear() {
  for (size_t kind = 0; kind < tables_.size(); ++kind) {
    for (std::byte* page : tables_[kind]) {
      if (page != nullptr) pool_.give_back(kind, page);
    }
    tables_[kind].clear();
  }
  earliest_ = 0;
}

void KvTable::share(const KvTable& other, int n) {
  clear();
  const size_t n_pages = static_cast<size_t>((n + kPagePositions - 1) / kPagePositions);
  for (size_t kind = 0; kind < tables_.size(); ++kind) {
    const auto& from = other.tables_[kind];
    tables_[kind].reserve(n_pages);
    for (size_t i = 0; i < n_pages; ++i) {
      if (from[i] != nullptr) pool_.share(from[i]);
      tables_[kind].push_back(from[i]);
    }
    heads_[kind] = tables_[kind].data();
  }
  earliest_ = n > 0 ? other.earliest_ : 0;
}

std::span<const std::byte> KvTable::page(size_t kind, size_t index) const {
  const auto& table = tables_[kind];
  if (index >= table.size() || table[index] == nullptr) return {};
  return {table[index], pool_.layout().kinds[kind].page_bytes};
}

Result<void> KvTable::restore(int n, const PageSource& source) {
  clear();
  if (n <= 0 || n % kPagePositions != 0) return Error{Status::invalid_argument, "only whole pages can be restored"};
  for (size_t kind = 0; kind < tables_.size(); ++kind) {
    if (auto done = restore_kind(kind, static_cast<size_t>(n / kPagePositions), source); !done.ok()) {
      clear();
      return done;
    }
    heads_[kind] = tables_[kind].data();
  }
  if (earliest_ <= n) return {};
  clear();
  return Error{Status::invalid_argument, "pages within the window are missing"};
}

Result<void> KvTable::restore_kind(size_t kind, size_t n_pages, const PageSource& source) {
  const plan::KvKind& shape = pool_.layout().kinds[kind];
  auto& table = tables_[kind];
  for (size_t i = 0; i < n_pages; ++i) {
    const std::span<const std::byte> from = source(kind, i);
    const bool dropped = from.empty() && shape.window > 0 && (i == 0 || table.back() == nullptr);
    if (!dropped && from.size() != shape.page_bytes)
      return Error{Status::invalid_argument, "a page is missing or has another size"};
    std::byte* page = nullptr;
    if (!dropped) {
      QUERN_TRY(page, pool_.take(kind));
      std::memcpy(page, from.data(), from.size());
    } else {
      earliest_ = std::max(earliest_, static_cast<int>(i + 1) * kPagePositions + shape.window - 1);
    }
    table.push_back(page);
  }
  return {};
}

Result<void> KvTable::own(size_t kind, int n0) {
  auto& table = tables_[kind];
  for (size_t i = static_cast<size_t>(n0 / kPagePositions); i < table.size(); ++i) {
    if (table[i] == nullptr || !pool_.is_shared(table[i])) continue;
    QUERN_TRY(std::byte * page, pool_.take(kind));
    if (static_cast<int>(i) * kPagePositions < n0) std::memcpy(page, table[i], pool_.layout().kinds[kind].page_bytes);
    pool_.give_back(kind, table[i]);
    table[i] = page;
  }
  return {};
}

Result<void> KvTable::prepare(int n0, int n) {
  const size_t n_pages = static_cast<size_t>((n + kPagePositions - 1) / kPagePositions);
  for (size_t kind = 0; kind < tables_.size(); ++kind) {
    auto& table = tables_[kind];
    const int window = pool_.layout().kinds[kind].window;
    if (window > 0) {
      const int keep_from = n0 - window + 1 - kKeepBehindWindow;  // first position kept
      for (int i = 0; (i + 1) * kPagePositions <= keep_from && static_cast<size_t>(i) < table.size(); ++i) {
        std::byte*& page = table[static_cast<size_t>(i)];
        if (page == nullptr) continue;
        pool_.give_back(kind, page);
        page = nullptr;
        earliest_ = std::max(earliest_, (i + 1) * kPagePositions + window - 1);
      }
    }
    QUERN_TRY_VOID(own(kind, n0));
    while (table.size() < n_pages) {
      QUERN_TRY(std::byte * page, pool_.take(kind));
      table.push_back(page);
    }
    heads_[kind] = table.data();
  }
  return {};
}

}  // namespace quern::exec
