// Choices: exact lookup, refusal of what does not answer a query, and what counts as a candidate.
#include "kernels/choices.h"

#include "fixture.h"

namespace quern::kernels {
namespace {

Query q8_decode() {
  return {Op::matmul, format::Format::q8_0, ActivationFormat::q8_32, Layout::x16, RowClass::decode, {64, 96}};
}

TEST(Choices, OnlyTheExactQueryFindsItsKernel) {
  const auto choices = Choices::create({{q8_decode(), "generic.direct_q8_0"}}, detect_cpu().isa_mask);
  ASSERT_TRUE(choices.ok()) << choices.error().message;
  const Kernel* found = choices->find(q8_decode());
  ASSERT_NE(found, nullptr);
  EXPECT_STREQ(found->name, "generic.direct_q8_0");
  Query other = q8_decode();
  other.shape.n_out = 65;
  EXPECT_EQ(choices->find(other), nullptr);
  other = q8_decode();
  other.row_class = RowClass::few;
  EXPECT_EQ(choices->find(other), nullptr);
  other = q8_decode();
  other.act = ActivationFormat::q8_32x2;
  EXPECT_EQ(choices->find(other), nullptr);
}

TEST(Choices, WithoutAChoicePriorityDecides) {
  const uint32_t mask = detect_cpu().isa_mask;
  const auto choices = Choices::create({{q8_decode(), "generic.direct_q8_0"}}, mask);
  ASSERT_TRUE(choices.ok());
  EXPECT_STREQ(find_kernel(q8_decode(), mask, &*choices)->name, "generic.direct_q8_0");
  EXPECT_EQ(find_kernel(q8_decode(), mask, nullptr), find_kernel(q8_decode(), mask));
  Query few = q8_decode();
  few.row_class = RowClass::few;
  EXPECT_EQ(find_kernel(few, mask, &*choices), find_kernel(few, mask));
}

TEST(Choices, WhatDoesNotAnswerIsRefusedByName) {
  const uint32_t mask = detect_cpu().isa_mask;
  for (const char* name : {"generic.no_such_kernel", "generic.direct_q4_0", "generic.rms_norm", ""}) {
    const auto choices = Choices::create({{q8_decode(), name}}, mask);
    ASSERT_FALSE(choices.ok()) << name;
    EXPECT_EQ(choices.error().status, Status::not_found);
    EXPECT_NE(choices.error().message.find(std::string("'") + name + "'"), std::string::npos);
    EXPECT_NE(choices.error().message.find("matmul Q8_0 x q8_32, x16, decode, [64 x 96]"), std::string::npos)
        << choices.error().message;
  }
  // A tier outside the mask.
  EXPECT_FALSE(Choices::create({{q8_decode(), "avx2.direct_q8_0"}}, 1U << static_cast<int>(Isa::generic)).ok());
}

TEST(Choices, CandidatesBeginWithTheDefaultAndHoldNoReference) {
  const uint32_t mask = detect_cpu().isa_mask;
  int queries = 0, rivals = 0;
  for (const Kernel& kernel : all_kernels()) {
    if (kernel.key.op == Op::repack) continue;
    for (int c = 0; c < kRowClassCount; ++c) {
      const Query query{kernel.key.op,     kernel.key.weight,        kernel.key.act,
                        kernel.key.layout, static_cast<RowClass>(c), {2, 256}};
      const Kernel* first = find_kernel(query, mask);
      if (first == nullptr) continue;
      ++queries;
      const auto candidates = kernel_candidates(query, mask);
      ASSERT_FALSE(candidates.empty());
      EXPECT_EQ(candidates[0], first);
      rivals += static_cast<int>(candidates.size()) - 1;
      for (const Kernel* k : candidates) {
        EXPECT_TRUE(k == first || k->priority > 0) << k->name;
        EXPECT_EQ(k->key.act, query.act);
        EXPECT_EQ(k->key.layout, query.layout);
      }
    }
  }
  EXPECT_GT(queries, 100);
  EXPECT_GT(rivals, queries / 4);  // portable code beside the tier, where a vector kernel serves the op
}

TEST(Choices, NamesReadBack) {
  for (int i = 0; i < kOpCount; ++i) EXPECT_EQ(*parse_op(op_name(static_cast<Op>(i))), static_cast<Op>(i));
  for (int i = 0; i < format::kFormatCount; ++i) {
    const auto f = static_cast<format::Format>(i);
    EXPECT_EQ(*parse_weight_format(format::format_info(f).name), f);
  }
  for (int i = 0; i < kActFormatCount; ++i) {
    const auto f = static_cast<ActivationFormat>(i);
    EXPECT_EQ(*parse_act_format(act_format_name(f)), f);
  }
  for (int i = 0; i < kLayoutCount; ++i)
    EXPECT_EQ(*parse_layout(layout_name(static_cast<Layout>(i))), static_cast<Layout>(i));
  for (int i = 0; i < kRowClassCount; ++i)
    EXPECT_EQ(*parse_row_class(row_class_name(static_cast<RowClass>(i))), static_cast<RowClass>(i));
  EXPECT_FALSE(parse_op("matmuls").ok());
  EXPECT_FALSE(parse_weight_format("").ok());
}

}  // namespace
}  // namespace quern::kernels
