// ResponseStore: answers of /v1/responses that clients may ask for again or go on from. Bounded in number and bytes, in
// memory only; the oldest go first. It knows no JSON.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace quern::api {

struct StoreOptions {
  size_t max_count = 1000;  // 0: nothing is kept
  size_t max_bytes = size_t{64} << 20;
};

struct StoredResponse {
  std::string response;      // JSON, as it was answered
  std::string conversation;  // JSON: all items up to the end of this answer. Whole, so none needs those before it
};

// Thread-safe.
class ResponseStore {
 public:
  explicit ResponseStore(const StoreOptions& options) : options_(options) {}

  bool on() const { return options_.max_count > 0; }
  // False: it is larger than all there is room for, and nothing is kept or dropped. The id must be a new one.
  bool put(const std::string& id, StoredResponse stored);
  std::optional<StoredResponse> find(const std::string& id) const;
  bool erase(const std::string& id);  // false: not here

  struct Use {
    size_t n = 0, bytes = 0;
  };
  Use use() const;

 private:
  struct Entry {
    std::string id;
    StoredResponse stored;
    size_t bytes() const { return id.size() + stored.response.size() + stored.conversation.size(); }
  };
  using Entries = std::list<Entry>;
  void drop(Entries::iterator entry);  // with the lock held

  StoreOptions options_;
  mutable std::mutex mutex_;
  Entries entries_;  // oldest first
  std::unordered_map<std::string, Entries::iterator> by_id_;
  size_t bytes_ = 0;
};

}  // namespace quern::api
