// Parser of one GGUF file. Every count and length is compared with the bytes that are left before it is used: memory
// grows only with records that were read, never with what a header promises.
#include "file/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/arena.h"
#include "file/tensor_size.h"

namespace quern::file {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place, as little endian");

// The shortest records, with empty names: those are then named as such.
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;           // key length, type, value
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // name length, n_dims, one dimension, type, offset

std::string numbered(const char* kind, uint64_t index, uint64_t count) {
  return std::string(kind) + " " + std::to_string(index + 1) + " of " + std::to_string(count);
}

// What a file that does not begin with "GGUF" is, as far as its first bytes tell.
std::string foreign_file_text(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  const auto begins = [&](std::string_view what) { return text.substr(0, what.size()) == what; };
  if (begins("version https://git-lfs"))
    return "is a Git LFS pointer, not the model itself; fetch it with git lfs pull";
  if (begins("FUGG")) return "is a big-endian GGUF; convert it with gguf-convert-endian (PyPI package gguf)";
  if (begins("tjgg") || begins("fmgg") || begins("lmgg"))
    return "is a GGML file from before GGUF; get the model as GGUF";
  if (begins("PK\x03\x04")) return "is a zip archive or PyTorch checkpoint, not GGUF; get the model as GGUF";
  if (begins("<")) return "is a web page, not GGUF; the download went wrong";
  if (text.size() > 9 && text[8] == '{') return "is a safetensors file, not GGUF; get the model as GGUF";
  return "is not a GGUF file: it does not begin with \"GGUF\"";
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<ParsedFile> parse() {
    QUERN_TRY_VOID(header());
    QUERN_TRY_VOID(metadata());
    QUERN_TRY_VOID(alignment());
    QUERN_TRY_VOID(tensor_records());
    QUERN_TRY_VOID(unique_names());
    QUERN_TRY_VOID(place_tensors());
    QUERN_TRY_VOID(no_overlap());
    return std::move(file_);
  }

 private:
  uint64_t left() const { return bytes_.size() - at_; }

  Error fail(const std::string& text, Status status = Status::invalid_file) const {
    return {status, name_ + ": " + text};
  }
  Error fail_here(const std::string& text, Status status = Status::invalid_file) const {
    return fail(text + " (at byte " + std::to_string(at_) + ")", status);
  }
  Error truncated(const std::string& what) const {
    return fail("the file ends at byte " + std::to_string(bytes_.size()) + ", inside " + what + " (at byte " +
                std::to_string(at_) + "); it is truncated: download or copy it again");
  }

  template <class T>
  bool read(T& value) {
    if (left() < sizeof(T)) return false;
    value = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return true;
  }

  // Reads a key or tensor name; `what` says whose in messages.
  Result<std::string_view> read_name(const std::string& what) {
    uint64_t length = 0;
    if (!read(length)) return truncated(what + "'s name length");
    if (length == 0) return fail_here(what + " has an empty name");
    if (length > kMaxNameBytes) {
      return fail_here(what + " has a name of " + std::to_string(length) + " bytes; at most " +
                       std::to_string(kMaxNameBytes) + " are allowed");
    }
    if (length > left()) return truncated(what + "'s name");
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    at_ += length;
    return text;
  }

  Result<void> header();
  Result<void> metadata();
  Result<void> skip_value(ValueType type, std::string_view key, uint32_t depth);
  Result<void> skip_string(std::string_view key);
  Result<void> skip_array(std::string_view key, uint32_t depth);
  Result<ValueType> read_type(std::string_view key, const char* what);
  Result<void> check_bools(std::string_view key, uint64_t count);
  Result<void> alignment();
  Result<void> tensor_records();
  Result<Tensor> tensor_record(const std::string& which);
  Result<void> unique_names();
  Result<void> place_tensors();
  Result<void> no_overlap();

  std::span<const std::byte> bytes_;
  const std::string& name_;
  uint64_t at_ = 0;  // always <= bytes_.size()
  uint64_t n_entries_ = 0;
  uint64_t n_tensors_ = 0;
  ParsedFile file_;
};

Result<void> Parser::header() {
  if (bytes_.empty()) return fail("is empty");
  const std::string_view magic(reinterpret_cast<const char*>(bytes_.data()), std::min<size_t>(bytes_.size(), 4));
  if (magic != std::string_view("GGUF").substr(0, magic.size())) return fail(foreign_file_text(bytes_));
  if (magic.size() < 4) return truncated("the magic \"GGUF\"");
  at_ = 4;
  if (!read(file_.version)) return truncated("the version");
  // Versions are small, so a big-endian one shows in the upper half.
  if (file_.version != 0 && (file_.version & 0xffff) == 0) {
    return fail("is a big-endian GGUF; convert it with gguf-convert-endian (PyPI package gguf)", Status::unsupported);
  }
  if (file_.version != 2 && file_.version != 3) {
    return fail("is GGUF version " + std::to_string(file_.version) + "; Quern reads 2 and 3" +
                    (file_.version == 1 ? ": get the model again, in a file made after 2023" : ""),
                Status::unsupported);
  }
  if (!read(n_tensors_)) return truncated("the number of tensors");
  if (!read(n_entries_)) return truncated("the number of keys");
  if (n_tensors_ > left() / kMinTensorBytes) {
    return fail("promises " + std::to_string(n_tensors_) + " tensors, more than " + std::to_string(left()) +
                " remaining bytes can hold; it is truncated or corrupt");
  }
  if (n_entries_ > left() / kMinEntryBytes) {
    return fail("promises " + std::to_string(n_entries_) + " keys, more than " + std::to_string(left()) +
                " remaining bytes can hold; it is truncated or corrupt");
  }
  return {};
}

Result<void> Parser::metadata() {
  std::vector<MetaEntry> entries;
  for (uint64_t i = 0; i < n_entries_; ++i) {
    QUERN_TRY(const std::string_view key, read_name(numbered("key", i, n_entries_)));
    QUERN_TRY(const ValueType type, read_type(key, "type"));
    const uint64_t begin = at_;
    QUERN_TRY_VOID(skip_value(type, key, 0));
    entries.push_back({key, Value(type, bytes_.subspan(begin, at_ - begin))});
  }
  QUERN_TRY(file_.metadata, Metadata::create(name_, std::move(entries)));
  return {};
}

Result<ValueType> Parser::read_type(std::string_view key, const char* what) {
  uint32_t type = 0;
  if (!read(type)) return truncated("key " + quoted(key) + ": " + what);
  if (type >= kValueTypeCount) {
    return fail_here("key " + quoted(key) + ": unknown value " + what + " " + std::to_string(type));
  }
  return static_cast<ValueType>(type);
}

Result<void> Parser::skip_value(ValueType type, std::string_view key, uint32_t depth) {
  if (type == ValueType::string) return skip_string(key);
  if (type == ValueType::array) return skip_array(key, depth + 1);
  const size_t size = scalar_bytes(type);
  if (left() < size) return truncated("key " + quoted(key) + ": value");
  if (type == ValueType::boolean) QUERN_TRY_VOID(check_bools(key, 1));
  at_ += size;
  return {};
}

Result<void> Parser::check_bools(std::string_view key, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = std::to_integer<unsigned>(bytes_[at_ + i]);
    if (value > 1) return fail_here("key " + quoted(key) + ": bool is " + std::to_string(value) + ", not 0 or 1");
  }
  return {};
}

Result<void> Parser::skip_string(std::string_view key) {
  uint64_t length = 0;
  if (!read(length)) return truncated("key " + quoted(key) + ": string length");
  if (length > left()) {
    return fail_here("key " + quoted(key) + ": string of " + std::to_string(length) + " bytes, but the file has only " +
                     std::to_string(left()) + " more; it is truncated or corrupt");
  }
  at_ += length;
  return {};
}

Result<void> Parser::skip_array(std::string_view key, uint32_t depth) {
  if (depth > kMaxArrayDepth) {
    return fail_here("key " + quoted(key) + ": arrays nested deeper than " + std::to_string(kMaxArrayDepth),
                     Status::limit_exceeded);
  }
  QUERN_TRY(const ValueType element, read_type(key, "element type"));
  uint64_t count = 0;
  if (!read(count)) return truncated("key " + quoted(key) + ": array length");
  const size_t fixed = scalar_bytes(element);
  const size_t smallest = fixed > 0 ? fixed : element == ValueType::string ? 8 : 12;
  if (count > left() / smallest) {
    return fail_here("key " + quoted(key) + ": array of " + std::to_string(count) +
                     " elements, but the file has only " + std::to_string(left()) +
                     " more bytes; it is truncated or corrupt");
  }
  if (element == ValueType::boolean) QUERN_TRY_VOID(check_bools(key, count));
  if (fixed > 0) {
    at_ += count * fixed;
    return {};
  }
  for (uint64_t i = 0; i < count; ++i) QUERN_TRY_VOID(skip_value(element, key, depth));
  return {};
}

Result<void> Parser::alignment() {
  QUERN_TRY(file_.alignment, file_.metadata.get_or<uint64_t>("general.alignment", kDefaultAlignment));
  if (!valid_alignment(file_.alignment)) {
    return fail("key 'general.alignment' is " + std::to_string(file_.alignment) + "; it must be a power of two from " +
                std::to_string(kMinAlignment) + " to " + std::to_string(kMaxAlignment));
  }
  return {};
}

Result<void> Parser::tensor_records() {
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    QUERN_TRY(Tensor tensor, tensor_record(numbered("tensor", i, n_tensors_)));
    file_.tensors.push_back(tensor);
  }
  return {};
}

// Reads the record; file_offset stays relative to the data section until place_tensors.
Result<Tensor> Parser::tensor_record(const std::string& which) {
  Tensor tensor;
  const uint64_t begin = at_;
  QUERN_TRY(tensor.name, read_name(which));
  const std::string who = "tensor " + quoted(tensor.name);
  if (!read(tensor.n_dims)) return truncated(who + ": number of dimensions");
  const uint32_t stored_dims = std::min<uint32_t>(tensor.n_dims, 4);
  for (uint32_t d = 0; d < stored_dims; ++d) {
    if (!read(tensor.shape[d])) return truncated(who + ": dimension " + std::to_string(d));
  }
  if (tensor.n_dims <= 4) {
    if (!read(tensor.ggml_type)) return truncated(who + ": type");
    if (!read(tensor.file_offset)) return truncated(who + ": data offset");
  }
  const auto size = tensor_size(tensor.ggml_type, tensor.n_dims, tensor.shape);
  if (!size.ok()) {
    return fail(who + ": " + size.error().message + " (record at byte " + std::to_string(begin) + ")");
  }
  tensor.elements = size->elements;
  tensor.bytes = size->bytes;
  tensor.format = format::format_from_ggml(tensor.ggml_type);
  return tensor;
}

Result<void> Parser::unique_names() {
  std::vector<std::string_view> names;
  names.reserve(file_.tensors.size());
  for (const Tensor& tensor : file_.tensors) names.push_back(tensor.name);
  if (const auto twice = NameIndex().build(names)) return fail("tensor " + quoted(names[*twice]) + " is there twice");
  return {};
}

Result<void> Parser::place_tensors() {
  file_.data_offset = align_up(at_, file_.alignment);
  const uint64_t room = file_.data_offset <= bytes_.size() ? bytes_.size() - file_.data_offset : 0;
  for (Tensor& tensor : file_.tensors) {
    const uint64_t offset = tensor.file_offset;
    const std::string who = "tensor " + quoted(tensor.name);
    if (offset % file_.alignment != 0) {
      return fail(who + ": data offset " + std::to_string(offset) + " is not a multiple of the alignment " +
                  std::to_string(file_.alignment));
    }
    if (offset > room || tensor.bytes > room - offset || file_.data_offset > bytes_.size()) {
      return fail(who + ": its " + std::to_string(tensor.bytes) + " bytes at data offset " + std::to_string(offset) +
                  " (data begins at byte " + std::to_string(file_.data_offset) +
                  ") reach past the file's end at byte " + std::to_string(bytes_.size()) +
                  "; it is truncated: download or copy it again");
    }
    tensor.file_offset = file_.data_offset + offset;
    if (tensor.bytes > 0) tensor.data = bytes_.data() + tensor.file_offset;
  }
  return {};
}

Result<void> Parser::no_overlap() {
  std::vector<const Tensor*> order;
  order.reserve(file_.tensors.size());
  for (const Tensor& tensor : file_.tensors) {
    if (tensor.bytes > 0) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const Tensor* a, const Tensor* b) { return a->file_offset < b->file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Tensor& before = *order[i - 1];
    if (order[i]->file_offset - before.file_offset < before.bytes) {
      return fail("tensors " + quoted(before.name) + " and " + quoted(order[i]->name) + " overlap at byte " +
                  std::to_string(order[i]->file_offset));
    }
  }
  return {};
}

}  // namespace

Result<ParsedFile> parse_gguf(std::span<const std::byte> bytes, const std::string& name) {
  return Parser(bytes, name).parse();
}

bool valid_alignment(uint64_t alignment) {
  return std::has_single_bit(alignment) && alignment >= kMinAlignment && alignment <= kMaxAlignment;
}

}  // namespace quern::file
