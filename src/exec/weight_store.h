// Matrices in the layouts that plans chose: packed by the team, mapped from a prepared image, or the file's own bytes.
#pragma once

#include <functional>
#include <map>

#include "base/arena.h"
#include "base/team.h"
#include "exec/image.h"
#include "plan/plan.h"

namespace quern::exec {

using PackProgress = std::function<void(uint64_t done, uint64_t total)>;  // bytes; from the calling thread
using SourceDone = std::function<void(const model::Weight&)>;             // its bytes as stored are no longer needed

// The team packs one matrix into out, [request.bytes].
void pack_matrix(const plan::PackRequest& request, Team& team, std::byte* out);

class WeightStore : public plan::PackedWeights {
 public:
  // Packs all requests into memory. The functions may be empty.
  static Result<std::unique_ptr<WeightStore>> pack(const std::vector<plan::PackRequest>& requests, Team& team,
                                                   const PackProgress& progress, const SourceDone& source_done);
  // The planes of an image that serves these requests (Image::check_serves): as they are mapped.
  static std::unique_ptr<WeightStore> map(Image image, const std::vector<plan::PackRequest>& requests);
  // The same, copied into memory, from which they are read faster.
  static Result<std::unique_ptr<WeightStore>> copy(Image image, const std::vector<plan::PackRequest>& requests,
                                                   Team& team, const PackProgress& progress);

  const std::byte* find(const model::Weight& weight, kernels::Layout layout) const override;
  bool from_image() const { return !image_.entries().empty(); }
  bool is_mapped() const { return from_image() && memory_.size() == 0; }

 private:
  void adopt(Image image, const std::vector<plan::PackRequest>& requests, const std::byte* base);

  Buffer memory_;
  Image image_;
  std::map<std::pair<const std::byte*, kernels::Layout>, const std::byte*> packed_;
};

}  // namespace quern::exec
