// exec: runs compiled plans. The CPU runner, packed weights, pages of keys and values.
//
// Owns: Runner (a plan's steps on a Team), WeightStore (matrices in the layouts that plans chose), prepared images of
//       them (image.h, image_writer.h), KvPool and KvTable.
// Never: policy: which tokens, when, for whom.
// In -> out: Plan + RunContext -> numbers in the plan's buffers.
#pragma once
