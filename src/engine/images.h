// Prepared images, as programs handle them: making one ahead of the first run, listing and checking a folder of them.
// Using one is EngineOptions::image_dir; what an image is, exec/image.h.
#pragma once

#include "engine/engine.h"

namespace quern::engine {

struct PreparedImage {
  std::string path;  // empty: nothing of this model is packed on this instruction set, no image is needed
  uint64_t bytes = 0;
  bool was_there = false;  // and good: nothing was done
};
// Makes the image that Engine::load(model_path, options) would use, where it is not there. It goes matrix by matrix:
// memory for the largest is all that it takes. A bad image is replaced, with a warning.
Result<PreparedImage> prepare_image(const std::string& model_path, const EngineOptions& options);

struct ImageStatus {
  std::string path;
  uint64_t bytes = 0;
  std::string model;    // the path of the model file that it was made of; empty where the image is unreadable
  std::string why_not;  // empty: a load of that model with these options uses it
};
// All images of options.image_dir, by name.
std::vector<ImageStatus> list_images(const EngineOptions& options);
// Those of one model file, whether or not they still serve; only headers are read.
std::vector<PreparedImage> images_of(const std::string& model_path, const std::string& image_dir);
// Reads every byte of an image against its checksums.
Result<void> verify_image(const std::string& path, const std::function<void(uint64_t done, uint64_t total)>& progress);
// Deletes an image; engines that have it mapped keep it. An image that is gone already is no error.
Result<void> remove_image(const std::string& path);
// Deletes what writers that were ended by force left in the folder; how many files that were.
size_t remove_unfinished_images(const std::string& image_dir);

}  // namespace quern::engine
