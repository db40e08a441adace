#include "api/response_store.h"

namespace quern::api {

bool ResponseStore::put(const std::string& id, StoredResponse stored) {
  Entries made;
  made.push_back({id, std::move(stored)});
  const size_t bytes = made.front().bytes();
  if (!on() || bytes > options_.max_bytes) return false;
  const std::lock_guard lock(mutex_);
  by_id_[id] = made.begin();  // the last that can fail for lack of memory
  entries_.splice(entries_.end(), made);
  bytes_ += bytes;
  while (entries_.size() > options_.max_count || bytes_ > options_.max_bytes) drop(entries_.begin());
  return true;
}

std::optional<StoredResponse> ResponseStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return std::nullopt;
  return at->second->stored;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return false;
  drop(at->second);
  return true;
}

ResponseStore::Use ResponseStore::use() const {
  const std::lock_guard lock(mutex_);
  return {entries_.size(), bytes_};
}

void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= entry->bytes();
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace quern::api
