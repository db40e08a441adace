// What `info` and `doctor -m` say of a model's size, on machines made up for it.
#include "apps/quern/fit.h"

#include <gtest/gtest.h>

namespace quern::apps {
namespace {

using model::Role;

model::Weight matrix(int64_t rows, int64_t cols, int64_t depth = 1) {
  return {"w", format::Format::f32, cols, rows, depth, nullptr};
}

// One dense layer and one of 8 experts (2 used), 1 MiB each.
model::Model mixed() {
  model::Model m;
  m.spec.n_dim = 512;
  m.spec.n_ctx_train = 1024;
  model::LayerSpec layer;
  layer.n_heads = layer.n_kv_heads = 8;
  layer.head_dim = 64;
  m.spec.layers.push_back(layer);
  layer.experts.n_experts = 8;
  layer.experts.n_used = 2;
  m.spec.layers.push_back(layer);
  m.layers.resize(2);
  m.layers[0].set(Role::ffn_up, matrix(512, 512));
  m.layers[1].set(Role::ffn_up_exps, matrix(512, 512, 8));
  return m;
}

constexpr uint64_t kMiB = 1 << 20;

Topology with_memory(uint64_t mib) {
  Topology t;
  t.memory_total = 64 * kMiB;
  t.memory_available = mib * kMiB;
  return t;
}

TEST(Fit, CountsWeightsAndKeysAndValues) {
  const Fit fit = fit_of(mixed(), with_memory(32));
  EXPECT_EQ(fit.sizes.bytes, 9 * kMiB);
  EXPECT_EQ(fit.sizes.active_bytes, 3 * kMiB);
  EXPECT_EQ(fit.sizes.expert_bytes, 8 * kMiB);
  EXPECT_EQ(fit.n_ctx, 1024);
  EXPECT_EQ(fit.kv_bytes, 4 * kMiB);  // 2 layers of 1024 tokens of 2 * 512 halves
}

TEST(Fit, VerdictsFollowTheMemory) {
  EXPECT_EQ(fit_of(mixed(), with_memory(13)).verdict, Verdict::fits);
  EXPECT_EQ(fit_of(mixed(), with_memory(12)).verdict, Verdict::experts_do_not);
  EXPECT_EQ(fit_of(mixed(), with_memory(5)).verdict, Verdict::experts_do_not);
  EXPECT_EQ(fit_of(mixed(), with_memory(4)).verdict, Verdict::does_not);
  Topology limited = with_memory(32);
  limited.memory_limit = 6 * kMiB;
  EXPECT_EQ(fit_of(mixed(), limited).verdict, Verdict::experts_do_not);
  EXPECT_EQ(fit_of(mixed(), limited).total, 6 * kMiB);
  model::Model dense = mixed();
  dense.layers.pop_back();
  dense.spec.layers.pop_back();
  EXPECT_EQ(fit_of(dense, with_memory(2)).verdict, Verdict::does_not);
}

TEST(Fit, TextAndJsonNameTheExperts) {
  const model::Model m = mixed();
  const Fit fit = fit_of(m, with_memory(12));
  std::string text;
  for (const auto& [name, value] : model_rows(m, fit)) text += name + ": " + value + "\n";
  for (const char* part : {"2.4 M, 0.8 M active", "8 in each of 1 layers, 2 used", "3.0 MiB read for a token",
                           "8.0 MiB are experts", "the experts do not fit"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  const auto j = model_json(m, fit);
  EXPECT_EQ(j["experts"]["count"], 8);
  EXPECT_EQ(j["memory"]["verdict"], "experts_do_not_fit");
  EXPECT_EQ(fit_json("a.gguf", fit)["active_bytes"], 3 * kMiB);
  model::Model dense = mixed();
  dense.layers.pop_back();
  dense.spec.layers.pop_back();
  EXPECT_TRUE(model_json(dense, fit_of(dense, with_memory(12)))["experts"].is_null());
}

}  // namespace
}  // namespace quern::apps
