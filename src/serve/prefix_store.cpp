#include "serve/prefix_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "base/log.h"
#include "file/gguf.h"
#include "file/output_file.h"

namespace quern::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".prefix";
constexpr size_t kMaxStem = 100;  // bytes of the model's name in the file's

std::string hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, number);
  return text;
}

void touch(const std::string& path) {
  (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // its turn to go comes later; no more than that is lost
}

// Of a process that ended by force: nobody holds its lock.
void remove_unfinished(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  ::close(fd);
}

std::vector<fs::path> list(const std::string& folder, std::string_view ending) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().ends_with(ending)) paths.push_back(it->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::unique_ptr<PrefixStore> PrefixStore::open(const engine::Engine& engine, const std::string& folder,
                                               uint64_t max_bytes) {
  const auto identity = engine.kv_identity();
  if (!identity.ok()) {
    log_warning("no prefixes are kept: " + identity.error().message);
    return nullptr;
  }
  std::error_code error;
  if (fs::create_directories(folder, error)) (void)::chmod(folder.c_str(), 0700);
  if (error) {
    log_warning(folder + ": no prefixes are kept: " + error.message());
    return nullptr;
  }
  const std::string stem = fs::path(engine.file().path()).stem().string().substr(0, kMaxStem);
  std::unique_ptr<PrefixStore> store(new PrefixStore(folder, stem + "-", max_bytes, engine.kv_pages(), *identity));
  store->scan();
  return store;
}

void PrefixStore::scan() {
  for (const fs::path& path : list(folder_, std::string(kEnding) + file::OutputFile::kUnfinished))
    remove_unfinished(path);
  for (const fs::path& path : list(folder_, kEnding)) {
    if (!path.filename().string().starts_with(prefix_)) continue;
    auto file = PrefixFile::open(path.string(), pages_, identity_);
    if (file.ok()) {
      files_.push_back(std::make_unique<PrefixFile>(*std::move(file)));
    } else if (file.error().status == Status::unsupported) {
      log_info(file.error().message + " (kept prefix; not used)");
    } else {
      log_warning(file.error().message + " (kept prefix; not used)");
    }
  }
}

PrefixStore::Match PrefixStore::find(std::span<const int32_t> tokens) const {
  Match best;
  if (tokens.empty()) return best;
  const auto wanted = tokens.first(tokens.size() - 1);
  for (const auto& file : files_) {
    const auto& have = file->tokens();
    const auto end = std::mismatch(have.begin(), have.end(), wanted.begin(), wanted.end()).first;
    const auto shared = static_cast<size_t>(end - have.begin());
    const size_t n = shared - shared % static_cast<size_t>(pages_.positions);
    if (n > best.n) best = {n, file.get()};
  }
  return best;
}

bool PrefixStore::load(const Match& match, engine::Session& session) {
  const auto done = match.file->restore(session, match.n);
  if (done.ok()) {
    touch(match.file->path());
    return true;
  }
  // No damage: behind a window, not every beginning of a timeline can be gone on from; memory may be short.
  if (done.error().status != Status::invalid_file) return false;
  log_warning(done.error().message + " (kept prefix; not used)");
  std::erase_if(files_, [&](const auto& file) { return file.get() == match.file; });
  return false;
}

size_t PrefixStore::whole_pages(const Kept& kept) const {
  const auto positions = static_cast<size_t>(pages_.positions);
  const size_t n = kept.tokens.size() - kept.tokens.size() % positions;
  return n > 0 && kept.session->kept_by(static_cast<int>(n)) == static_cast<int>(n) ? n : 0;
}

uint64_t PrefixStore::bytes_of(size_t n_tokens) const {
  uint64_t page = 0;
  for (const size_t bytes : pages_.bytes) page += bytes;
  return n_tokens / static_cast<size_t>(pages_.positions) * page;
}

std::string PrefixStore::path_of(std::span<const int32_t> tokens) const {
  const std::string name = prefix_ + hex(identity_[0]) + "-" + hex(XXH3_64bits(tokens.data(), tokens.size_bytes()));
  return (fs::path(folder_) / (name + kEnding)).string();
}

size_t PrefixStore::save(std::span<const Kept> timelines) {
  struct Chosen {
    const Kept* kept;
    size_t n;
  };
  std::vector<Chosen> chosen;
  uint64_t bytes = 0;
  for (const Kept& kept : timelines) {
    const size_t n = whole_pages(kept);
    if (n == 0) continue;
    bytes += bytes_of(n);
    if (bytes > max_bytes_) break;
    chosen.push_back({&kept, n});
  }
  // The oldest first, so that times of change tell the order.
  for (auto it = chosen.rbegin(); it != chosen.rend(); ++it) {
    const auto tokens = it->kept->tokens.first(it->n);
    const std::string path = path_of(tokens);
    const bool there =
        std::any_of(files_.begin(), files_.end(), [&](const auto& file) { return file->path() == path; });
    if (there) {
      touch(path);
    } else if (const auto written = write_prefix_file(path, *it->kept->session, tokens, pages_, identity_);
               !written.ok()) {
      log_warning(written.error().message + " (kept prefix)");
      continue;
    }
    // What is only the beginning of this one serves nobody any more.
    std::erase_if(files_, [&](const auto& file) {
      const auto& have = file->tokens();
      const bool beginning = have.size() < tokens.size() && std::equal(have.begin(), have.end(), tokens.begin());
      if (beginning) ::unlink(file->path().c_str());
      return beginning;
    });
  }
  trim();
  return chosen.size();
}

void PrefixStore::trim() const {
  struct Found {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Found> all;
  for (const fs::path& path : list(folder_, kEnding)) {
    std::error_code error;
    Found found{fs::last_write_time(path, error), fs::file_size(path, error), path};
    if (!error) all.push_back(std::move(found));
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.used > b.used; });
  uint64_t bytes = 0;
  for (const Found& found : all) {
    bytes += found.bytes;
    std::error_code error;
    if (bytes > max_bytes_) fs::remove(found.path, error);
  }
}

}  // namespace quern::serve
