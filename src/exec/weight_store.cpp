#include "exec/weight_store.h"

#include "base/check.h"
#include "exec/image_memory.h"

namespace quern::exec {

void pack_matrix(const plan::PackRequest& request, Team& team, std::byte* out) {
  const model::Weight& weight = *request.weight;
  const kernels::RepackArgs args{weight.format, weight.data, weight.rows * weight.depth, weight.cols, out};
  team.run([&](int thread) { request.kernel->fn(&args, {}, {thread, team.size(), nullptr}); });
}

Result<std::unique_ptr<WeightStore>> WeightStore::pack(const std::vector<plan::PackRequest>& requests, Team& team,
                                                       const PackProgress& progress, const SourceDone& source_done) {
  size_t total = 0;
  for (const plan::PackRequest& request : requests) total += align_up(request.bytes, kCacheLine);
  auto store = std::make_unique<WeightStore>();
  QUERN_TRY(store->memory_, Buffer::allocate(total, "packed weights"));
  size_t offset = 0;
  for (const plan::PackRequest& request : requests) {
    std::byte* out = store->memory_.data() + offset;
    pack_matrix(request, team, out);
    store->packed_[{request.weight->data, request.layout}] = out;
    offset += align_up(request.bytes, kCacheLine);
    if (source_done) source_done(*request.weight);
    if (progress) progress(offset, total);
  }
  return store;
}

// base: the image's bytes, or a copy of them in memory_.
void WeightStore::adopt(Image image, const std::vector<plan::PackRequest>& requests, const std::byte* base) {
  QUERN_CHECK(image.entries().size() == requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    packed_[{requests[i].weight->data, requests[i].layout}] = base + image.entries()[i].offset;
  }
  image_ = std::move(image);
}

std::unique_ptr<WeightStore> WeightStore::map(Image image, const std::vector<plan::PackRequest>& requests) {
  auto store = std::make_unique<WeightStore>();
  const std::byte* base = image.file().data();
  store->adopt(std::move(image), requests, base);
  return store;
}

Result<std::unique_ptr<WeightStore>> WeightStore::copy(Image image, const std::vector<plan::PackRequest>& requests,
                                                       Team& team, const PackProgress& progress) {
  auto store = std::make_unique<WeightStore>();
  QUERN_TRY(store->memory_, copy_mapping(image.file(), team, progress));
  store->adopt(std::move(image), requests, store->memory_.data());
  return store;
}

const std::byte* WeightStore::find(const model::Weight& weight, kernels::Layout layout) const {
  if (layout == kernels::Layout::disk) return weight.data;
  const auto it = packed_.find({weight.data, layout});
  QUERN_CHECK(it != packed_.end());
  return it->second;
}

}  // namespace quern::exec
