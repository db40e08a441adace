// Runs a plan's steps on a team: every thread walks the steps, a barrier after each. Nothing is allocated, no clock or
// environment is read.
#pragma once

#include "base/arena.h"
#include "base/team.h"
#include "plan/plan.h"

namespace quern::exec {

class Runner {
 public:
  // scratch_bytes: the largest that any plan to be run states.
  static Result<Runner> create(Team& team, size_t scratch_bytes);
  // Requires ctx.n_rows <= plan.options.max_rows and ctx.n_out <= plan.options.max_outputs. Afterwards plan.logits
  // holds [ctx.n_out, n_vocab].
  void run(const plan::Plan& plan, const kernels::RunContext& ctx);

 private:
  Runner(Team& team, size_t scratch_bytes, Buffer scratch)
      : team_(&team), scratch_bytes_(scratch_bytes), scratch_(std::move(scratch)) {}
  Team* team_;
  size_t scratch_bytes_;
  Buffer scratch_;
};

}  // namespace quern::exec
