// YaRN: divisors and magnitude against numbers computed in Python from the formulas of its paper (arXiv:2309.00071), as
// llama.cpp and transformers apply them. In double precision:
//   pair(turns) = n_dims * log(original / (turns * 2 pi)) / (2 * log(base))
//   low = max(floor(pair(beta_fast)), 0); high = min(ceil(pair(beta_slow)), n_dims - 1)
//   inv[i] = base ** (-2 i / n_dims); ramp[i] = clamp((i - low) / (high - low), 0, 1)
//   divisor[i] = inv[i] / (inv[i] / factor * ramp[i] + inv[i] * (1 - ramp[i]))
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "moe_file.h"

namespace quern::model {
namespace {

using namespace testing;
using file::GgufFile;

std::vector<float> divisors_of(const Yarn& yarn, const float* factors = nullptr) {
  std::vector<float> out(static_cast<size_t>(yarn.n_dims / 2));
  yarn_divisors(yarn, factors, out.data());
  return out;
}

TEST(Yarn, DivisorsOfGptOss) {  // low 8, high 18
  const std::vector<float> d = divisors_of({64, 150000.0, 1 / 32.0, 32, 1, 4096});
  const float mixed[] = {1.10726644F, 1.24031008F, 1.40969163F, 1.63265306F, 1.93939394F,
                         2.3880597F,  3.10679612F, 4.44444444F, 7.80487805F};  // pairs 9 to 17
  for (size_t i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(d[i], i <= 8 ? 1.0F : i >= 18 ? 32.0F : mixed[i - 9]) << i;
}

TEST(Yarn, DivisorsWithOtherBetas) {  // low 30, high 37
  const std::vector<float> d = divisors_of({128, 1e6, 1 / 16.0, 4, 1, 16384});
  const float mixed[] = {1.15463918F, 1.36585366F, 1.67164179F, 2.15384615F, 3.02702703F, 5.09090909F};  // 31 to 36
  for (size_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(d[i], i <= 30 ? 1.0F : i >= 37 ? 16.0F : mixed[i - 31]) << i;
}

TEST(Yarn, TheRampStaysWithinThePairs) {  // pair(32) is below 0: low 0, high 3
  const std::vector<float> d = divisors_of({16, 10000.0, 1 / 4.0, 32, 1, 64});
  const float expected[] = {1, 1.33333333F, 2, 4, 4, 4, 4, 4};
  for (size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(d[i], expected[i]) << i;
  // One turn takes longer than the original context at every pair: low and high meet, and nothing is divided by zero.
  for (const float x : divisors_of({16, 10000.0, 1 / 4.0, 1, 1, 6})) EXPECT_TRUE(x == 1.0F || x == 4.0F) << x;
}

TEST(Yarn, FactorsOfTheFileMultiply) {
  const float factors[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> plain = divisors_of({16, 10000.0, 1 / 4.0, 32, 1, 64});
  const std::vector<float> both = divisors_of({16, 10000.0, 1 / 4.0, 32, 1, 64}, factors);
  for (size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(both[i], plain[i] * factors[i]) << i;
}

TEST(Yarn, Magnitude) {  // 0.1 * log(factor) + 1, over 0.1 * multiplier * log(factor) + 1
  EXPECT_NEAR(yarn_magnitude(32, 0), 1.3465735902799727, 1e-15);
  EXPECT_NEAR(yarn_magnitude(16, 0), 1.2772588722239782, 1e-15);
  EXPECT_NEAR(yarn_magnitude(16, 0.5), 1.121751143713058, 1e-15);
  EXPECT_EQ(yarn_magnitude(16, 1), 1.0);
  EXPECT_EQ(yarn_magnitude(0.5, 0), 1.0);
}

// With heads of 8: base 10000, factor 4, original context 64: low 0, high 2 (pair(1) is 1.008).
ModelFile yarned(ModelFile f) {
  return f.set("rope.scaling.type", OwnedValue::of("yarn"))
      .set("rope.scaling.factor", 4.0F)
      .set("rope.scaling.original_context_length", 64);
}

TEST(Yarn, AnyArchitectureMayStateIt) {
  for (const char* arch : {"llama", "qwen2", "mistral3"}) {
    const Loaded m = load(yarned(dense(arch)));
    const RopeSpec& rope = m.rope(0);
    EXPECT_EQ(rope.scale, 1.0);
    EXPECT_FLOAT_EQ(rope.magnitude, 1.1386294F);  // 0.1 * log(4) + 1
    ASSERT_NE(rope.divisors, nullptr);
    const float expected[] = {1, 1.6F, 4, 4};  // the second: 1 / (0.5 / 4 + 0.5)
    for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(rope.divisors[i], expected[i]) << arch << i;
    EXPECT_EQ(m.rope(3), rope);  // one table for all layers
  }
  const Loaded plain = load(dense("llama"));
  EXPECT_EQ(plain.rope(0).divisors, nullptr);
  EXPECT_EQ(plain.rope(0).magnitude, 1.0F);
  const Loaded same = load(yarned(dense("llama")).set("rope.scaling.factor", 1.0F));
  EXPECT_EQ(same.rope(0), plain.rope(0));
}

TEST(Yarn, KeysChangeIt) {
  EXPECT_FLOAT_EQ(load(yarned(dense("llama")).set("rope.scaling.attn_factor", 2.0F)).rope(0).magnitude, 2.2772589F);
  EXPECT_FLOAT_EQ(load(yarned(dense("mistral3")).set("rope.scaling.yarn_log_multiplier", 1.0F)).rope(0).magnitude,
                  1.0F);
  // pair(2) is 0.707: low 0; pair(0.05) is 2.31: high 3.
  const Loaded betas =
      load(yarned(dense("llama")).set("rope.scaling.yarn_beta_fast", 2.0F).set("rope.scaling.yarn_beta_slow", 0.05F));
  EXPECT_FLOAT_EQ(betas.rope(0).divisors[1], 1.3333334F);                                // 1 / (1/3 / 4 + 2/3)
  EXPECT_FLOAT_EQ(betas.rope(0).divisors[2], 2.0F);                                      // 1 / (2/3 / 4 + 1/3)
  const Loaded factors = load(yarned(dense("llama")).tensor("rope_freqs.weight", {4}));  // 0, 1, 2, 3
  EXPECT_FLOAT_EQ(factors.rope(0).divisors[1], 1.6F);
  EXPECT_FLOAT_EQ(factors.rope(0).divisors[3], 12.0F);
}

TEST(Yarn, WindowedLayersOfGptOssAreScaledToo) {
  const Loaded m = load(gpt_oss());
  EXPECT_EQ(m.rope(0), m.rope(1));
  EXPECT_NE(m.rope(0).divisors, nullptr);
  EXPECT_FLOAT_EQ(m.rope(0).magnitude, 1.3465736F);
  const Loaded own = load(gpt_oss().set("rope.freq_base_swa", 10000.0F));
  EXPECT_EQ(own.rope(0).base, 10000.0);
  EXPECT_EQ(own.rope(1).base, 150000.0);
  EXPECT_NE(own.rope(0).divisors, own.rope(1).divisors);
  EXPECT_EQ(own.rope(0), own.rope(2));
}

TEST(Yarn, SenselessNumbersAreNamed) {
  const auto refused = [](const ModelFile& made, const char* named) {
    const auto file = GgufFile::open(made.write());
    const auto model = load_model(*file, 0);
    ASSERT_FALSE(model.ok()) << named;
    EXPECT_EQ(model.error().status, Status::invalid_file);
    EXPECT_NE(model.error().message.find(named), std::string::npos) << model.error().message;
  };
  const auto with = [](const char* key, float x) { return yarned(dense("llama")).set(key, x); };
  ASSERT_NE(load(yarned(dense("llama"))).model, nullptr);
  for (const float x : {0.0F, -1.0F, NAN, INFINITY}) {
    refused(with("rope.scaling.yarn_beta_fast", x), "yarn_beta_fast");
    refused(with("rope.scaling.yarn_beta_slow", x), "yarn_beta_slow");
  }
  for (const float x : {-4.0F, NAN, INFINITY}) refused(with("rope.scaling.factor", x), "rope.scaling.factor");
  for (const float x : {1e-45F, 1e-7F, 1e7F, 3e38F}) {
    refused(with("rope.scaling.factor", x), "rope.scaling.factor");
    refused(dense("llama").set("rope.scaling.factor", x), "rope.scaling.factor");  // linear
  }
  refused(with("rope.freq_base", 1.0F), "rope.freq_base");
  refused(with("rope.freq_base", 0.5F), "rope.freq_base");
  refused(yarned(dense("llama")).set("rope.scaling.original_context_length", 1ULL << 40), "original_context_length");
  refused(dense("llama").set("rope.scaling.attn_factor", OwnedValue::of(1e300)), "attn_factor");
  refused(dense("llama").set("rope.freq_base", NAN), "rope.freq_base");
}

}  // namespace
}  // namespace quern::model
