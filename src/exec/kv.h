// Pages of keys and values. A page holds 64 positions of all layers of one kind (plan::KvKind); a table lists the pages
// of one sequence. Windowed kinds drop pages that no later position can see. Sequences that begin alike may share
// pages; a page is copied when one of them writes to it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/arena.h"
#include "plan/plan.h"

namespace quern::exec {

// Hands out pages, with whatever is in them, and takes them back. Not thread-safe: the engine's one running thread owns
// it.
class KvPool {
 public:
  explicit KvPool(const plan::KvLayout& layout)
      : layout_(layout), free_(layout.kinds.size()), slab_pages_(layout.kinds.size(), 1) {}
  Result<std::byte*> take(size_t kind);
  void give_back(size_t kind, std::byte* page);
  // One more table holds the page: it is free after as many more calls of give_back.
  void share(std::byte* page) { ++shared_[page]; }
  bool is_shared(std::byte* page) const { return !shared_.empty() && shared_.contains(page); }
  // In use, a shared page counting once.
  uint64_t pages_used() const { return pages_used_; }
  uint64_t bytes_used() const { return bytes_used_; }
  const plan::KvLayout& layout() const { return layout_; }

 private:
  const plan::KvLayout& layout_;
  std::vector<Buffer> slabs_;  // of 1, 2, 4, … pages: attention walks all pages of a sequence, in huge pages if it can
  std::vector<std::vector<std::byte*>> free_;
  std::vector<size_t> slab_pages_;                   // [kind] how many pages the next slab has
  std::unordered_map<std::byte*, uint32_t> shared_;  // pages of several tables: how many beside the first
  uint64_t pages_used_ = 0, bytes_used_ = 0;
};

// The pages of one sequence.
class KvTable {
 public:
  // Positions behind a window that are kept for going back: a chat's next turn often rewrites the end of the last.
  static constexpr int kKeepBehindWindow = 1024;

  explicit KvTable(KvPool& pool);
  ~KvTable();
  KvTable(const KvTable&) = delete;
  KvTable& operator=(const KvTable&) = delete;

  // Makes room for positions [0, n), and drops what is out of every later position's sight when evaluation goes on at
  // n0.
  Result<void> prepare(int n0, int n);
  // The smallest number of positions that the sequence can be cut back to and still go on (0 always works too).
  int earliest_rollback() const { return earliest_; }
  void clear();
  // Makes this the pages of other's first n positions, n = 0 or other.earliest_rollback() <= n <= other's positions.
  void share(const KvTable& other, int n);

  // For keeping keys and values elsewhere. The bytes of the page of a kind that holds positions from kPagePositions *
  // index on; empty where it was dropped or never was.
  std::span<const std::byte> page(size_t kind, size_t index) const;
  // Makes this the pages of positions [0, n), whole pages only, copied from the source. One that is empty there is
  // missing, which only those that lie behind a window may be. Errors leave the table empty: invalid_argument (a page
  // is missing or of another size, n is no multiple of kPagePositions), out_of_memory.
  using PageSource = std::function<std::span<const std::byte>(size_t kind, size_t index)>;
  Result<void> restore(int n, const PageSource& source);

  std::byte* const* const* pages() const { return heads_.data(); }  // as kernels::Span wants it

 private:
  Result<void> restore_kind(size_t kind, size_t n_pages, const PageSource& source);
  Result<void> own(size_t kind, int n0);  // no page with positions from n0 on is shared

  KvPool& pool_;
  std::vector<std::vector<std::byte*>> tables_;  // [kind][page]
  std::vector<std::byte* const*> heads_;         // [kind] -> tables_[kind].data()
  int earliest_ = 0;
};

}  // namespace quern::exec
