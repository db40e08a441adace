// The registry as a whole: ref answers everything, names are unique, choices prefer the better tier.
#include <set>

#include "fixture.h"

namespace quern::kernels {
namespace {

constexpr uint32_t kGenericOnly = 1;

TEST(Registry, RefAnswersEveryKey) {
  for (int c = 0; c < kRowClassCount; ++c) {
    const auto row_class = static_cast<RowClass>(c);
    for (const Op op : {Op::rope_table, Op::rms_norm, Op::add, Op::head_norm, Op::rope, Op::kv_store, Op::attention,
                        Op::attention_parts, Op::attention_merge, Op::act_mul, Op::softcap, Op::route, Op::bucket,
                        Op::combine, Op::row_gate, Op::temperature}) {
      EXPECT_NE(find_kernel({.op = op, .row_class = row_class, .shape = {1, 2}}, kGenericOnly), nullptr) << op_name(op);
    }
    for (int i = 0; i < format::kFormatCount; ++i) {
      const auto f = static_cast<format::Format>(i);
      EXPECT_NE(find_kernel({.op = Op::embed, .weight = f, .row_class = row_class}, kGenericOnly), nullptr);
      EXPECT_NE(find_kernel({Op::matmul, f, format::activation_for(f), Layout::disk, row_class, {}}, kGenericOnly),
                nullptr);
    }
  }
}

TEST(Registry, EveryTierServesEveryWeightFormatInX16) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::neon}) {
    bool built = false;
    for (const Kernel& kernel : all_kernels()) built = built || (kernel.isa == isa && kernel.priority > 0);
    if (!built) continue;
    for (int i = 0; i < format::kFormatCount; ++i) {
      const auto f = static_cast<format::Format>(i);
      for (int c = 0; c < kRowClassCount; ++c) {
        const auto row_class = static_cast<RowClass>(c);
        const ActivationFormat act = act_for(format::activation_for(f), row_class);
        const Kernel* kernel =
            find_kernel({Op::matmul, f, act, Layout::x16, row_class, {64, 256}}, 1U << static_cast<int>(isa));
        ASSERT_NE(kernel, nullptr) << isa_name(isa) << " " << format::format_info(f).name;
        EXPECT_EQ(kernel->isa, isa);
      }
      EXPECT_EQ(choose_matmul(f, {64, 256}, 1U << static_cast<int>(isa) | kGenericOnly).layout, Layout::x16);
    }
  }
}

TEST(Registry, NamesWithTheirKeysAreUnique) {
  std::set<std::string> seen;
  for (const Kernel& k : all_kernels()) {
    const std::string id = std::string(k.name) + " " + op_name(k.key.op) + " " +
                           format::format_info(k.key.weight).name + " " + act_format_name(k.key.act);
    EXPECT_TRUE(seen.insert(id).second) << id;
  }
}

TEST(Registry, WithoutATierNoneOfItsRowsIsChosen) {
  const Kernel* kernel = find_kernel({.op = Op::rms_norm}, kGenericOnly);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->isa, Isa::generic);
  EXPECT_EQ(
      find_kernel({Op::matmul, format::Format::q4_0, ActivationFormat::f32, Layout::disk, RowClass::decode, {}}, ~0U),
      nullptr);
}

}  // namespace
}  // namespace quern::kernels
