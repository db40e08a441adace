// ref: every op in plain scalar code, the oracle that all other kernels are tested against, and the fallback that
// always answers. Written for reading: one loop nest per op, in the order that docs/NUMERICS.md prescribes.
#pragma once

#include <span>

#include "kernels/registry.h"

namespace quern::kernels::ref {

std::span<const Kernel> rows();

// The canonical sum: element i goes to partial i mod 16, ascending; then partials i and i + 8, i + 4, i + 2, i + 1.
float fold_partials(const float* partial /*[16]*/);

// Kernels by op; registered by rows().
void embed(const EmbedArgs&, const RunContext&, const Worker&);
void rope_table(const RopeTableArgs&, const RunContext&, const Worker&);
void rms_norm(const RmsNormArgs&, const RunContext&, const Worker&);
void quantize(const QuantizeArgs&, const RunContext&, const Worker&);
void matmul(const MatmulArgs&, const RunContext&, const Worker&);
void gated_matmul(const GatedMatmulArgs&, const RunContext&, const Worker&);
void route(const RouteArgs&, const RunContext&, const Worker&);
void read_ahead(const ReadAheadArgs&, const RunContext&, const Worker&);
void bucket(const BucketArgs&, const RunContext&, const Worker&);
void gather(const GatherArgs&, const RunContext&, const Worker&);
void expert_matmul(const ExpertMatmulArgs&, const RunContext&, const Worker&);
void expert_gated(const ExpertGatedArgs&, const RunContext&, const Worker&);
void expert_sum(const ExpertSumArgs&, const RunContext&, const Worker&);
void combine(const CombineArgs&, const RunContext&, const Worker&);
void row_gate(const RowGateArgs&, const RunContext&, const Worker&);
void add(const AddArgs&, const RunContext&, const Worker&);
void head_norm(const HeadNormArgs&, const RunContext&, const Worker&);
void rope(const RopeArgs&, const RunContext&, const Worker&);
void temperature(const TemperatureArgs&, const RunContext&, const Worker&);
void kv_store(const KvStoreArgs&, const RunContext&, const Worker&);
void attention(const AttentionArgs&, const RunContext&, const Worker&);
void attention_parts(const AttentionPartsArgs&, const RunContext&, const Worker&);
void attention_merge(const AttentionMergeArgs&, const RunContext&, const Worker&);
void act_mul(const ActMulArgs&, const RunContext&, const Worker&);
void softcap(const SoftcapArgs&, const RunContext&, const Worker&);
void repack_x16(const RepackArgs&, const RunContext&, const Worker&);

}  // namespace quern::kernels::ref
