// What plans cannot be built for is refused before anything is built, naming the layer and the feature.
#include <gtest/gtest.h>

#include "plan/plan.h"

namespace quern::plan {
namespace {

model::Model with_layers(int n) {
  model::Model m;
  m.spec.arch = "some";
  m.spec.layers.resize(static_cast<size_t>(n));
  return m;
}

void expect_refused(const model::Model& m, int n_ctx, const std::vector<std::string>& parts) {
  const auto result = check_support(m, n_ctx);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, Status::unsupported);
  for (const std::string& part : parts)
    EXPECT_NE(result.error().message.find(part), std::string::npos) << part << " in: " << result.error().message;
}

TEST(Support, ChunksBoundTheContext) {
  model::Model m = with_layers(3);
  EXPECT_TRUE(check_support(m, 1 << 20).ok());
  m.spec.layers[2].chunk = 64;
  EXPECT_TRUE(check_support(m, 64).ok());
  expect_refused(m, 65, {"some", "layer 2", "chunks of 64", "65"});
}

TEST(Support, ExpertsAreRefusedByName) {
  model::Model m = with_layers(2);
  m.spec.layers[1].experts.n_experts = 4;
  expect_refused(m, 0, {"some", "layer 1", "experts"});
}

TEST(Support, TemperatureAndTheClampedSwigluAreRefusedByName) {
  model::Model m = with_layers(2);
  m.spec.layers[1].temperature.period = 4096;
  expect_refused(m, 0, {"layer 1", "queries by position"});
  m = with_layers(2);
  m.spec.layers[0].activation = model::Activation::swiglu_oai;
  expect_refused(m, 0, {"layer 0", "SwiGLU"});
}

}  // namespace
}  // namespace quern::plan
