#include "engine/images.h"

#include <algorithm>
#include <filesystem>
#include <new>

#include "base/log.h"
#include "base/progress.h"
#include "base/topology.h"
#include "engine/state.h"
#include "exec/image_memory.h"

namespace quern::engine {
namespace {

namespace fs = std::filesystem;

// What decides which image a model file wants.
struct Wanted {
  file::GgufFile file;
  std::unique_ptr<model::Model> model;
  std::vector<plan::PackRequest> requests;
  exec::ImageKey key;
};

Result<Wanted> wanted_of(const std::string& model_path, const EngineOptions& options) {
  QUERN_TRY(file::GgufFile file, file::GgufFile::open(model_path));
  Wanted wanted{std::move(file), nullptr, {}, {}};
  Isa isa{};
  QUERN_TRY(const uint32_t isa_mask, choose_isa(options.isa, &isa));
  QUERN_TRY(wanted.model, model::load_model(wanted.file, options.n_ctx));
  wanted.requests = plan::pack_requests(*wanted.model, isa_mask);
  QUERN_TRY(wanted.key, exec::image_key(wanted.file, wanted.requests));
  return wanted;
}

// The image at path, if it serves. One that does not is removed, with a warning that says why; then, and where there is
// none, the result is empty.
std::optional<exec::Image> open_good(const std::string& path, const file::GgufFile& file, const exec::ImageKey& key,
                                     const std::vector<plan::PackRequest>& requests) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  Result<exec::Image> image = exec::Image::open(path);
  Result<void> serves;
  if (image.ok()) serves = image->check_serves(file, key, requests);
  if (image.ok() && serves.ok()) return std::move(*image);
  const Error& error = image.ok() ? serves.error() : image.error();
  if (error.status == Status::not_found) return std::nullopt;
  log_warning(error.message + " (prepared image; it is made anew)");
  (void)remove_image(path);  // where that fails, replacing it will do or say why not
  return std::nullopt;
}

std::string image_path(const EngineOptions& options, const exec::ImageKey& key) {
  return (fs::path(options.image_dir) / key.file_name()).string();
}

// Sorted.
std::vector<std::string> image_paths(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".quern") paths.push_back(it->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Bytes that weights may take in memory.
uint64_t room_for_weights(const EngineOptions& options) {
  return options.memory_bytes > 0 ? options.memory_bytes : exec::weight_room(exec::available_memory());
}

Result<void> adopt_image(Engine::State& s, const EngineOptions& options, exec::Image image,
                         const std::vector<plan::PackRequest>& requests) {
  s.read_ahead = image.bytes() > room_for_weights(options);
  if (options.image_mode == ImageMode::map || s.read_ahead) {
    s.weights = exec::WeightStore::map(std::move(image), requests);
    return {};
  }
  QUERN_TRY(s.weights, exec::WeightStore::copy(std::move(image), requests, *s.team, options.progress));
  return {};
}

// The image of a model whose packed weights do not fit into memory: written first, a matrix at a time, then mapped.
Result<void> run_from_image(Engine::State& s, const EngineOptions& options, const exec::ImageKey& key,
                            const std::vector<plan::PackRequest>& requests, uint64_t bytes,
                            const exec::SourceDone& source_done) {
  const std::string path = image_path(options, key);
  log_warning(s.file.path() + ": weights of " + human_bytes(bytes) +
              " do not fit into memory; writing a prepared image to run from: " + path);
  QUERN_TRY_VOID(exec::build_image(path, s.file, key, requests, *s.team, options.progress, source_done));
  QUERN_TRY(exec::Image image, exec::Image::open(path));
  QUERN_TRY_VOID(image.check_serves(s.file, key, requests));
  return adopt_image(s, options, std::move(image), requests);
}

ImageStatus status_of(const std::string& path, const EngineOptions& options) {
  ImageStatus status{path, 0, "", ""};
  std::error_code ignored;
  status.bytes = fs::file_size(path, ignored);
  const auto image = exec::Image::open(path);
  if (!image.ok()) {
    status.bytes = ignored ? 0 : status.bytes;
    status.why_not = image.error().message;
    return status;
  }
  status.model = image->source();
  const auto wanted = wanted_of(status.model, options);
  if (!wanted.ok()) {
    status.why_not = wanted.error().message;
  } else if (const auto serves = image->check_serves(wanted->file, wanted->key, wanted->requests); !serves.ok()) {
    status.why_not = serves.error().message;
  } else if (fs::path(path).filename() != wanted->key.file_name()) {
    status.why_not = path + ": not under its own name, " + wanted->key.file_name();
  }
  return status;
}

}  // namespace

Result<void> load_weights(Engine::State& s, const EngineOptions& options, uint32_t isa_mask) {
  const std::vector<plan::PackRequest> requests = plan::pack_requests(*s.model, isa_mask);
  bool use_image = !options.image_dir.empty() && options.image_mode != ImageMode::off && !requests.empty();
  exec::ImageKey key;
  std::string path;
  if (use_image) {
    auto found = exec::image_key(s.file, requests);
    use_image = found.ok();
    if (found.ok())
      key = *std::move(found);
    else
      log_warning(found.error().message + " (no prepared image is used)");
  }
  if (use_image) {
    path = image_path(options, key);
    if (auto image = open_good(path, s.file, key, requests)) {
      return adopt_image(s, options, std::move(*image), requests);
    }
  }
  const model::Weight* embd = s.model->globals.get(model::Role::token_embd);
  const auto source_done = [&](const model::Weight& weight) {
    const file::Tensor* tensor = s.file.find_tensor(weight.name);
    if (&weight != embd && tensor != nullptr) s.file.release(*tensor);
  };
  uint64_t bytes = 0;
  for (const plan::PackRequest& request : requests) bytes += request.bytes;
  if (const uint64_t room = room_for_weights(options); bytes > room) {
    if (use_image) return run_from_image(s, options, key, requests, bytes, source_done);
    return Error{Status::out_of_memory, s.file.path() + ": its weights take " + human_bytes(bytes) +
                                            ", more than memory has room for (" + human_bytes(room) +
                                            "); with prepared images (--image auto) it runs from disk"};
  }
  QUERN_TRY(s.weights, exec::WeightStore::pack(requests, *s.team, options.progress, source_done));
  if (use_image) {
    s.image_saver = std::make_unique<exec::ImageSaver>(path, s.file, std::move(key), requests, *s.weights);
  }
  return {};
}

Result<PreparedImage> prepare_image(const std::string& model_path, const EngineOptions& options) {
  try {
    if (options.image_dir.empty()) return Error{Status::invalid_argument, "no folder for prepared images"};
    QUERN_TRY(const Wanted wanted, wanted_of(model_path, options));
    if (wanted.requests.empty()) return PreparedImage{};
    PreparedImage result{image_path(options, wanted.key), 0, false};
    if (const auto image = open_good(result.path, wanted.file, wanted.key, wanted.requests)) {
      result.bytes = image->bytes();
      result.was_there = true;
      return result;
    }
    Team team(options.n_threads > 0 ? options.n_threads : default_threads(detect_topology()));
    const auto source_done = [&](const model::Weight& weight) {
      const file::Tensor* tensor = wanted.file.find_tensor(weight.name);
      if (tensor != nullptr) wanted.file.release(*tensor);
    };
    QUERN_TRY_VOID(
        exec::build_image(result.path, wanted.file, wanted.key, wanted.requests, team, options.progress, source_done));
    std::error_code ignored;
    result.bytes = fs::file_size(result.path, ignored);
    return result;
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, model_path + ": not enough memory to prepare"};
  }
}

std::vector<ImageStatus> list_images(const EngineOptions& options) {
  std::vector<ImageStatus> all;
  for (const std::string& path : image_paths(options.image_dir)) all.push_back(status_of(path, options));
  return all;
}

std::vector<PreparedImage> images_of(const std::string& model_path, const std::string& image_dir) {
  const std::string source = exec::image_source(model_path);
  std::vector<PreparedImage> found;
  for (const std::string& path : image_paths(image_dir)) {
    const auto image = exec::Image::open(path);
    if (image.ok() && image->source() == source) found.push_back({path, image->bytes(), true});
  }
  return found;
}

Result<void> verify_image(const std::string& path, const std::function<void(uint64_t, uint64_t)>& progress) {
  QUERN_TRY(const exec::Image image, exec::Image::open(path));
  return image.verify(progress);
}

Result<void> remove_image(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) return Error{Status::io_error, path + ": cannot remove: " + error.message()};
  return {};
}

size_t remove_unfinished_images(const std::string& image_dir) {
  return exec::remove_abandoned(image_dir, "").removed;
}

}  // namespace quern::engine
