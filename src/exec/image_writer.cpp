#include "exec/image_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/log.h"

namespace quern::exec {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr size_t kInFlight = 8 * kBlockBytes;  // handed to the kernel and not yet on disk
constexpr const char* kTemporaryMark = ".quern.tmp";
constexpr size_t kNameTail = 16 + std::string_view(".quern").size();  // of an image's name, after the prefix
constexpr std::chrono::milliseconds kGrace{5000};                     // that the end of an engine waits for its image

// While it lives, a write beyond the process's file size limit is an error (EFBIG) and not a signal that ends it.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoFileSizeSignal() {
    if (::sigismember(&before_, SIGXFSZ) != 1) {
      const timespec now{};
      ::sigtimedwait(&set_, nullptr, &now);  // one that is pending would come when it is let in
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t set_{}, before_{};
};

// Space on disk for the whole file. File systems that cannot say are believed to have it.
bool reserve(int fd, uint64_t bytes) {
  return ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ||
         (errno != ENOSPC && errno != EFBIG && errno != EDQUOT && errno != EIO);
}

}  // namespace

Result<ImageWriter> ImageWriter::create(const std::string& path, const file::GgufFile& file, const ImageKey& key,
                                        std::span<const plan::PackRequest> requests) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{Status::io_error, folder.string() + ": cannot create the folder: " + error.message()};
  remove_abandoned(folder.string(), fs::path(path).filename().string());
  ImageWriter writer(path, key, image_table(file, requests, key.source));
  writer.position_ = kImagePage + writer.table_.table_bytes();
  QUERN_TRY(writer.head_, Buffer::allocate(align_up(writer.position_, kBlockBytes), "the head of an image"));
  QUERN_TRY(writer.block_, Buffer::allocate(kBlockBytes, "a block of an image"));
  writer.remove_replaced();
  QUERN_TRY_VOID(writer.create_temporary());
  const NoFileSizeSignal quiet;
  if (!reserve(writer.fd_, writer.table_.file_bytes)) return writer.os_error("write");
  return writer;
}

// Held by an exclusive lock for as long as it is written: that is how others know it from an abandoned one.
Result<void> ImageWriter::create_temporary() {
  for (int i = 0; i < 1000; ++i) {
    temporary_ = path_ + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(i);
    fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0) return os_error("create");
    struct stat info {};
    const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK || errno == EOPNOTSUPP;
    if (locked && ::fstat(fd_, &info) == 0 && info.st_nlink > 0) return {};
    ::close(std::exchange(fd_, -1));  // taken for abandoned between the two calls: another name
  }
  return Error{Status::io_error, path_ + ": cannot create: too many temporary files"};
}

ImageWriter::ImageWriter(ImageWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      key_(std::move(other.key_)),
      table_(std::move(other.table_)),
      n_done_(other.n_done_),
      head_(std::move(other.head_)),
      block_(std::move(other.block_)),
      position_(other.position_),
      fd_(std::exchange(other.fd_, -1)) {}

ImageWriter::~ImageWriter() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

Error ImageWriter::os_error(const char* action) const {
  return {Status::io_error, path_ + ": cannot " + action + ": " + std::strerror(errno)};
}

Result<void> ImageWriter::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
  const NoFileSizeSignal quiet;
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return os_error("write");
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void> ImageWriter::write_block() {
  const uint64_t begin = (position_ - 1) / kBlockBytes * kBlockBytes;
  QUERN_TRY_VOID(write_at(begin, {block_.data(), position_ - begin}));
  // Starts the transfer to disk, and waits for what was started a while ago: a slow disk is then waited for here, where
  // *stop is looked at, and not in commit(); and the machine's memory does not fill with unwritten pages.
  const auto offset = static_cast<off_t>(begin), in_flight = static_cast<off_t>(kInFlight);
  ::sync_file_range(fd_, offset, kBlockBytes, SYNC_FILE_RANGE_WRITE);
  if (offset > in_flight) {
    ::sync_file_range(fd_, offset - in_flight, kBlockBytes,
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  return {};
}

Result<void> ImageWriter::put(std::span<const std::byte> bytes, const std::atomic<bool>* stop) {
  while (!bytes.empty()) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed))
      return Error{Status::cancelled, path_ + ": not finished before the end"};
    const bool in_head = position_ < head_.size();
    std::byte* to = in_head ? head_.data() + position_ : block_.data() + position_ % kBlockBytes;
    const size_t n = std::min(bytes.size(), kBlockBytes - position_ % kBlockBytes);
    std::memcpy(to, bytes.data(), n);
    position_ += n;
    bytes = bytes.subspan(n);
    if (!in_head && position_ % kBlockBytes == 0) QUERN_TRY_VOID(write_block());
  }
  return {};
}

Result<void> ImageWriter::pad_to(uint64_t offset) {
  static constexpr std::array<std::byte, kImagePage> kZeros{};
  QUERN_CHECK(offset >= position_ && offset - position_ < kImagePage);
  return put(std::span(kZeros).first(offset - position_), nullptr);
}

Result<void> ImageWriter::append(std::span<const std::byte> plane, const std::atomic<bool>* stop) {
  QUERN_CHECK(n_done_ < table_.entries.size() && plane.size() == table_.entries[n_done_].bytes);
  ImageEntry& entry = table_.entries[n_done_++];
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  const std::unique_ptr<XXH3_state_t, Free> hash(XXH3_createState());
  if (hash == nullptr) return Error{Status::out_of_memory, path_ + ": cannot write: out of memory"};
  XXH3_64bits_reset(hash.get());
  QUERN_TRY_VOID(pad_to(entry.offset));
  for (size_t at = 0; at < plane.size(); at += kBlockBytes) {
    const auto piece = plane.subspan(at, std::min(kBlockBytes, plane.size() - at));
    XXH3_64bits_update(hash.get(), piece.data(), piece.size());
    QUERN_TRY_VOID(put(piece, stop));
  }
  entry.checksum = XXH3_64bits_digest(hash.get());
  entry.ends_checksum = ends_checksum(plane);
  return {};
}

Result<void> ImageWriter::commit() {
  QUERN_CHECK(n_done_ == table_.entries.size());
  std::string table(reinterpret_cast<const char*>(table_.entries.data()), table_.entries.size() * sizeof(ImageEntry));
  table += table_.strings;
  ImageHeader header{};
  header.magic = kImageMagic;
  header.version = kImageVersion;
  header.n_entries = static_cast<uint32_t>(table_.entries.size());
  header.file_bytes = table_.file_bytes;
  header.table_bytes = table.size();
  header.identity = key_.identity;
  header.flavour = key_.flavour;
  header.source_mtime_ns = key_.source_mtime_ns;
  header.source_offset = table_.source_offset;
  header.source_bytes = static_cast<uint32_t>(key_.source.size());
  header.table_checksum = XXH3_64bits(table.data(), table.size());
  header.header_checksum = header_checksum(header);
  std::memcpy(head_.data() + kImagePage, table.data(), table.size());
  std::memcpy(head_.data(), &header, sizeof header);
  QUERN_TRY_VOID(pad_to(table_.file_bytes));
  if (position_ > head_.size() && position_ % kBlockBytes != 0) QUERN_TRY_VOID(write_block());
  QUERN_TRY_VOID(write_at(0, {head_.data(), std::min<size_t>(head_.size(), table_.file_bytes)}));
  if (::fsync(fd_) != 0) return os_error("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return os_error("rename into place");
  ::close(std::exchange(fd_, -1));
  return {};
}

// Replaced is what was made of the same model file as it was before, or in layouts that are no longer asked for. Of an
// image that this program cannot read only the name says of which model it is: it serves nobody here.
void ImageWriter::remove_replaced() const {
  const fs::path own(path_);
  const std::string prefix = key_.file_name_prefix();
  std::vector<std::string> replaced;
  std::error_code error;
  for (fs::directory_iterator it(own.parent_path(), error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == own.filename() || !name.starts_with(prefix) || name.size() != prefix.size() + kNameTail ||
        !name.ends_with(".quern"))
      continue;
    const auto image = Image::open(it->path().string());
    if (!image.ok() && image.error().status != Status::unsupported && image.error().status != Status::invalid_file)
      continue;
    const bool old =
        !image.ok() || (image->source() == key_.source && (image->header().flavour == key_.flavour ||
                                                           image->header().source_mtime_ns != key_.source_mtime_ns));
    if (old) replaced.push_back(it->path().string());
  }
  for (const std::string& path : replaced) {
    if (fs::remove(path, error)) log_info(path + ": deleted, replaced by " + own.filename().string());
  }
}

Result<void> build_image(const std::string& path, const file::GgufFile& file, const ImageKey& key,
                         std::span<const plan::PackRequest> requests, Team& team, const PackProgress& progress,
                         const SourceDone& source_done) {
  QUERN_TRY(ImageWriter writer, ImageWriter::create(path, file, key, requests));
  size_t largest = 0;
  for (const plan::PackRequest& request : requests) largest = std::max(largest, request.bytes);
  QUERN_TRY(const Buffer buffer, Buffer::allocate(largest, "one packed matrix"));
  uint64_t done = 0;
  for (const plan::PackRequest& request : requests) {
    pack_matrix(request, team, buffer.data());
    QUERN_TRY_VOID(writer.append({buffer.data(), request.bytes}));
    done += request.bytes;
    if (source_done) source_done(*request.weight);
    if (progress) progress(done, writer.file_bytes());
  }
  return writer.commit();
}

Temporaries remove_abandoned(const std::string& folder, const std::string& prefix) {
  Temporaries found;
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return found;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || name.find(kTemporaryMark) == std::string_view::npos) continue;
    const int fd = ::openat(::dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      found.held += errno == EWOULDBLOCK ? 1 : 0;
    } else if (::unlinkat(::dirfd(dir), entry->d_name, 0) == 0) {
      ++found.removed;
    }
    ::close(fd);
  }
  ::closedir(dir);
  return found;
}

ImageSaver::ImageSaver(std::string path, const file::GgufFile& file, ImageKey key,
                       std::vector<plan::PackRequest> requests, const WeightStore& weights)
    : path_(std::move(path)), file_(file), key_(std::move(key)), requests_(std::move(requests)), weights_(weights) {
  // Signals are for the program's own threads: the new one inherits a mask that takes none.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& e) {
    done_ = true;
    log_warning(path_ + ": no thread to write the prepared image: " + e.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ImageSaver::~ImageSaver() {
  {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, kGrace, [this] { return done_; });
  }
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void ImageSaver::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return done_; });
}

void ImageSaver::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);  // on Linux: of this thread only
  const Result<void> saved = save();
  if (!saved.ok()) log_warning(saved.error().message + " (no prepared image; the next start packs the weights anew)");
  const std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

Result<void> ImageSaver::save() {
  try {
    const fs::path path(path_);
    if (remove_abandoned(path.parent_path().string(), path.filename().string()).held > 0) {
      log_info(path_ + ": another process is writing it");
      return {};
    }
    QUERN_TRY(ImageWriter writer, ImageWriter::create(path_, file_, key_, requests_));
    for (const plan::PackRequest& request : requests_) {
      QUERN_TRY_VOID(writer.append({weights_.find(*request.weight, request.layout), request.bytes}, &stop_));
    }
    if (stop_.load(std::memory_order_relaxed)) return Error{Status::cancelled, path_ + ": not finished before the end"};
    return writer.commit();
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, path_ + ": cannot write: out of memory"};
  }
}

}  // namespace quern::exec
