// Reading and checking prepared images, and what identifies one. Writing is image_writer.cpp.
#include "exec/image.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>

#include "base/arena.h"

#include <sys/mman.h>
#include <sys/stat.h>

namespace quern::exec {

static_assert(std::endian::native == std::endian::little, "the image is mapped as it is");

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxStem = 100;  // bytes of the model's name in the image's

// Where a weight's bytes lie in the model file.
struct Place {
  uint32_t shard = 0;
  uint64_t offset = 0;
};

// Finds the tensor that holds an address, by binary search.
class Places {
 public:
  explicit Places(const file::GgufFile& file) {
    for (const file::Tensor& tensor : file.tensors()) {
      if (tensor.data != nullptr && tensor.bytes > 0) sorted_.push_back(&tensor);
    }
    std::sort(sorted_.begin(), sorted_.end(), [](const auto* a, const auto* b) { return a->data < b->data; });
  }
  Place find(const std::byte* data) const {
    auto it = std::upper_bound(sorted_.begin(), sorted_.end(), data,
                               [](const std::byte* d, const file::Tensor* t) { return d < t->data; });
    QUERN_CHECK(it != sorted_.begin());  // the weights to pack are the file's own bytes
    const file::Tensor& tensor = **--it;
    return {tensor.shard, tensor.file_offset + static_cast<uint64_t>(data - tensor.data)};
  }

 private:
  std::vector<const file::Tensor*> sorted_;
};

// A running 128-bit XXH3. The state is large and wants 64-byte alignment: the library allocates it.
class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(std::span<const std::byte> bytes) {
    number(bytes.size());
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void text(std::string_view s) { add(std::as_bytes(std::span(s))); }
  void number(uint64_t n) { XXH3_128bits_update(state_.get(), &n, sizeof n); }
  std::array<uint64_t, 2> digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.high64, hash.low64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

std::span<const std::byte> first_page(std::span<const std::byte> bytes) {
  return bytes.first(std::min(bytes.size(), kImagePage));
}
std::span<const std::byte> last_page(std::span<const std::byte> bytes) {
  return bytes.last(std::min(bytes.size(), kImagePage));
}

// The bytes before the first tensor of each shard that holds tensors.
void add_shard_heads(const file::GgufFile& file, Hash& hash) {
  struct Head {
    const std::byte* begin = nullptr;
    uint64_t bytes = UINT64_MAX;
  };
  std::vector<Head> heads;
  for (const file::Tensor& tensor : file.tensors()) {
    if (tensor.data == nullptr) continue;
    if (tensor.shard >= heads.size()) heads.resize(tensor.shard + 1);
    heads[tensor.shard].begin = tensor.data - tensor.file_offset;
    heads[tensor.shard].bytes = std::min(heads[tensor.shard].bytes, tensor.file_offset);
  }
  for (const Head& head : heads) {
    if (head.begin != nullptr) hash.add({head.begin, head.bytes});
  }
}

Result<int64_t> newest_change(const file::GgufFile& file) {
  int64_t newest = 0;
  for (const std::string& path : file.shard_paths()) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return Error{Status::io_error, path + ": cannot stat"};
    newest = std::max(newest, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec);
  }
  return newest;
}

}  // namespace

std::string ImageKey::file_name_prefix() const {
  return fs::path(source).stem().string().substr(0, kMaxStem) + "-";
}

std::string ImageKey::file_name() const {
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016" PRIx64, identity[0]);
  return file_name_prefix() + hex + ".quern";
}

std::string image_source(const std::string& model_path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(model_path, error);
  return error ? model_path : absolute.lexically_normal().string();
}

Result<ImageKey> image_key(const file::GgufFile& file, std::span<const plan::PackRequest> requests) {
  ImageKey key;
  key.source = image_source(file.path());
  QUERN_TRY(key.source_mtime_ns, newest_change(file));
  Hash hash, flavour;
  hash.text({kImageMagic.data(), kImageMagic.size()});
  hash.number(kImageVersion);
  hash.number(kLayoutVersion);
  add_shard_heads(file, hash);
  const Places places(file);
  for (const plan::PackRequest& request : requests) {
    const model::Weight& weight = *request.weight;
    const Place place = places.find(weight.data);
    const std::span<const std::byte> bytes{weight.data, weight.bytes()};
    hash.text(weight.name);
    hash.text(kernels::layout_name(request.layout));
    flavour.text(kernels::layout_name(request.layout));
    for (const uint64_t n : {uint64_t{place.shard}, place.offset, uint64_t{request.bytes},
                             uint64_t{format::format_info(weight.format).ggml_type}, static_cast<uint64_t>(weight.rows * weight.depth),
                             static_cast<uint64_t>(weight.cols)})
      hash.number(n);
    hash.add(first_page(bytes));
    hash.add(last_page(bytes));
  }
  key.identity = hash.digest();
  key.flavour = flavour.digest()[0];
  return key;
}

ImageTable image_table(const file::GgufFile& file, std::span<const plan::PackRequest> requests,
                       const std::string& source) {
  ImageTable table;
  const Places places(file);
  const size_t strings_at = requests.size() * sizeof(ImageEntry);
  const auto add_text = [&](const std::string& s) {
    const size_t at = strings_at + table.strings.size();
    table.strings += s;
    return static_cast<uint32_t>(at);
  };
  for (const plan::PackRequest& request : requests) {
    const model::Weight& weight = *request.weight;
    const Place place = places.find(weight.data);
    ImageEntry entry{};
    entry.weight_offset = place.offset;
    entry.shard = place.shard;
    entry.ggml_type = format::format_info(weight.format).ggml_type;
    entry.layout = static_cast<uint32_t>(request.layout);
    entry.name_offset = add_text(weight.name);
    entry.name_bytes = static_cast<uint32_t>(weight.name.size());
    entry.rows = weight.rows * weight.depth;
    entry.cols = weight.cols;
    entry.bytes = request.bytes;
    table.entries.push_back(entry);
  }
  table.source_offset = add_text(source);
  uint64_t offset = kImagePage + align_up(table.table_bytes(), kImagePage);
  for (ImageEntry& entry : table.entries) {
    entry.offset = offset;
    offset += align_up(entry.bytes, kImagePage);
  }
  table.file_bytes = offset;
  return table;
}

uint64_t plane_checksum(std::span<const std::byte> plane) {
  return XXH3_64bits(plane.data(), plane.size());
}

uint64_t ends_checksum(std::span<const std::byte> plane) {
  const auto first = first_page(plane), last = last_page(plane);
  return XXH3_64bits_withSeed(last.data(), last.size(), XXH3_64bits(first.data(), first.size()));
}

uint64_t header_checksum(ImageHeader header) {
  header.header_checksum = 0;
  std::array<std::byte, kImagePage> page{};
  std::memcpy(page.data(), &header, sizeof header);
  return XXH3_64bits(page.data(), page.size());
}

Error Image::damaged(const std::string& what) const {
  std::string message = path_ + ": damaged: " + what;
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c >= 0 && c < ' '; }, '?');  // names in it too
  return {Status::invalid_file, std::move(message)};
}

std::string Image::text(uint64_t offset, uint64_t bytes) const {
  const auto s = bytes_.subspan(kImagePage + offset, bytes);
  return {reinterpret_cast<const char*>(s.data()), s.size()};
}

Result<Image> Image::open(const std::string& path) {
  QUERN_TRY(MappedFile mapping, MappedFile::open(path));
  // Where the file system can, its pages come from disk as huge ones; those in memory are as the writer made them.
  const auto bytes = mapping.bytes();
  if (!bytes.empty()) ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_HUGEPAGE);
  QUERN_TRY(Image image, parse(mapping.bytes(), path));
  image.mapping_ = std::move(mapping);
  return image;
}

Result<Image> Image::parse(std::span<const std::byte> bytes, const std::string& name) {
  Image image;
  image.path_ = name;
  image.bytes_ = bytes;
  try {
    QUERN_TRY_VOID(image.read_header());
    QUERN_TRY_VOID(image.read_table());
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, name + ": not enough memory for its table"};
  }
  return image;
}

Result<void> Image::read_header() {
  if (bytes_.size() < kImagePage) return damaged("only " + std::to_string(bytes_.size()) + " bytes");
  std::memcpy(&header_, bytes_.data(), sizeof header_);
  if (header_.magic != kImageMagic) return damaged("not an image: its first bytes are others");
  if (header_.version != kImageVersion) {
    return Error{Status::unsupported, path_ + ": of format version " + std::to_string(header_.version) +
                                          ", this program's is " + std::to_string(kImageVersion)};
  }
  // The rest of the page is zero in what is hashed, and must be in the file.
  const auto rest = bytes_.subspan(sizeof header_, kImagePage - sizeof header_);
  if (header_checksum(header_) != header_.header_checksum ||
      std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; }))
    return damaged("the header's checksum is wrong");
  if (header_.file_bytes != bytes_.size()) {
    return damaged(std::to_string(bytes_.size()) + " bytes instead of " + std::to_string(header_.file_bytes));
  }
  if (header_.table_bytes > bytes_.size() - kImagePage || header_.n_entries > header_.table_bytes / sizeof(ImageEntry))
    return damaged("the table does not fit the file");
  return {};
}

Result<void> Image::read_table() {
  const auto table = bytes_.subspan(kImagePage, header_.table_bytes);
  if (XXH3_64bits(table.data(), table.size()) != header_.table_checksum)
    return damaged("the table's checksum is wrong");
  const auto in_table = [&](uint64_t offset, uint64_t bytes) {
    return offset <= table.size() && bytes <= table.size() - offset;
  };
  if (!in_table(header_.source_offset, header_.source_bytes)) return damaged("the model's path lies outside the table");
  entries_.resize(header_.n_entries);
  if (!entries_.empty()) std::memcpy(entries_.data(), table.data(), entries_.size() * sizeof(ImageEntry));
  uint64_t end = kImagePage + table.size();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ImageEntry& e = entries_[i];
    if (!in_table(e.name_offset, e.name_bytes) || e.offset % kImagePage != 0 || e.offset < end ||
        e.offset > bytes_.size() || e.bytes > bytes_.size() - e.offset)
      return damaged("entry " + std::to_string(i) + " of the table lies outside the file");
    end = e.offset + e.bytes;
  }
  return {};
}

Result<void> Image::check_serves(const file::GgufFile& file, const ImageKey& key,
                                 std::span<const plan::PackRequest> requests) const {
  const Error other{Status::invalid_file, path_ + ": made for another model file, processor or version"};
  if (header_.identity != key.identity || entries_.size() != requests.size()) return other;
  if (header_.source_mtime_ns < key.source_mtime_ns)
    return Error{Status::invalid_file, path_ + ": the model file has changed since it was made"};
  const ImageTable wanted = image_table(file, requests, key.source);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ImageEntry &have = entries_[i], &want = wanted.entries[i];
    if (name(i) != requests[i].weight->name || have.weight_offset != want.weight_offset || have.shard != want.shard ||
        have.ggml_type != want.ggml_type || have.layout != want.layout || have.rows != want.rows ||
        have.cols != want.cols || have.bytes != want.bytes)
      return other;
    if (ends_checksum(plane(i)) != have.ends_checksum) return damaged("wrong bytes in " + name(i));
  }
  return {};
}

Result<void> Image::verify(const std::function<void(uint64_t, uint64_t)>& progress) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (plane_checksum(plane(i)) != entries_[i].checksum || ends_checksum(plane(i)) != entries_[i].ends_checksum)
      return damaged("wrong bytes in " + name(i));
    if (!mapping_.bytes().empty()) mapping_.release(entries_[i].offset, entries_[i].bytes);
    if (progress) progress(entries_[i].offset + entries_[i].bytes, bytes_.size());
  }
  return {};
}

}  // namespace quern::exec
