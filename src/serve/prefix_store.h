// PrefixStore: kept timelines in a folder, so that they outlive the process. One file each (prefix_file.h); files of
// several models may share the folder. Used by the engine thread only. What goes wrong with a file or the folder is a
// warning in the log that names it, and costs no more than what it would have saved.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/prefix_file.h"

namespace quern::serve {

class PrefixStore {
 public:
  // Reads the heads of the engine's files in the folder, which is made where absent. max_bytes: of all files in it.
  // Null where the folder or the engine's identity cannot be had.
  static std::unique_ptr<PrefixStore> open(const engine::Engine& engine, const std::string& folder, uint64_t max_bytes);

  struct Match {
    size_t n = 0;  // tokens that can be taken, whole pages, at most all but the last of those asked for
    const PrefixFile* file = nullptr;
  };
  Match find(std::span<const int32_t> tokens) const;
  // Makes the session what was found. False: it cannot be had; a damaged file is forgotten.
  bool load(const Match& match, engine::Session& session);

  struct Kept {
    const engine::Session* session;
    std::span<const int32_t> tokens;  // its timeline
  };
  // Writes timelines, most recently used first, as many as fit; then removes what was not used for the longest time
  // until the folder is within its bound. Returns how many are in files now.
  size_t save(std::span<const Kept> timelines);
  size_t size() const { return files_.size(); }

 private:
  PrefixStore(std::string folder, std::string prefix, uint64_t max_bytes, engine::KvPages pages,
              const std::array<uint64_t, 2>& identity)
      : folder_(std::move(folder)),
        prefix_(std::move(prefix)),
        max_bytes_(max_bytes),
        pages_(std::move(pages)),
        identity_(identity) {}
  void scan();
  void trim() const;
  // The positions of a timeline that a file can hold.
  size_t whole_pages(const Kept& kept) const;
  uint64_t bytes_of(size_t n_tokens) const;
  std::string path_of(std::span<const int32_t> tokens) const;

  std::string folder_, prefix_;  // files of this engine begin so
  uint64_t max_bytes_;
  engine::KvPages pages_;
  std::array<uint64_t, 2> identity_;
  std::vector<std::unique_ptr<PrefixFile>> files_;
};

}  // namespace quern::serve
