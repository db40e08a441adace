// Matrices in the layouts that plans chose: packed once by the team, or the file's own bytes.
#pragma once

#include <functional>
#include <map>

#include "base/arena.h"
#include "base/team.h"
#include "plan/plan.h"

namespace quern::exec {

class WeightStore : public plan::PackedWeights {
 public:
  // Packs all requests. done/total bytes go to progress (may be empty), from the calling thread. source_done is told of
  // each matrix whose own bytes are no longer needed.
  static Result<std::unique_ptr<WeightStore>> pack(const std::vector<plan::PackRequest>& requests, Team& team,
                                                   const std::function<void(uint64_t, uint64_t)>& progress,
                                                   const std::function<void(const model::Weight&)>& source_done);
  const std::byte* find(const model::Weight& weight, kernels::Layout layout) const override;
  size_t bytes() const { return memory_.size(); }

 private:
  Buffer memory_;
  std::map<std::pair<const std::byte*, kernels::Layout>, const std::byte*> packed_;
};

}  // namespace quern::exec
