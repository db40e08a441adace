// The work of each op against numbers counted by hand.
#include "measure/work.h"

#include <gtest/gtest.h>

namespace quern::measure {
namespace {

using namespace kernels;

// Rows [0, n) at positions from `first` on, of which n_out give logits.
struct Run {
  Span span;
  RunContext ctx;
  Run(int n, int first, int n_out) : span{0, n, first, nullptr} {
    ctx.n_rows = n;
    ctx.spans = &span;
    ctx.n_spans = 1;
    ctx.n_out = n_out;
  }
};

MatmulArgs matmul(format::Format format, ActivationFormat act, RowSet rows) {
  MatmulArgs a{};
  a.format = format;
  a.act = act;
  a.n_out = 32;
  a.n_in = 64;
  a.rows = rows;
  return a;
}

TEST(Work, MatmulOfBlocks) {
  const Run run(3, 0, 1);
  MatmulArgs a = matmul(format::Format::q4_0, ActivationFormat::q8_32, RowSet::tokens);
  Work w = work_of(a, run.ctx);
  EXPECT_EQ(w.weight_bytes, 32U * 2 * 18);       // two blocks of 18 bytes a row
  EXPECT_EQ(w.read_bytes, 3U * (64 + 64 + 64));  // codes, scales and sums, each padded to 64
  EXPECT_EQ(w.write_bytes, 3U * 32 * 4);
  EXPECT_EQ(w.int_macs, 3U * 32 * 64);
  EXPECT_EQ(w.float_macs, 0U);
  EXPECT_EQ(w.bytes(), 1152U + 576 + 384);
  const float some = 0;
  a.residual = a.bias = &some;
  w = work_of(a, run.ctx);
  EXPECT_EQ(w.weight_bytes, 1152U + 32 * 4);
  EXPECT_EQ(w.read_bytes, 576U + 384);
  a.rows = RowSet::outputs;
  EXPECT_EQ(work_of(a, run.ctx).int_macs, 32U * 64);
  EXPECT_EQ(work_of(a, Run(3, 0, 0).ctx).bytes(), 0U);  // no logits wanted: the head reads nothing
}

TEST(Work, MatmulOfFloatsCountsAsFloat) {
  const Work w = work_of(matmul(format::Format::f16, ActivationFormat::f32, RowSet::tokens), Run(2, 0, 1).ctx);
  EXPECT_EQ(w.weight_bytes, 32U * 64 * 2);
  EXPECT_EQ(w.read_bytes, 2U * 64 * 4);
  EXPECT_EQ(w.float_macs, 2U * 32 * 64);
  EXPECT_EQ(w.int_macs, 0U);
}

AttentionArgs attention(int window) {
  AttentionArgs a{};
  a.place = {0, 0, 0, 2, 16};  // 2 heads of keys and values, of 16
  a.n_heads = 6;
  a.window = window;
  return a;
}

TEST(Work, AttentionSeesWhatIsBefore) {
  const Work one = work_of(attention(0), Run(1, 99, 1).ctx);
  EXPECT_EQ(one.kv_bytes, 2U * 100 * 2 * 16 * 2);  // keys and values of 100 positions
  EXPECT_EQ(one.float_macs, 2U * 100 * 6 * 16);
  EXPECT_EQ(one.read_bytes, 6U * 16 * 4);
  EXPECT_EQ(one.write_bytes, 6U * 16 * 4);
  const Work prompt = work_of(attention(0), Run(4, 0, 1).ctx);
  EXPECT_EQ(prompt.kv_bytes, 2U * 4 * 2 * 16 * 2);
  EXPECT_EQ(prompt.float_macs, 2U * (1 + 2 + 3 + 4) * 6 * 16);
}

TEST(Work, AttentionWithinAWindow) {
  EXPECT_EQ(work_of(attention(8), Run(1, 99, 1).ctx).float_macs, 2U * 8 * 6 * 16);
  const Work w = work_of(attention(2), Run(3, 10, 1).ctx);  // rows see 9-10, 10-11, 11-12
  EXPECT_EQ(w.kv_bytes, 2U * 4 * 2 * 16 * 2);
  EXPECT_EQ(w.float_macs, 2U * 6 * 6 * 16);
}

TEST(Work, RowWiseOps) {
  const Run run(3, 0, 2);
  EmbedArgs embed{};
  embed.row_bytes = 36;
  embed.n_dim = 64;
  EXPECT_EQ(work_of(embed, run.ctx).bytes(), 3U * 36 + 3 * 64 * 4);
  RmsNormArgs norm{};
  norm.n_dim = 64;
  norm.rows = RowSet::outputs;
  EXPECT_EQ(work_of(norm, run.ctx).bytes(), 64U * 4 + 2 * (2 * 64 * 4));
  QuantizeArgs quantize{};
  quantize.n = 64;
  quantize.format = ActivationFormat::q8_32;
  EXPECT_EQ(work_of(quantize, run.ctx).bytes(), 3U * (64 * 4 + 192));
  AddArgs add{};
  add.n = 64;
  EXPECT_EQ(work_of(add, run.ctx).bytes(), 3U * 64 * 4 * 3);
  KvStoreArgs store{};
  store.place = {0, 0, 0, 2, 16};
  EXPECT_EQ(work_of(store, run.ctx).kv_bytes, 3U * 2 * 2 * 16 * 2);
  EXPECT_EQ(work_of(store, run.ctx).read_bytes, 3U * 2 * 2 * 16 * 4);
  RopeArgs rope{};
  rope.n_heads = 4;
  rope.head_dim = 16;
  rope.n_pairs = 4;  // half of each head turns
  EXPECT_EQ(work_of(rope, run.ctx).read_bytes, 3U * (4 * 8 * 4 + 16 * 4));
  EXPECT_EQ(work_of(rope, run.ctx).write_bytes, 3U * 4 * 8 * 4);
}

TEST(Work, Adds) {
  Work w{1, 2, 3, 4, 5, 6};
  w += Work{10, 20, 30, 40, 50, 60};
  EXPECT_EQ(w.bytes(), 11U + 22 + 33 + 44);
  EXPECT_EQ(w.int_macs, 55U);
  EXPECT_EQ(w.float_macs, 66U);
}

}  // namespace
}  // namespace quern::measure
