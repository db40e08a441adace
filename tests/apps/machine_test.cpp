// What doctor says of tiers and GPUs, on this processor and on made-up trees.
#include "apps/quern/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quern::apps {
namespace {

namespace fs = std::filesystem;

TEST(Machine, AReasonForEachTierThatIsNotUsable) {
  const CpuInfo cpu = detect_cpu();
  const auto tiers = report_tiers(cpu);
  ASSERT_EQ(tiers.size(), static_cast<size_t>(kIsaCount));
  for (const TierReport& tier : tiers) {
    EXPECT_EQ(tier.usable, cpu.supports(tier.isa));
    EXPECT_EQ(tier.usable, tier.why_not.empty()) << isa_name(tier.isa);  // the table agrees with detect_cpu()
  }
}

TEST(Machine, TheReasonNamesTheMissingFeatures) {
#if defined(__x86_64__)
  CpuInfo old;
  old.features = {"avx", "f16c", "avx2"};
  const auto tiers = report_tiers(old);
  EXPECT_EQ(tiers[static_cast<size_t>(Isa::avx2)].why_not, "lacks fma");
  EXPECT_EQ(tiers[static_cast<size_t>(Isa::neon)].why_not, "for aarch64");
#else
  GTEST_SKIP() << "x86-64 feature names";
#endif
}

TEST(Machine, GpusOfADriverOfABareDeviceAndNone) {
  const fs::path root = fs::path(::testing::TempDir()) / ("quern_gpu_" + std::to_string(::getpid()));
  EXPECT_TRUE(find_gpus(root.string()).empty());
  const auto put = [&](const std::string& name, const std::string& text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  put("sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n");
  put("sys/bus/pci/devices/0000:02:00.0/class", "0x040300\n");  // its sound function
  EXPECT_EQ(find_gpus(root.string()), (std::vector<std::string>{"NVIDIA device 0000:01:00.0 without a driver"}));
  put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
  EXPECT_EQ(find_gpus(root.string()), (std::vector<std::string>{"NVIDIA H200"}));
  fs::remove_all(root);
}

}  // namespace
}  // namespace quern::apps
