// Writing prepared images: under a temporary name beside the final one, moved into place when whole and on disk. A
// reader sees no image or a complete one, whatever happens to the writer. Format: image.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/team.h"
#include "exec/image.h"
#include "exec/weight_store.h"

namespace quern::exec {

class ImageWriter {
 public:
  // Creates the folder where absent, deletes the images that this one replaces (older ones of the same model file;
  // nobody uses them, and their space may be needed), and reserves the whole file's space, so that a disk too small is
  // noticed first. Every error of this class is io_error or cancelled, in one line that names the file.
  static Result<ImageWriter> create(const std::string& path, const file::GgufFile& file, const ImageKey& key,
                                    std::span<const plan::PackRequest> requests);
  ImageWriter(ImageWriter&& other) noexcept;
  ImageWriter& operator=(ImageWriter&&) = delete;
  ~ImageWriter();  // removes what was not committed

  // The next plane, whole; it has the size that its request states. *stop (may be null) is looked at every 4 MB, which
  // is how much is written at once, at multiples of it: file systems that can then keep the file in huge pages, from
  // which kernels read faster when it is mapped.
  Result<void> append(std::span<const std::byte> plane, const std::atomic<bool>* stop = nullptr);
  // Requires a plane for each request.
  Result<void> commit();
  uint64_t file_bytes() const { return table_.file_bytes; }

 private:
  ImageWriter(std::string path, const ImageKey& key, ImageTable table)
      : path_(std::move(path)), key_(key), table_(std::move(table)) {}
  Result<void> create_temporary();
  Result<void> put(std::span<const std::byte> bytes, const std::atomic<bool>* stop);
  Result<void> pad_to(uint64_t offset);
  Result<void> write_block();
  void remove_replaced() const;
  Result<void> write_at(uint64_t offset, std::span<const std::byte> bytes) const;
  Error os_error(const char* action) const;

  std::string path_, temporary_;
  ImageKey key_;
  ImageTable table_;
  size_t n_done_ = 0;
  Buffer head_;            // the file's first bytes, whole blocks; written last, when header and table are known
  Buffer block_;           // of the bytes behind them, those not yet written
  uint64_t position_ = 0;  // in the file, of the next byte
  int fd_ = -1;
};

// Packs and writes matrix by matrix: memory for the largest packed matrix is all that it takes.
Result<void> build_image(const std::string& path, const file::GgufFile& file, const ImageKey& key,
                         std::span<const plan::PackRequest> requests, Team& team, const PackProgress& progress,
                         const SourceDone& source_done);

// Removes the temporary files in a folder that no writer holds (their process ended by force). `prefix`: only of images
// whose names begin with it.
struct Temporaries {
  size_t removed = 0, held = 0;  // held: by writers at work
};
Temporaries remove_abandoned(const std::string& folder, const std::string& prefix);

// Writes an image of weights that are in memory already, in a thread of the lowest priority.
class ImageSaver {
 public:
  // What is given must outlive the saver. Failure of any kind is one warning in the log and no image. Where another
  // process (or engine) writes the same image already, nothing is done.
  ImageSaver(std::string path, const file::GgufFile& file, ImageKey key, std::vector<plan::PackRequest> requests,
             const WeightStore& weights);
  // Waits some seconds for the end, so that short runs get their image too; gives up then, with a warning and no file.
  ~ImageSaver();
  ImageSaver(const ImageSaver&) = delete;
  ImageSaver& operator=(const ImageSaver&) = delete;

  // Returns once the image is written, or is known not to be.
  void wait();

 private:
  void work();
  Result<void> save();

  std::string path_;
  const file::GgufFile& file_;
  ImageKey key_;
  std::vector<plan::PackRequest> requests_;
  const WeightStore& weights_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace quern::exec
