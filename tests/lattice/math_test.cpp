// Tests of lattice/math.h: errors against double precision, special values, and that every tier and every architecture
// gives the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/cpu.h"
#include "suites.h"

namespace quern::lattice_suite {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What a function is, how far it may be off, and where: outside of [low, high] only absolute closeness is asked for.
struct Row {
  Function function;
  const char* name;
  double (*exact)(double);
  double max_ulp;
  double low, high;
  uint64_t hash;  // of the results on inputs(), on any architecture
};

double gelu_exact(double x) {
  const double root = std::sqrt(2.0 / 3.14159265358979323846);
  return x / (1 + std::exp(-2 * root * x * (1 + 0.044715 * x * x)));
}
const Row kRows[kFunctionCount] = {
    {Function::exp, "exp", [](double x) { return std::exp(x); }, 1.0, -87.33, 88.72, 0xc83d721b4f0c1e2eULL},
    {Function::sigmoid, "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 2.5, -87.33, 1e38,
     0x078bdb8545e71141ULL},
    {Function::silu, "silu", [](double x) { return x / (1 + std::exp(-x)); }, 3.0, -88.7, 1e38, 0xce179fe16163671bULL},
    {Function::tanh, "tanh", [](double x) { return std::tanh(x); }, 1.5, -1e38, 1e38, 0x0a5023f710e55163ULL},
    // The argument of the exponential is rounded, and e^u multiplies that error by up to 88.
    {Function::gelu, "gelu", gelu_exact, 3.0, -1.0, 1e38, 0x52fe2bfea8fd96e4ULL},
    {Function::gelu_quick, "gelu_quick", [](double x) { return x / (1 + std::exp(-1.702 * x)); }, 3.0, -1.0, 1e38,
     0xb4b721218bb865b2ULL},
};

// Floats of every exponent and sign, ranges where the functions bend, and the borders of exp.
std::vector<float> inputs() {
  std::vector<float> all;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65521) {
    const uint32_t b = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &b, 4);
    all.push_back(x);
  }
  for (int i = -25000; i <= 25000; ++i) all.push_back(static_cast<float>(i) * 0.004F);
  for (int i = -8000; i <= 8000; ++i) all.push_back(static_cast<float>(i) * 0.0003F);
  for (const float border : {-87.336540F, 88.722831F, 0.625F, -0.625F}) {
    float x = border;
    for (int i = 0; i < 8; ++i) x = std::nextafter(x, -kInf);
    for (int i = 0; i < 16; ++i, x = std::nextafter(x, kInf)) all.push_back(x);
  }
  for (const float x : {0.0F, -0.0F, kInf, -kInf, kNan, -kNan}) all.push_back(x);
  while (all.size() % 16 != 0) all.push_back(1.0F);
  return all;
}

std::vector<float> evaluate(const Built& tier, Function f, const std::vector<float>& in) {
  std::vector<float> out(in.size());
  tier.suite.evaluate(f, in.data(), out.data(), static_cast<int>(in.size()));
  return out;
}
float evaluate1(const Built& tier, Function f, float x) {
  return evaluate(tier, f, std::vector<float>(16, x))[3];
}

// Units in the last place of a float near y; denormals share one unit.
double ulp(double y) {
  int exponent = 0;
  std::frexp(y, &exponent);
  return std::ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

std::vector<Built> usable() {
  std::vector<Built> all;
  const CpuInfo cpu = detect_cpu();
  for (const Built& b : built_suites()) {
    if (cpu.supports(b.isa)) all.push_back(b);
  }
  return all;
}

uint64_t hash(const std::vector<float>& values) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const float v : values) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    if (std::isnan(v)) bits = 0x7fc00000U;
    h = (h ^ bits) * 0x100000001b3ULL;
  }
  return h;
}

TEST(LatticeMath, ErrorsAreWithinTheStatedUlp) {
  const std::vector<float> in = inputs();
  for (const Row& row : kRows) {
    const std::vector<float> out = evaluate(usable().back(), row.function, in);
    double worst = 0, outside = 0;
    float worst_x = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const double want = row.exact(static_cast<double>(in[i]));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(out[i])) << row.name << "(" << in[i] << ")";
        continue;
      }
      if (!std::isfinite(in[i])) continue;
      const double error = std::fabs(static_cast<double>(out[i]) - want);
      if (in[i] < row.low || in[i] > row.high) {
        if (in[i] < 0) outside = std::max(outside, error);
      } else if (error / ulp(want) > worst) {
        worst = error / ulp(want), worst_x = in[i];
      }
    }
    EXPECT_LE(worst, row.max_ulp) << row.name << " at " << worst_x;
    EXPECT_LE(outside, 1.2e-7) << row.name;
    std::printf("%-10s %.3f ulp at %g\n", row.name, worst, static_cast<double>(worst_x));
  }
}

TEST(LatticeMath, SpecialValues) {
  for (const Built& tier : usable()) {
    const auto at = [&](Function f, float x) { return evaluate1(tier, f, x); };
    EXPECT_EQ(at(Function::exp, 0.0F), 1.0F) << tier.name;
    EXPECT_EQ(at(Function::exp, -0.0F), 1.0F) << tier.name;
    EXPECT_EQ(at(Function::exp, kInf), kInf) << tier.name;
    EXPECT_EQ(at(Function::exp, 88.8F), kInf) << tier.name;
    EXPECT_TRUE(std::isfinite(at(Function::exp, 88.722F))) << tier.name;
    EXPECT_EQ(at(Function::exp, -kInf), 0.0F) << tier.name;
    EXPECT_EQ(at(Function::exp, -87.34F), 0.0F) << tier.name;
    EXPECT_GE(at(Function::exp, -87.336F), std::numeric_limits<float>::min()) << tier.name;
    EXPECT_EQ(at(Function::sigmoid, -kInf), 0.0F) << tier.name;
    EXPECT_EQ(at(Function::sigmoid, kInf), 1.0F) << tier.name;
    EXPECT_EQ(at(Function::silu, kInf), kInf) << tier.name;
    EXPECT_EQ(at(Function::silu, -1000.0F), 0.0F) << tier.name;
    EXPECT_EQ(at(Function::tanh, kInf), 1.0F) << tier.name;
    EXPECT_EQ(at(Function::tanh, -kInf), -1.0F) << tier.name;
    EXPECT_TRUE(std::signbit(at(Function::tanh, -0.0F))) << tier.name;
    EXPECT_EQ(at(Function::tanh, 1e-40F), 1e-40F) << tier.name;
    EXPECT_EQ(at(Function::gelu, 1e30F), 1e30F) << tier.name;
    EXPECT_EQ(at(Function::gelu, -1e30F), 0.0F) << tier.name;
    // A NaN whose payload would reach the exponent if it were added to.
    float nan;
    const uint32_t bits = 0x7f8001ffU;
    std::memcpy(&nan, &bits, 4);
    for (const Row& row : kRows) {
      EXPECT_TRUE(std::isnan(at(row.function, nan))) << tier.name << " " << row.name;
      EXPECT_TRUE(std::isnan(at(row.function, -kNan))) << tier.name << " " << row.name;
    }
  }
}

TEST(LatticeMath, EveryTierAndArchitectureGivesTheSameBits) {
  const std::vector<float> in = inputs();
  EXPECT_GT(in.size(), 100000U);
  for (const Row& row : kRows) {
    for (const Built& tier : usable()) {
      EXPECT_EQ(hash(evaluate(tier, row.function, in)), row.hash) << std::hex << row.name << " on " << tier.name;
    }
  }
}

TEST(LatticeMath, ControlOneWrongBitChangesTheHash) {
  const std::vector<float> in = inputs();
  std::vector<float> out = evaluate(usable().front(), Function::exp, in);
  const uint64_t before = hash(out);
  out[out.size() / 2] = std::nextafter(out[out.size() / 2], kInf);
  EXPECT_NE(hash(out), before);
}

}  // namespace
}  // namespace quern::lattice_suite
