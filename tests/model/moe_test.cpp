// Networks with experts: what their rows make of a file, and how senseless numbers are refused by name. Each refusal
// changes one thing of a file that loads.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/model.h"
#include "moe_file.h"

namespace quern::model {
namespace {

using namespace testing;
using file::GgufFile;

void expect_refused(const ModelFile& made, Status status, const std::vector<std::string>& parts) {
  const auto file = GgufFile::open(made.write());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto model = load_model(*file, 0);
  ASSERT_FALSE(model.ok()) << "loads; expected an error with " << parts.front();
  EXPECT_EQ(model.error().status, status) << model.error().message;
  EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
  for (const std::string& part : parts)
    EXPECT_NE(model.error().message.find(part), std::string::npos) << part << " in: " << model.error().message;
}

TEST(GptOss, EveryLayerHasExpertsAndEverySecondAWindow) {
  const Loaded m = load(gpt_oss());
  ASSERT_EQ(m.spec().layers.size(), kLayers);
  ExpertSpec expected;
  expected.n_experts = 8;
  expected.n_used = 2;
  expected.n_ff = 16;
  expected.gating = Gating::softmax_chosen;
  for (size_t i = 0; i < kLayers; ++i) {
    EXPECT_EQ(m.layer(i).window, i % 2 == 0 ? 128 : 0) << i;
    EXPECT_EQ(m.layer(i).experts, expected) << i;
    EXPECT_EQ(m.layer(i).activation, Activation::swiglu_oai);
    EXPECT_EQ(m.layer(i).n_ff, 0);
    EXPECT_EQ(m.layer(i).rope.kind, RopeKind::neox);
    EXPECT_NE(m.weight(i, Role::attn_sinks), nullptr);
    EXPECT_EQ(m.weight(i, Role::attn_sinks)->cols, static_cast<int64_t>(kHeads));
    ASSERT_NE(m.weight(i, Role::ffn_norm), nullptr);
    EXPECT_EQ(m.weight(i, Role::ffn_norm)->name, block(i) + "post_attention_norm.weight");
    EXPECT_EQ(m.weight(i, Role::attn_post_norm), nullptr);
    EXPECT_EQ(m.weight(i, Role::ffn_gate), nullptr);
  }
  EXPECT_TRUE(m.model->unused_tensors.empty()) << m.model->unused_tensors.front();
}

TEST(GptOss, StacksHaveAMatrixPerExpertAndBiasesARow) {
  const Loaded m = load(gpt_oss());
  const Weight& gate = *m.weight(1, Role::ffn_gate_exps);
  EXPECT_EQ(gate.cols, 32);
  EXPECT_EQ(gate.rows, 16);
  EXPECT_EQ(gate.depth, 8);
  EXPECT_EQ(gate.bytes(), 32U * 16 * 8 * sizeof(float));
  // The third expert's second row begins behind two whole matrices and a row.
  EXPECT_EQ(reinterpret_cast<const float*>(gate.data)[(2 * 16 + 1) * 32], (2 * 16 + 1) * 32.0F);
  const Weight& down = *m.weight(1, Role::ffn_down_exps);
  EXPECT_EQ(std::make_tuple(down.cols, down.rows, down.depth), std::make_tuple(16, 32, 8));
  const Weight& bias = *m.weight(1, Role::ffn_down_exps_bias);
  EXPECT_EQ(std::make_tuple(bias.cols, bias.rows, bias.depth), std::make_tuple(32, 8, 1));
  EXPECT_EQ(bias.f32()[5 * 32 + 3], 5 * 32 + 3.0F);
  const Weight& router_bias = *m.weight(1, Role::ffn_gate_inp_bias);
  EXPECT_EQ(std::make_tuple(router_bias.cols, router_bias.rows), std::make_tuple(8, 1));
}

TEST(GptOss, StackedBiasesInOtherFormatsAreWidened) {
  const Loaded m = load(gpt_oss().tensor("blk.1.ffn_up_exps.bias", {kFfExpert, kExperts}, kF16));
  const Weight& bias = *m.weight(1, Role::ffn_up_exps_bias);
  EXPECT_EQ(bias.format, format::Format::f32);
  EXPECT_EQ(bias.bytes(), 16U * 8 * sizeof(float));
  EXPECT_EQ(bias.f32()[16 * 8 - 1], 0.0F);
  // Matrices are not: the router keeps its format.
  const Loaded f16 = load(gpt_oss().tensor("blk.1.ffn_gate_inp.weight", {kDim, kExperts}, kF16));
  EXPECT_EQ(f16.weight(1, Role::ffn_gate_inp)->format, format::Format::f16);
}

TEST(Qwen2Moe, SharesAreNotRenormalizedAndTheSharedExpertIsGated) {
  const Loaded m = load(qwen2moe());
  const ExpertSpec& e = m.layer(3).experts;
  EXPECT_EQ(e.gating, Gating::softmax);
  EXPECT_FALSE(e.renormalize);
  EXPECT_EQ(e.n_ff_shared, 24);
  EXPECT_EQ(m.weight(3, Role::ffn_down_shexp)->cols, 24);
  EXPECT_EQ(m.weight(3, Role::ffn_gate_inp_shexp)->cols, 32);
  EXPECT_EQ(m.weight(3, Role::ffn_gate_inp_shexp)->rows, 1);
  EXPECT_TRUE(m.model->unused_tensors.empty());
}

TEST(Qwen3Moe, WeightsAreRenormalizedAndWidthsFollowFromTheDenseOne) {
  const Loaded m = load(qwen3moe());
  EXPECT_TRUE(m.layer(0).experts.renormalize);
  EXPECT_EQ(m.layer(0).experts.n_ff_shared, 0);
  EXPECT_NE(m.weight(0, Role::attn_q_norm), nullptr);
  EXPECT_TRUE(m.model->unused_tensors.empty());
  ModelFile unstated = qwen3moe().drop_key("expert_feed_forward_length");
  for (uint64_t i = 0; i < kLayers; ++i) unstated.experts(block(i), kFf / kUsed);
  EXPECT_EQ(load(unstated).layer(0).experts.n_ff, static_cast<int>(kFf / kUsed));
  EXPECT_FALSE(load(qwen3moe().set("expert_weights_norm", OwnedValue::of(false))).layer(0).experts.renormalize);
  // A file of experts alone needs no dense width.
  EXPECT_EQ(load(qwen3moe().drop_key("feed_forward_length")).layer(0).experts.n_ff, 16);
}

TEST(Glm4Moe, LeadingLayersAreDenseAndNextTokenBlocksAreLeftOut) {
  const Loaded m = load(glm4moe());
  ASSERT_EQ(m.spec().layers.size(), kLayers);
  EXPECT_EQ(m.spec().n_next_token_blocks, 1);
  EXPECT_EQ(m.layer(0).experts, ExpertSpec{});
  EXPECT_EQ(m.layer(0).n_ff, static_cast<int>(kFf));
  EXPECT_NE(m.weight(0, Role::ffn_gate), nullptr);
  EXPECT_EQ(m.weight(0, Role::ffn_gate_inp), nullptr);
  EXPECT_EQ(m.weight(0, Role::ffn_gate_shexp), nullptr);
  ExpertSpec expected;
  expected.n_experts = 8;
  expected.n_used = 2;
  expected.n_ff = 16;
  expected.gating = Gating::sigmoid;
  expected.renormalize = true;
  expected.scale = 1.5F;
  expected.n_ff_shared = 16;
  for (size_t i = 1; i < kLayers; ++i) {
    EXPECT_EQ(m.layer(i).experts, expected) << i;
    EXPECT_NE(m.weight(i, Role::exp_probs_b), nullptr);
    EXPECT_NE(m.weight(i, Role::ffn_gate_shexp), nullptr);
    EXPECT_EQ(m.weight(i, Role::ffn_gate_inp_shexp), nullptr);
    EXPECT_EQ(m.layer(i).rope.n_dims, static_cast<int>(kHeadDim / 2));
  }
  EXPECT_TRUE(m.model->unused_tensors.empty()) << m.model->unused_tensors.front();
  EXPECT_EQ(m.model->next_token_tensors.size(), 16U);
  // Names that only look so are unused, as ever.
  const Loaded more = load(glm4moe().tensor("blk.4x.what", {32}).tensor("blk.5.what", {32}).tensor("blk.", {32}));
  EXPECT_EQ(more.model->unused_tensors, (std::vector<std::string>{"blk.4x.what", "blk.5.what", "blk."}));
}

TEST(Llama, MayHaveExpertsAsWideAsItsDenseLayers) {
  ModelFile f = dense("llama").set("expert_count", kExperts).set("expert_used_count", kUsed);
  for (uint64_t i = 0; i < kLayers; ++i) {
    for (const char* part : {"gate", "up", "down"}) f.drop(block(i) + "ffn_" + part + ".weight");
    f.experts(block(i), kFf);
  }
  const Loaded m = load(f);
  EXPECT_EQ(m.layer(2).experts.n_ff, static_cast<int>(kFf));
  EXPECT_TRUE(m.layer(2).experts.renormalize);
  EXPECT_EQ(load(dense("llama")).layer(2).experts, ExpertSpec{});
  EXPECT_EQ(load(dense("llama").set("expert_count", 0).set("expert_used_count", 0)).layer(2).experts, ExpertSpec{});
}

TEST(Mistral3, QueriesAreScaledByPositionWhereTheFileSaysSo) {
  EXPECT_EQ(load(dense("mistral3")).layer(0).temperature, AttnTemperature{});
  EXPECT_EQ(load(dense("mistral3").set("attention.temperature_scale", 0.0F)).layer(0).temperature, AttnTemperature{});
  ModelFile f = dense("mistral3").set("attention.temperature_scale", 0.1F);
  EXPECT_EQ(load(f).layer(0).temperature.period, 4096);  // the trained context
  f.set("rope.scaling.original_context_length", 16384);
  const Loaded m = load(f);
  EXPECT_EQ(m.layer(3).temperature.period, 16384);
  EXPECT_EQ(m.layer(3).temperature.offset, 0);
  EXPECT_FLOAT_EQ(static_cast<float>(m.layer(3).temperature.scale), 0.1F);
  EXPECT_EQ(m.layer(3).rope.kind, RopeKind::norm);
  expect_refused(f.set("rope.scaling.original_context_length", 0), Status::invalid_file, {"original_context_length"});
}

TEST(Llama4, LayersAlternateAndTheWeightIsOnTheInput) {
  const Loaded m = load(llama4());
  const float* ones = nullptr;
  for (size_t i = 0; i < kLayers; ++i) {
    const bool global = i == 3;
    EXPECT_EQ(m.layer(i).chunk, global ? 0 : 8192) << i;
    EXPECT_EQ(m.layer(i).window, 0);
    EXPECT_EQ(m.layer(i).rope.kind, global ? RopeKind::none : RopeKind::norm);
    EXPECT_EQ(m.layer(i).temperature, global ? (AttnTemperature{0.1, 8192, 1}) : AttnTemperature{});
    EXPECT_EQ(m.weight(i, Role::attn_k_norm) != nullptr, !global);
    if (!global) ones = m.weight(i, Role::attn_k_norm)->f32();
    EXPECT_EQ(m.layer(i).experts.n_experts, i % 2 == 1 ? 8 : 0) << i;
  }
  ASSERT_NE(ones, nullptr);
  for (size_t d = 0; d < kHeadDim; ++d) EXPECT_EQ(ones[d], 1.0F);
  const ExpertSpec& e = m.layer(1).experts;
  EXPECT_TRUE(e.weigh_input);
  EXPECT_EQ(e.gating, Gating::sigmoid);
  EXPECT_FALSE(e.renormalize);
  EXPECT_EQ(e.n_used, 1);
  EXPECT_EQ(e.n_ff_shared, 16);
  EXPECT_TRUE(m.model->unused_tensors.empty());
  EXPECT_EQ(load(llama4().set("attention.sliding_window", 64)).layer(0).chunk, 64);
  expect_refused(llama4().set("attention.sliding_window", 0), Status::unsupported, {"sliding_window"});
  // The variant of 128 experts normalizes nothing.
  ModelFile many = llama4().set("expert_count", 128);
  for (const uint64_t i : {1, 3}) {
    many.tensor(block(i) + "ffn_gate_inp.weight", {kDim, 128});
    many.tensor(block(i) + "ffn_gate_exps.weight", {kDim, kFfExpert, 128});
    many.tensor(block(i) + "ffn_up_exps.weight", {kDim, kFfExpert, 128});
    many.tensor(block(i) + "ffn_down_exps.weight", {kFfExpert, kDim, 128});
  }
  EXPECT_EQ(load(many).weight(0, Role::attn_q_norm), nullptr);
}

TEST(Experts, GroupsAreReadForEveryArchitecture) {
  for (const auto& make : {gpt_oss, qwen2moe, qwen3moe, glm4moe, llama4}) {
    const Loaded m = load(make().set("expert_group_count", 4).set("expert_group_used_count", 2));
    EXPECT_EQ(m.spec().layers.back().experts.n_groups, 4) << m.spec().arch;
    EXPECT_EQ(m.spec().layers.back().experts.n_groups_used, 2) << m.spec().arch;
  }
  for (const uint64_t none : {0, 1})
    EXPECT_EQ(load(qwen3moe().set("expert_group_count", none)).layer(0).experts.n_groups, 0);
}

TEST(Experts, GatingIsTheFilesWhereItSays) {
  EXPECT_EQ(load(qwen3moe().set("expert_gating_func", 0)).layer(0).experts.gating, Gating::softmax);
  EXPECT_EQ(load(qwen3moe().set("expert_gating_func", 2)).layer(0).experts.gating, Gating::sigmoid);
  EXPECT_EQ(load(qwen3moe().set("expert_gating_func", 3)).layer(0).experts.gating, Gating::softmax_chosen);
  expect_refused(qwen3moe().set("expert_gating_func", 4), Status::unsupported, {"expert_gating_func 4"});
}

TEST(Experts, SenselessNumbersAreNamed) {
  struct Case {
    const char* key;
    uint64_t value;
    const char* named;
  };
  constexpr uint64_t kHuge = 1ULL << 62;
  const Case cases[] = {
      {"expert_count", 0, "expert_count is 0"},
      {"expert_count", 1025, "expert_count is 1025"},
      {"expert_count", kHuge, "expert_count"},
      {"expert_used_count", 0, "expert_used_count is 0"},
      {"expert_used_count", 9, "expert_used_count is 9, outside 1 to 8"},
      {"expert_feed_forward_length", kHuge, "expert_feed_forward_length"},
      {"expert_feed_forward_length", (1 << 20) + 1, "expert_feed_forward_length"},
      {"leading_dense_block_count", kHuge, "blk.0.ffn_gate.weight"},  // all are dense then
      {"nextn_predict_layers", 4, "nextn_predict_layers is 4, outside 0 to 3"},
      {"block_count", kHuge, "block_count"},
      {"expert_group_count", 3, "expert_group_count 3 does not divide expert_count 8"},
      {"expert_group_count", 8, "groups of one expert"},
      {"expert_group_count", 16, "expert_group_count is 16"},
      {"expert_group_count", kHuge, "expert_group_count"},
      {"expert_group_count", 2, "expert_group_used_count"},  // of which nothing is said
  };
  ASSERT_NE(load(qwen3moe()).model, nullptr);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.key);
    expect_refused(qwen3moe().set(c.key, c.value), Status::invalid_file, {c.named});
  }
  const auto groups = [](uint64_t n, uint64_t used) {
    return qwen3moe().set("expert_group_count", n).set("expert_group_used_count", used).set("expert_used_count", 4);
  };
  ASSERT_NE(load(groups(2, 1)).model, nullptr);
  expect_refused(groups(2, 0), Status::invalid_file, {"expert_group_used_count is 0"});
  expect_refused(groups(2, 3), Status::invalid_file, {"expert_group_used_count is 3"});
  expect_refused(groups(4, 1), Status::invalid_file, {"expert_used_count is 4, more than the 2 experts"});
}

TEST(Experts, NumbersBelowZeroOrNotFiniteAreNamed) {
  for (const char* key :
       {"expert_shared_count", "leading_dense_block_count", "nextn_predict_layers", "expert_gating_func"})
    expect_refused(glm4moe().set(key, OwnedValue::of(int32_t{-2})), Status::invalid_file, {key, "-2"});
  for (const float x : {-1.0F, NAN, INFINITY})
    expect_refused(glm4moe().set("expert_weights_scale", x), Status::invalid_file, {"expert_weights_scale"});
  expect_refused(glm4moe().set("expert_weights_scale", OwnedValue::of(1e300)), Status::invalid_file,
                 {"expert_weights_scale"});
  expect_refused(glm4moe().set("expert_weights_norm", OwnedValue::of("yes")), Status::invalid_file,
                 {"expert_weights_norm"});
  expect_refused(glm4moe().set("expert_shared_count", uint64_t{1} << 40), Status::invalid_file,
                 {"expert_shared_count"});
  expect_refused(glm4moe().set("expert_used_count", OwnedValue::array<uint32_t>({2, 2})), Status::invalid_file,
                 {"expert_used_count has 2 entries"});
}

TEST(Experts, MissingKeysAreNamed) {
  for (const char* key : {"expert_count", "expert_used_count"})
    expect_refused(qwen3moe().drop_key(key), Status::invalid_file, {std::string("qwen3moe.") + key});
  expect_refused(gpt_oss().drop_key("attention.sliding_window"), Status::invalid_file, {"attention.sliding_window"});
  expect_refused(gpt_oss().drop_key("expert_feed_forward_length"), Status::invalid_file,
                 {"expert_feed_forward_length"});
  expect_refused(glm4moe().drop_key("expert_shared_count"), Status::invalid_file, {"expert_shared_count"});
  expect_refused(glm4moe().drop_key("feed_forward_length"), Status::invalid_file, {"glm4moe.feed_forward_length"});
  expect_refused(qwen3moe().drop_key("expert_feed_forward_length").drop_key("feed_forward_length"),
                 Status::invalid_file, {"expert_feed_forward_length", "feed_forward_length"});
  expect_refused(dense("llama").set("expert_used_count", 2), Status::invalid_file, {"expert_used_count"});
}

TEST(Experts, MissingTensorsAreNamed) {
  for (const char* name : {"ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
                           "ffn_gate_inp.bias", "ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias",
                           "attn_sinks.weight", "post_attention_norm.weight"})
    expect_refused(gpt_oss().drop(block(2) + name), Status::invalid_file, {block(2) + name, "missing"});
  for (const char* name : {"exp_probs_b.bias", "ffn_gate_shexp.weight", "ffn_down_shexp.weight"})
    expect_refused(glm4moe().drop(block(2) + name), Status::invalid_file, {block(2) + name, "missing"});
  expect_refused(qwen2moe().drop("blk.0.ffn_gate_inp_shexp.weight"), Status::invalid_file, {"ffn_gate_inp_shexp"});
}

TEST(Experts, WrongShapesAreNamedWithBoth) {
  const std::string gate = "blk.1.ffn_gate_exps.weight";
  expect_refused(qwen3moe().tensor(gate, {kDim, kFfExpert, kExperts - 1}), Status::invalid_file,
                 {gate, "[32, 16, 7], expected [32, 16, 8]"});
  expect_refused(qwen3moe().tensor(gate, {kDim, kFfExpert}), Status::invalid_file,
                 {gate, "[32, 16], expected [32, 16, 8]"});
  expect_refused(qwen3moe().tensor(gate, {kDim, kFfExpert * kExperts}), Status::invalid_file, {gate});
  expect_refused(qwen3moe().tensor(gate, {kDim, kFfExpert, kExperts, 2}), Status::invalid_file, {gate});
  expect_refused(qwen3moe().tensor("blk.1.ffn_gate_inp.weight", {kDim, kExperts + 1}), Status::invalid_file,
                 {"blk.1.ffn_gate_inp.weight"});
  expect_refused(gpt_oss().tensor("blk.1.ffn_down_exps.bias", {kDim, kExperts - 1}), Status::invalid_file,
                 {"blk.1.ffn_down_exps.bias", "expected [32, 8]"});
  expect_refused(qwen3moe().tensor("blk.1.attn_q.weight", {kDim, kHeads * kHeadDim, 2}), Status::invalid_file,
                 {"blk.1.attn_q.weight"});
}

TEST(Experts, GateAndUpInOneTensorAreRefusedByName) {
  ModelFile f = qwen3moe().drop("blk.0.ffn_gate_exps.weight").drop("blk.0.ffn_up_exps.weight");
  f.tensor("blk.0.ffn_gate_up_exps.weight", {kDim, 2 * kFfExpert, kExperts});
  expect_refused(f, Status::unsupported, {"blk.0.ffn_gate_up_exps.weight"});
}

TEST(Sizes, CountWhatATokenReads) {
  const Loaded m = load(qwen3moe());
  const WeightSizes s = weight_sizes(*m.model);
  const uint64_t attention =
      kDim * (kHeads + 2 * kKvHeads) * kHeadDim + kHeads * kHeadDim * kDim + 2 * kDim + 2 * kHeadDim;
  const uint64_t expert = 3 * kDim * kFfExpert, router = kDim * kExperts;
  EXPECT_EQ(s.params, kLayers * (attention + router + kExperts * expert) + 2 * kDim * kVocab + kDim);
  EXPECT_EQ(s.active_params, kLayers * (attention + router + kUsed * expert) + kDim * kVocab + kDim + kDim);
  EXPECT_EQ(s.bytes, s.params * sizeof(float));
  EXPECT_EQ(s.active_bytes, s.active_params * sizeof(float));
  EXPECT_EQ(s.expert_bytes, kLayers * kExperts * expert * sizeof(float));
  EXPECT_EQ(s.params, m.model->n_params);
  // A tied embedding is read whole.
  const Loaded tied = load(qwen3moe().drop("output.weight"));
  EXPECT_EQ(weight_sizes(*tied.model).active_params, s.active_params - kDim);
}

TEST(Sizes, WindowedLayersKeepTheirWindow) {
  const Loaded m = load(gpt_oss());
  const uint64_t per_token = 2 * 2 * kKvHeads * kHeadDim;
  EXPECT_EQ(kv_bytes(m.spec(), 1000), per_token * 2 * (1000 + 128));
  EXPECT_EQ(kv_bytes(m.spec(), 100), per_token * 4 * 100);
}

}  // namespace
}  // namespace quern::model
