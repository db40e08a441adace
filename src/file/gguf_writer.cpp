// Serialises the head of a GGUF file and streams tensor data behind it.
#include "file/gguf_writer.h"

#include <algorithm>
#include <utility>

#include "base/arena.h"
#include "file/encode.h"
#include "file/name_index.h"
#include "file/tensor_size.h"

namespace quern::file {
namespace {

constexpr uint32_t kVersion = 3;

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes;
}

}  // namespace

Result<GgufWriter> GgufWriter::create(const std::string& path) {
  QUERN_TRY(OutputFile out, OutputFile::create(path));
  return GgufWriter(std::move(out));
}

Result<void> GgufWriter::add(std::string_view key, OwnedValue value) {
  QUERN_CHECK(!begun_);
  if (!valid_name(key)) return fail("key " + quoted(key) + ": a name has 1 to 65535 bytes");
  if (key == "general.alignment") {
    const auto alignment = value.view().as<uint32_t>();
    if (!alignment || !valid_alignment(*alignment)) return fail("key 'general.alignment': not a valid alignment");
    alignment_ = *alignment;
  }
  entries_.push_back({std::string(key), std::move(value)});
  return {};
}

Result<void> GgufWriter::declare(std::string_view name, uint32_t ggml_type, std::span<const uint64_t> shape) {
  QUERN_CHECK(!begun_);
  const std::string who = "tensor " + quoted(name) + ": ";
  if (!valid_name(name)) return fail(who + "a name has 1 to 65535 bytes");
  Declared tensor{std::string(name), ggml_type, static_cast<uint32_t>(shape.size()), {1, 1, 1, 1}, 0};
  std::copy_n(shape.begin(), std::min<size_t>(shape.size(), 4), tensor.shape.begin());
  const auto size = tensor_size(ggml_type, tensor.n_dims, tensor.shape);
  if (!size.ok()) return fail(who + size.error().message);
  if (size->bytes == 0) return fail(who + "type " + std::to_string(ggml_type) + " has no known size");
  tensor.bytes = size->bytes;
  tensors_.push_back(std::move(tensor));
  return {};
}

Result<void> GgufWriter::check_names() const {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.key);
  if (const auto twice = NameIndex().build(names)) return fail("key " + quoted(names[*twice]) + " is there twice");
  names.clear();
  for (const Declared& tensor : tensors_) names.push_back(tensor.name);
  if (const auto twice = NameIndex().build(names)) return fail("tensor " + quoted(names[*twice]) + " is there twice");
  return {};
}

Result<void> GgufWriter::begin() {
  QUERN_CHECK(!begun_);
  QUERN_TRY_VOID(check_names());
  std::vector<std::byte> head;
  put_bytes(head, "GGUF", 4);
  put(head, kVersion);
  put(head, uint64_t{tensors_.size()});
  put(head, uint64_t{entries_.size()});
  for (const Entry& entry : entries_) {
    put_text(head, entry.key);
    put(head, static_cast<uint32_t>(entry.value.type()));
    const auto encoded = entry.value.view().encoded();
    put_bytes(head, encoded.data(), encoded.size());
  }
  uint64_t offset = 0;
  for (const Declared& tensor : tensors_) {
    put_text(head, tensor.name);
    put(head, tensor.n_dims);
    for (uint32_t d = 0; d < tensor.n_dims; ++d) put(head, tensor.shape[d]);
    put(head, tensor.ggml_type);
    put(head, offset);
    uint64_t end = 0;
    if (__builtin_add_overflow(offset, tensor.bytes, &end) || end > UINT64_MAX - alignment_) {
      return fail("tensor " + quoted(tensor.name) + ": the file's size overflows");
    }
    offset = align_up(end, alignment_);
  }
  QUERN_TRY_VOID(out_.append(head));
  begun_ = true;
  return out_.append_zeros(align_up(head.size(), alignment_) - head.size());
}

Result<void> GgufWriter::write(std::span<const std::byte> bytes) {
  QUERN_CHECK(begun_);
  if (current_ == tensors_.size()) return fail("more tensor data than was declared");
  const Declared& tensor = tensors_[current_];
  if (bytes.size() > tensor.bytes - written_) {
    return fail("tensor " + quoted(tensor.name) + ": more than its " + std::to_string(tensor.bytes) + " bytes of data");
  }
  QUERN_TRY_VOID(out_.append(bytes));
  written_ += bytes.size();
  if (written_ < tensor.bytes) return {};
  ++current_;
  written_ = 0;
  return out_.append_zeros(align_up(out_.position(), alignment_) - out_.position());
}

Result<void> GgufWriter::finish() {
  QUERN_CHECK(begun_);
  if (current_ < tensors_.size()) {
    const Declared& tensor = tensors_[current_];
    return fail("tensor " + quoted(tensor.name) + ": only " + std::to_string(written_) + " of its " +
                std::to_string(tensor.bytes) + " bytes of data were written");
  }
  return out_.commit();
}

}  // namespace quern::file
