// Many clients at once, with hang-ups: whatever the company, each gets the tokens it would get alone.
#include "serve_testing.h"

namespace quern::serve {
namespace {

using engine::some_tokens;

struct Spec {
  std::vector<int32_t> prompt;
  int max_tokens;
  token::SamplerOptions sampling;
  std::vector<int32_t> expected;
};

// Some share their beginning; samplers are of every kind.
std::vector<Spec> make_specs(engine::Engine& engine, size_t n) {
  std::vector<Spec> specs;
  std::mt19937 rng(77);
  for (size_t i = 0; i < n; ++i) {
    Spec spec;
    const size_t n_shared = i % 3 == 0 ? 0 : 20 + 45 * (i % 4), n_own = 1 + rng() % 40;
    spec.prompt = some_tokens(n_shared, 1);
    for (const int32_t id : some_tokens(n_own, static_cast<uint32_t>(100 + i))) spec.prompt.push_back(id);
    spec.max_tokens = static_cast<int>(rng() % 40);
    spec.sampling.seed = i;
    if (i % 4 == 0) spec.sampling.temperature = 0;
    if (i % 4 == 1) spec.sampling.repeat_penalty = 1.2F;
    if (i % 4 == 2) spec.sampling.top_k = 3;
    if (i % 5 == 0) spec.sampling.logit_bias = {{7, 3.0F}};
    spec.expected = alone(engine, spec.prompt, spec.max_tokens, spec.sampling).tokens;
    specs.push_back(std::move(spec));
  }
  return specs;
}

class SchedulerStress : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Scheduler, SchedulerStress, ::testing::Values("llama", "gemma3"),
                         [](const auto& which) { return which.param; });

TEST_P(SchedulerStress, TheSameTokensAloneAndInCompany) {
  std::vector<Spec> specs;
  {
    const auto reference = load_tiny(GetParam(), 256);
    specs = make_specs(*reference, 24);
  }
  const auto engine = load_tiny(GetParam(), 256);
  SchedulerOptions options;
  options.parallel = 5;
  options.max_queue = 3;
  options.max_kept = 6;
  options.kv_bytes = 3 * engine->kv_bytes(256 + 64);
  options.slice = Seconds(1e-9);
  options.slice_alone = Seconds(1e-3);
  const auto scheduler = start(engine, options);
  std::atomic<int> n_whole{0}, n_cut{0}, n_busy{0};
  const auto client = [&](uint32_t seed) {
    std::mt19937 rng(seed);
    for (int i = 0; i < 14; ++i) {
      const Spec& spec = specs[rng() % specs.size()];
      Request r = request(spec.prompt, spec.max_tokens, spec.sampling);
      r.client = std::to_string(seed % 3);
      r.use_cache = rng() % 8 != 0;
      if (rng() % 4 == 0) r.stop = {"\x01never"};
      if (rng() % 6 == 0) r.n_logprobs = 1;
      const Submission submitted = scheduler->submit(std::move(r));
      if (submitted.stream == nullptr) {
        EXPECT_EQ(submitted.refusal.kind, Refusal::Kind::busy);
        ++n_busy;
        continue;
      }
      Answer answer;
      const size_t hang_up_after = rng() % 3 == 0 ? rng() % 12 : SIZE_MAX;
      read_until(*submitted.stream, answer, [&](const Answer& a) { return a.tokens.size() >= hang_up_after; });
      if (submitted.stream->finished()) {
        EXPECT_EQ(answer.tokens, spec.expected);
        ++n_whole;
        continue;
      }
      if (rng() % 2 == 0) continue;  // the stream goes away
      submitted.stream->cancel();
      read_until(*submitted.stream, answer, [](const Answer&) { return false; });
      EXPECT_LE(answer.tokens.size(), spec.expected.size());
      EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), spec.expected.begin()));
      ++n_cut;
    }
  };
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < 10; ++i) clients.emplace_back(client, i);
  for (std::thread& thread : clients) thread.join();
  EXPECT_TRUE(scheduler->wait_idle(kLong));
  EXPECT_GT(n_whole, 20);
  EXPECT_GT(n_cut, 0);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.n_requests, stats.n_finished + stats.n_cancelled);
  EXPECT_EQ(stats.n_refused, static_cast<uint64_t>(n_busy));
  EXPECT_EQ(stats.n_failed, 0U);
  EXPECT_GT(stats.n_prefix_hits, 0U);
  EXPECT_LE(stats.n_kept, 6);
  EXPECT_LE(stats.kv_bytes, stats.kv_bytes_budget);
}

}  // namespace
}  // namespace quern::serve
