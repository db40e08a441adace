#include "exec/weight_store.h"

#include "base/check.h"
#include "exec/image_memory.h"

namespace quern::exec {

void pack_matrix(const plan::PackRequest& request, Team& team, std::byte* out) {
  const model::Weight& weight = *request.weight;
  const kernels::RepackArgs args{weight.format, weight.data, weight.rows, weight.cols, out};
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

std::unique_ptr<WeightStore> WeightStore::map(Image image, const std::vector<plan::PackRequest>& requests, Team& team,
                                              const PackProgress& progress) {
  QUERN_CHECK(image.entries().size() == requests.size());
  auto store = std::make_unique<WeightStore>();
  const std::byte* base = image.file().data();
  if (wants_copy(image.file())) {
    auto copy = copy_mapping(image.file(), team, progress);
    if (copy.ok()) {  // where there is no memory for one, the mapping does
      store->memory_ = *std::move(copy);
      base = store->memory_.data();
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    store->packed_[{requests[i].weight->data, requests[i].layout}] = base + image.entries()[i].offset;
  }
  store->image_ = std::move(image);
  return store;
}

const std::byte* WeightStore::find(const model::Weight& weight, kernels::Layout layout) const {
  if (layout == kernels::Layout::disk) return weight.data;
  const auto it = packed_.find({weight.data, layout});
  QUERN_CHECK(it != packed_.end());
  return it->second;
}

}  // namespace quern::exec
