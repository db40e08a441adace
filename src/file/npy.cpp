// The .npy container: magic, version, a Python dictionary literal, raw elements.
#include "file/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "file/value.h"

namespace quern::file {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderBytes = 128;  // of files written here: room for any two 64-bit dimensions, and a multiple of 64
constexpr size_t kMaxDims = 8;

std::string header_text(uint64_t n_rows, uint64_t n_columns) {
  std::string text(kMagic);
  text += {'\x01', '\x00', static_cast<char>(kHeaderBytes - 10), '\x00'};
  text += "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(n_rows) + ", " +
          std::to_string(n_columns) + "), }";
  text.resize(kHeaderBytes - 1, ' ');
  return text + '\n';
}

// Takes the dictionary apart by its three known keys; the value begins after the key's colon.
std::optional<std::string_view> value_after(std::string_view dictionary, std::string_view key) {
  const size_t at = dictionary.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = dictionary.substr(at + key.size());
  const size_t colon = rest.find_first_not_of(' ');
  if (colon == std::string_view::npos || rest[colon] != ':') return std::nullopt;
  rest.remove_prefix(colon + 1);
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  return rest;
}

// "(3, 4)", "(3,)", "()": nothing where it is anything else.
std::optional<std::vector<uint64_t>> parse_shape(std::string_view text) {
  std::vector<uint64_t> shape;
  if (text.empty() || text[0] != '(') return std::nullopt;
  text.remove_prefix(1);
  while (true) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
    if (!text.empty() && text[0] == ')') return shape;
    uint64_t dimension = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), dimension);
    if (code != std::errc() || shape.size() == kMaxDims) return std::nullopt;
    shape.push_back(dimension);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
    if (text.empty() || (text[0] != ',' && text[0] != ')')) return std::nullopt;
    if (text[0] == ',') text.remove_prefix(1);
  }
}

struct Layout {
  std::string_view dictionary;
  size_t data_offset;
};

// Finds the dictionary; nothing where the bytes are not an .npy file or end too early.
std::optional<Layout> find_header(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < 12) return std::nullopt;
  const auto major = std::to_integer<int>(bytes[6]);
  if (major < 1 || major > 3) return std::nullopt;
  const size_t begin = major == 1 ? 10 : 12;
  const size_t length = major == 1 ? load<uint16_t>(bytes.data() + 8) : load<uint32_t>(bytes.data() + 8);
  if (length > text.size() - begin) return std::nullopt;
  return Layout{text.substr(begin, length), begin + length};
}

}  // namespace

Result<NpyWriter> NpyWriter::create(const std::string& path, uint64_t n_columns) {
  if (n_columns == 0) return Error{Status::invalid_argument, path + ": an array needs at least one column"};
  QUERN_TRY(OutputFile out, OutputFile::create(path));
  const std::string header = header_text(0, n_columns);
  QUERN_TRY_VOID(out.append(std::as_bytes(std::span(header))));
  return NpyWriter(std::move(out), n_columns);
}

Result<void> NpyWriter::append(std::span<const float> rows) {
  QUERN_CHECK(rows.size() % n_columns_ == 0);
  QUERN_TRY_VOID(out_.append(std::as_bytes(rows)));
  n_rows_ += rows.size() / n_columns_;
  return {};
}

Result<void> NpyWriter::finish() {
  const std::string header = header_text(n_rows_, n_columns_);
  QUERN_TRY_VOID(out_.overwrite(0, std::as_bytes(std::span(header))));
  return out_.commit();
}

Result<NpyFile> NpyFile::open(const std::string& path) {
  QUERN_TRY(MappedFile mapping, MappedFile::open(path));
  QUERN_TRY(NpyFile file, parse(mapping.bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

Result<NpyFile> NpyFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const std::string& text) { return Error{Status::invalid_file, name + ": " + text}; };
  const auto header = find_header(bytes);
  if (!header) return fail("is not an .npy file, or its header is cut off");
  const auto descr = value_after(header->dictionary, "'descr'");
  const auto order = value_after(header->dictionary, "'fortran_order'");
  const auto shape_text = value_after(header->dictionary, "'shape'");
  if (!descr || !order || !shape_text) return fail(".npy header lacks descr, fortran_order or shape");
  NpyFile file;
  file.name_ = name;
  if (descr->starts_with("'<f4'")) {
    file.type_ = NpyType::f32;
  } else if (descr->starts_with("'<i4'")) {
    file.type_ = NpyType::i32;
  } else {
    return Error{Status::unsupported, name + ": .npy element type " + quoted(descr->substr(0, descr->find(','))) +
                                          "; save it as float32 or int32 (numpy: array.astype('<f4'))"};
  }
  if (!order->starts_with("False")) {
    return Error{Status::unsupported, name + ": .npy in Fortran order; save numpy.ascontiguousarray(array)"};
  }
  auto shape = parse_shape(*shape_text);
  if (!shape) return fail(".npy shape is not a tuple of at most 8 numbers");
  uint64_t size = sizeof(float);
  for (const uint64_t dimension : *shape) {
    if (__builtin_mul_overflow(size, dimension, &size)) return fail(".npy shape overflows");
  }
  const uint64_t there = bytes.size() - header->data_offset;
  if (size > there) {
    return fail(".npy shape needs " + std::to_string(size) + " bytes, but " + std::to_string(there) +
                " follow the header; it is truncated");
  }
  if (reinterpret_cast<uintptr_t>(bytes.data() + header->data_offset) % alignof(float) != 0) {
    return fail(".npy data is not aligned to 4 bytes; save it again with a current numpy");
  }
  file.shape_ = std::move(*shape);
  file.data_ = bytes.subspan(header->data_offset, size);
  return file;
}

Result<std::span<const float>> NpyFile::floats() const {
  if (type_ != NpyType::f32) return Error{Status::invalid_file, name_ + ": holds int32, expected float32"};
  return std::span(reinterpret_cast<const float*>(data_.data()), data_.size() / sizeof(float));
}

Result<std::span<const int32_t>> NpyFile::ints() const {
  if (type_ != NpyType::i32) return Error{Status::invalid_file, name_ + ": holds float32, expected int32"};
  return std::span(reinterpret_cast<const int32_t*>(data_.data()), data_.size() / sizeof(int32_t));
}

}  // namespace quern::file
