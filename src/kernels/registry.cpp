// The visible list of all kernels, and the choice among them.
#include "kernels/registry.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/ref/ref.h"
#include "kernels/tiers.h"

namespace quern::kernels {

namespace {

#define QUERN_LIST_BY_ISA(isa, name) isa::name,
#define QUERN_GENERIC_LIST(name) QUERN_LIST_BY_ISA(generic, name)
#define QUERN_AVX2_LIST(name) QUERN_LIST_BY_ISA(avx2, name)
#define QUERN_AVX512_LIST(name) QUERN_LIST_BY_ISA(avx512, name)
#define QUERN_NEON_LIST(name) QUERN_LIST_BY_ISA(neon, name)

std::vector<Kernel> join() {
  const std::span<const Kernel> reference = ref::rows();
  std::vector<Kernel> all(reference.begin(), reference.end());
  const KernelList lists[] = {
    QUERN_TIER_FAMILIES(QUERN_GENERIC_LIST)
#if defined(__x86_64__)
        QUERN_TIER_FAMILIES(QUERN_AVX2_LIST) QUERN_TIER_FAMILIES(QUERN_AVX512_LIST)
#elif defined(__aarch64__)
        QUERN_TIER_FAMILIES(QUERN_NEON_LIST)
#endif
  };
  for (const KernelList& list : lists) all.insert(all.end(), list.rows, list.rows + list.n);
  return all;
}

}  // namespace

std::span<const Kernel> all_kernels() {
  static const std::vector<Kernel> kernels = join();
  return kernels;
}

namespace {

bool serves(const Kernel& kernel, const Query& query, uint32_t isa_mask) {
  return kernel.key.op == query.op && kernel.key.weight == query.weight && kernel.key.act == query.act &&
         kernel.key.layout == query.layout && (kernel.key.row_classes & class_bit(query.row_class)) != 0 &&
         ((isa_mask >> static_cast<int>(kernel.isa)) & 1) != 0 && (kernel.fits == nullptr || kernel.fits(query.shape));
}

}  // namespace

const Kernel* find_kernel(const Query& query, uint32_t isa_mask) {
  const Kernel* best = nullptr;
  for (const Kernel& kernel : all_kernels()) {
    if (serves(kernel, query, isa_mask) && (best == nullptr || kernel.priority > best->priority)) best = &kernel;
  }
  return best;
}

std::vector<const Kernel*> kernel_candidates(const Query& query, uint32_t isa_mask) {
  std::vector<const Kernel*> found;
  const Kernel* best = find_kernel(query, isa_mask);
  for (const Kernel& kernel : all_kernels()) {
    const bool takes_part = &kernel == best || kernel.priority > 0;
    if (takes_part && serves(kernel, query, isa_mask)) found.push_back(&kernel);
  }
  std::stable_sort(found.begin(), found.end(), [&](const Kernel* a, const Kernel* b) {
    return a == best ? b != best : b != best && a->priority > b->priority;
  });
  return found;
}

MatmulChoice choose_matmul(format::Format weight, const Shape& shape, uint32_t isa_mask) {
  MatmulChoice choice{Layout::disk, format::activation_for(weight)};
  int best = -1;
  for (const Layout layout : {Layout::disk, Layout::x16}) {
    int total = 0;
    bool complete = true;
    for (int c = 0; c < kRowClassCount; ++c) {
      const auto row_class = static_cast<RowClass>(c);
      const ActivationFormat act = act_for(choice.act, row_class);
      const Kernel* kernel = find_kernel({Op::matmul, weight, act, layout, row_class, shape}, isa_mask);
      complete = complete && kernel != nullptr;
      total += kernel != nullptr ? kernel->priority : 0;
    }
    if (complete && total > best) {
      best = total;
      choice.layout = layout;
    }
  }
  QUERN_CHECK(best >= 0);
  return choice;
}

const char* op_name(Op op) {
  static constexpr const char* kNames[kOpCount] = {"embed",           "rope_table",
                                                   "rms_norm",        "quantize",
                                                   "matmul",          "gated_matmul",
                                                   "route",           "read_ahead",
                                                   "bucket",          "gather",
                                                   "expert_matmul",   "expert_gated",
                                                   "expert_sum",      "combine",
                                                   "row_gate",        "add",
                                                   "head_norm",       "rope",
                                                   "temperature",     "kv_store",
                                                   "attention",       "attention_parts",
                                                   "attention_merge", "act_mul",
                                                   "softcap",         "repack"};
  return kNames[static_cast<int>(op)];
}

const char* layout_name(Layout layout) {
  return layout == Layout::disk ? "disk" : "x16";
}

const char* act_format_name(ActivationFormat format) {
  static constexpr const char* kNames[] = {"f32",    "q8_32",   "q8_256",   "q8_32x2",  "q8_256x2",
                                           "q8_32t", "q8_256t", "q8_32x2t", "q8_256x2t"};
  return kNames[static_cast<int>(format)];
}

const char* row_class_name(RowClass row_class) {
  static constexpr const char* kNames[kRowClassCount] = {"decode", "few", "prefill"};
  return kNames[static_cast<int>(row_class)];
}

}  // namespace quern::kernels
