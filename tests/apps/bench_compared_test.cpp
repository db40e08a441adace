// What bench in alternation says about its own figures, and what it says of this machine.
#include <gtest/gtest.h>

#include "apps/quern/bench_compared.h"
#include "apps/quern/bench_record.h"

namespace quern::apps {
namespace {

measure::RecordedRun run_with(double low, double high, double steal) {
  measure::RecordedRun run;
  run.test = "tg128";
  run.quern.samples = {1};
  run.peer = measure::Samples{"ik_llama.cpp", "", "", "llama-bench -rtr 1 -m m.gguf -t 2", {1}};
  run.ratio = measure::Ratio{(low + high) / 2, low, high, true};
  run.steal = steal;
  return run;
}

TEST(BenchCompared, DoubtsAreSaid) {
  EXPECT_TRUE(doubts_about(run_with(1.01, 1.2, 0.01)).empty());
  EXPECT_TRUE(doubts_about(run_with(0.8, 0.9, 0)).empty());
  const auto noisy = doubts_about(run_with(0.98, 1.2, 0));
  ASSERT_EQ(noisy.size(), 1U);
  EXPECT_EQ(
      noisy[0],
      "tg128 against ik_llama.cpp -rtr 1: noise hides the difference, 0.980 to 1.200 contains 1; --rounds narrows it");
  const auto stolen = doubts_about(run_with(1.1, 1.2, 0.5));
  ASSERT_EQ(stolen.size(), 1U);
  EXPECT_NE(stolen[0].find("50.0 % of the processor's time was stolen"), std::string::npos);
  auto once = run_with(1, 1, 0);
  once.ratio->known = false;
  EXPECT_NE(doubts_about(once).at(0).find("one round gives no interval"), std::string::npos);
  once.peer.reset();
  once.ratio.reset();
  EXPECT_TRUE(doubts_about(once).empty());
}

TEST(BenchRecord, TheBoxIsThisMachineAndNamesNoHost) {
  const Topology topology = detect_topology();
  const measure::Box box = this_box(topology);
  EXPECT_EQ(box.name, measure::box_name(box.cpu, topology.n_usable_cpus()));
  EXPECT_GE(box.cores, 1);
  EXPECT_GT(box.memory_bytes, 0U);
  EXPECT_NE(box.os.find("Linux"), std::string::npos);
  EXPECT_EQ(record_path("some.json", box), "some.json");
  EXPECT_EQ(record_path("records", box), "records/" + box.name + ".json");
  EXPECT_FALSE(recorded_model("/nowhere.gguf").ok());
}

}  // namespace
}  // namespace quern::apps
