// info: what a GGUF file holds, and what of it Quern supports.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/quern/fit.h"
#include "apps/quern/session_options.h"
#include "apps/quern/support.h"
#include "base/progress.h"
#include "engine/images.h"
#include "file/gguf.h"

namespace quern::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kArrayShown = 8;   // elements of an array, without --full
constexpr size_t kStringShown = 120;  // bytes of a string in the text form, without --full

struct FormatTotal {
  uint64_t tensors = 0, bytes = 0, weights = 0;
  bool read = false;
};

std::map<std::string, FormatTotal> totals_by_format(const file::GgufFile& file) {
  std::map<std::string, FormatTotal> totals;
  for (const file::Tensor& tensor : file.tensors()) {
    FormatTotal& total = totals[tensor.type_name()];
    ++total.tensors;
    total.bytes += tensor.bytes;
    total.weights += tensor.elements;
    total.read = tensor.format.has_value();
  }
  return totals;
}

// JSON has no infinities; they become strings.
Json real_json(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

// Nesting is bounded by the parser (file::kMaxArrayDepth).
Json value_json(const file::Value& value, bool full) {
  using file::ValueType;
  switch (value.type()) {
    case ValueType::f32:  // the shortest decimal that gives the float back, not the double's digits
      return real_json(std::strtod(fmt::format("{}", value.as<float>().value_or(0)).c_str(), nullptr));
    case ValueType::f64:
      return real_json(value.as<double>().value_or(0));
    case ValueType::boolean:
      return value.as<bool>().value_or(false);
    case ValueType::string:
      return std::string(value.as<std::string_view>().value_or(""));
    case ValueType::u64:
      return value.as<uint64_t>().value_or(0);
    case ValueType::array: {
      Json list = Json::array();
      for (const file::Value element : value.elements()) {
        if (!full && list.size() == kArrayShown) break;
        list.push_back(value_json(element, full));
      }
      if (full || value.size() <= kArrayShown) return list;
      return {{"type", value.type_text()}, {"size", value.size()}, {"first", list}};
    }
    default:
      return value.as<int64_t>().value_or(0);
  }
}

// Bytes of the file that are not UTF-8 are replaced, since JSON and terminals cannot carry them.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string value_text(const file::Value& value, bool full) {
  if (value.is_array()) {
    std::string text = fmt::format("[{}]", value.type_text().substr(9));  // after "array of "
    text.insert(text.size() - 1, fmt::format(" x {}", value.size()));
    Json list = Json::array();
    for (const file::Value element : value.elements()) {
      if (!full && list.size() == kArrayShown) break;
      list.push_back(value_json(element, full));
    }
    const bool cut = list.size() < value.size();
    std::string elements = dump(list, -1);
    if (cut) elements.insert(elements.size() - 1, ",...");
    return text + " " + elements;
  }
  std::string text = dump(value_json(value, full), -1);
  if (!full && text.size() > kStringShown) {
    size_t end = kStringShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
    text = fmt::format("{}... ({} bytes)", text.substr(0, end), value.as<std::string_view>().value_or("").size());
  }
  return text;
}

std::vector<uint64_t> shape_of(const file::Tensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims};
}

std::string shape_text(const file::Tensor& tensor) {
  std::string text;
  for (const uint64_t n : shape_of(tensor)) text += fmt::format("{}{}", text.empty() ? "" : " x ", n);
  return text;
}

using Images = std::vector<engine::PreparedImage>;
using Loaded = Result<std::unique_ptr<model::Model>>;

std::string as_json(const file::GgufFile& file, const Loaded& model, const Images& images, bool full) {
  Json j;
  j["files"] = file.shard_paths();
  j["version"] = file.version();
  j["bytes"] = file.bytes();
  j["alignment"] = file.alignment();
  j["images"] = Json::array();
  for (const engine::PreparedImage& image : images)
    j["images"].push_back({{"path", image.path}, {"bytes", image.bytes}});
  for (const SupportRow& row : check_support(file, model))
    j["support"].push_back({{"part", row.part}, {"name", row.name}, {"ok", row.ok}, {"why_not", row.why_not}});
  j["model"] = nullptr;
  if (model.ok()) j["model"] = model_json(**model, fit_of(**model, detect_topology()));
  j["metadata"] = Json::object();
  for (const file::MetaEntry& entry : file.metadata().entries())
    j["metadata"][std::string(entry.key)] = value_json(entry.value, full);
  j["formats"] = Json::object();
  for (const auto& [name, total] : totals_by_format(file)) {
    j["formats"][name] = {
        {"tensors", total.tensors}, {"weights", total.weights}, {"bytes", total.bytes}, {"supported", total.read}};
  }
  j["tensors"] = Json::array();
  for (const file::Tensor& tensor : file.tensors()) {
    j["tensors"].push_back({{"name", std::string(tensor.name)},
                            {"shape", shape_of(tensor)},
                            {"format", tensor.type_name()},
                            {"bytes", tensor.bytes},
                            {"shard", tensor.shard},
                            {"offset", tensor.file_offset}});
  }
  return dump(j, 2) + "\n";
}

std::string printable(std::string_view text) {
  const std::string quoted = dump(Json(std::string(text)), -1);
  return quoted.substr(1, quoted.size() - 2);
}

std::string as_text(const file::GgufFile& file, const Loaded& model, const Images& images, bool full) {
  std::string text;
  for (const std::string& path : file.shard_paths()) text += fmt::format("file        {}\n", path);
  text += fmt::format("version     GGUF {}, {} bytes ({}), alignment {}\n", file.version(), file.bytes(),
                      human_bytes(file.bytes()), file.alignment());
  for (const engine::PreparedImage& image : images)
    text += fmt::format("image       {} ({})\n", image.path, human_bytes(image.bytes));
  text += "\nsupport\n";
  for (const SupportRow& row : check_support(file, model)) {
    text += fmt::format("  {:<14} {:<16} {}\n", row.part, printable(row.name),
                        row.ok ? "yes" : "no: " + printable(row.why_not));
  }
  if (model.ok()) {
    text += "\nmodel\n";
    for (const auto& [name, value] : model_rows(**model, fit_of(**model, detect_topology())))
      text += fmt::format("  {:<14} {}\n", name, value);
  }
  text += fmt::format("\nmetadata ({})\n", file.metadata().entries().size());
  for (const file::MetaEntry& entry : file.metadata().entries())
    text += fmt::format("  {:<42} {}\n", printable(entry.key), value_text(entry.value, full));
  text += "\nformats\n";
  for (const auto& [name, total] : totals_by_format(file)) {
    text += fmt::format("  {:<8} {:>5} tensors {:>14} weights {:>14} bytes{}\n", name, total.tensors, total.weights,
                        total.bytes, total.read ? "" : "  not supported");
  }
  text += fmt::format("\ntensors ({})\n", file.tensors().size());
  for (const file::Tensor& tensor : file.tensors()) {
    text += fmt::format("  {:<34} {:>20} {:<8} {:>12} bytes at {}{}\n", printable(tensor.name), shape_text(tensor),
                        tensor.type_name(), tensor.bytes, tensor.file_offset,
                        file.shard_paths().size() > 1 ? fmt::format(" of shard {}", tensor.shard + 1) : "");
  }
  return text;
}

}  // namespace

int run_info(Context& context) {
  const auto& args = context.options.positionals();
  const std::string& name = args.empty() ? context.options.text("model") : args[0];
  const auto path = find_model(context, name);
  if (!path.ok()) return context.fail(path.error());
  const auto file = file::GgufFile::open(*path);
  if (!file.ok()) return context.fail(file.error());
  const bool full = context.options.flag("full");
  const Images images = engine::images_of(*path, image_directory(context.options.text("cache")));
  const Loaded model = model::load_model(*file, 0);
  context.out.write(context.options.flag("json") ? as_json(*file, model, images, full)
                                                 : as_text(*file, model, images, full));
  return 0;
}

}  // namespace quern::apps
