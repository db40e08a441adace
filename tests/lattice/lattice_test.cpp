// Runs the lattice suite of every tier that was built and that this processor has. The suite's code is in the objects
// of each tier (suite_*.cpp); this program is compiled for the baseline.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/cpu.h"
#include "suites.h"

namespace quern::lattice_suite {
namespace {

struct Entry {
  Isa isa;
  std::string name;
  Case row;
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (const Built& built : built_suites()) {
    const auto take = [&](const char* group, Cases cases) {
      for (int i = 0; i < cases.n; ++i) {
        all.push_back({built.isa, std::string(built.name) + "_" + group + "_" + cases.rows[i].name, cases.rows[i]});
      }
    };
    take("integers", built.suite.integers());
    take("floats", built.suite.floats());
    take("converts", built.suite.converts());
    take("mixes", built.suite.mixes());
  }
  return all;
}

class Lattice : public testing::TestWithParam<Entry> {};

TEST_P(Lattice, AgreesWithScalar) {
  const Entry& entry = GetParam();
  if (!detect_cpu().supports(entry.isa)) GTEST_SKIP() << "SKIPPED: this processor has no " << isa_name(entry.isa);
  Report report;
  entry.row.run(report);
  EXPECT_GT(report.compared, 0);
  if (entry.row.must_fail) {
    EXPECT_GT(report.failed, 0) << "a wrong implementation went unnoticed in " << report.compared << " lanes";
  } else {
    EXPECT_EQ(report.failed, 0) << "of " << report.compared << " lanes; first: " << report.first;
  }
}

INSTANTIATE_TEST_SUITE_P(Suite, Lattice, testing::ValuesIn(entries()),
                         [](const testing::TestParamInfo<Entry>& entry) { return entry.param.name; });

TEST(LatticeTiers, EveryTierOfThisProcessorIsBuilt) {
  const CpuInfo cpu = detect_cpu();
  for (int i = 0; i < kIsaCount; ++i) {
    if (!cpu.supports(static_cast<Isa>(i))) continue;
    bool built = false;
    for (const Built& b : built_suites()) built = built || b.isa == static_cast<Isa>(i);
    EXPECT_TRUE(built) << isa_name(static_cast<Isa>(i));
  }
}

TEST(LatticeReport, NamesTheFirstDifference) {
  const uint32_t got[4] = {1, 0x7fc00000, 3, 9}, want[4] = {1, 0xffc00001, 3, 4};
  Report number, bits;
  compare(number, "op", "f32x4", Kind::number, 4, got, want, 4);
  compare(bits, "op", "f32x4", Kind::bits, 4, got, want, 4);
  EXPECT_EQ(number.failed, 1);
  EXPECT_STREQ(number.first, "op on f32x4, lane 3: got 0x00000009, want 0x00000004");
  EXPECT_EQ(bits.failed, 2);
  EXPECT_STREQ(bits.first, "op on f32x4, lane 1: got 0x7fc00000, want 0xffc00001");
}

}  // namespace
}  // namespace quern::lattice_suite
