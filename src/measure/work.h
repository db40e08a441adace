// What a call of a plan has to do at least: the bytes it must move and the multiply-adds it must make. Reuse within a
// call is taken as free: a matrix counts once however many rows it meets, a key once however many heads and queries.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace quern::measure {

struct Work {
  uint64_t weight_bytes = 0;  // of the matrix or vector, as stored on disk (padding of a layout not counted)
  uint64_t kv_bytes = 0;      // keys and values read or written
  uint64_t read_bytes = 0;    // activations
  uint64_t write_bytes = 0;   // activations
  uint64_t int_macs = 0;      // products of int8 codes
  uint64_t float_macs = 0;    // everything else that has a dot product

  uint64_t bytes() const { return weight_bytes + kv_bytes + read_bytes + write_bytes; }
  Work& operator+=(const Work& w);
};

// Needs ctx.n_rows, n_out, and for attention ctx.spans.
Work work_of(const kernels::OpArgs& args, const kernels::RunContext& ctx);
inline Work work_of(const plan::Call& call, const kernels::RunContext& ctx) {
  return work_of(call.args, ctx);
}

}  // namespace quern::measure
