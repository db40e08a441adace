#include "exec/weight_store.h"

#include "base/check.h"

namespace quern::exec {

Result<std::unique_ptr<WeightStore>> WeightStore::pack(const std::vector<plan::PackRequest>& requests, Team& team,
                                                       const std::function<void(uint64_t, uint64_t)>& progress,
                                                       const std::function<void(const model::Weight&)>& source_done) {
  size_t total = 0;
  for (const plan::PackRequest& request : requests) total += align_up(request.bytes, kCacheLine);
  auto store = std::make_unique<WeightStore>();
  QUERN_TRY(store->memory_, Buffer::allocate(total, "packed weights"));
  size_t offset = 0;
  for (const plan::PackRequest& request : requests) {
    std::byte* out = store->memory_.data() + offset;
    const kernels::RepackArgs args{request.weight->format, request.weight->data, request.weight->rows,
                                   request.weight->cols, out};
    team.run([&](int thread) { request.kernel->fn(&args, {}, {thread, team.size(), nullptr}); });
    store->packed_[{request.weight->data, request.layout}] = out;
    offset += align_up(request.bytes, kCacheLine);
    if (source_done) source_done(*request.weight);
    if (progress) progress(offset, total);
  }
  return store;
}

const std::byte* WeightStore::find(const model::Weight& weight, kernels::Layout layout) const {
  if (layout == kernels::Layout::disk) return weight.data;
  const auto it = packed_.find({weight.data, layout});
  QUERN_CHECK(it != packed_.end());
  return it->second;
}

}  // namespace quern::exec
