// Several models: loaded when asked for, together or not, unloaded when idle or when another needs the memory.
#include "serve/model_pool.h"

#include "serve_testing.h"

namespace quern::serve {
namespace {

using engine::some_tokens;
using State = ModelStatus::State;

ModelEntry entry(const std::string& id, const std::string& file) {
  ModelEntry e;
  e.id = id;
  e.path = engine::tiny_dir() + "/" + file + ".gguf";
  e.engine.n_threads = 1;
  e.engine.n_ctx = 256;
  e.scheduler.kv_bytes = 1;  // one full context
  return e;
}

std::unique_ptr<ModelPool> pool_of(std::vector<ModelEntry> models, const PoolOptions& options = {}) {
  auto pool = ModelPool::create(std::move(models), options);
  EXPECT_TRUE(pool.ok()) << pool.error().message;
  return std::move(pool).value();
}

State state_of(const ModelPool& pool, size_t i) {
  return pool.list()[i].state;
}

TEST(ModelPool, LoadsOnDemandAndOnce) {
  const auto pool = pool_of({entry("a", "llama"), entry("b", "gemma3")});
  EXPECT_EQ(state_of(*pool, 0), State::unloaded);
  std::vector<std::thread> threads;
  std::vector<LoadedModel*> seen(4);
  std::vector<Lease> leases(4);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      leases[i] = std::move(pool->acquire("a")).value();
      seen[i] = leases[i].get();
      EXPECT_EQ(
          ask(*leases[i]->scheduler, request(engine::some_tokens(5, static_cast<uint32_t>(i)), 3)).finish.n_prompt, 5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), seen[0]), 4);
  EXPECT_EQ(pool->list()[0].n_leases, 4);
  EXPECT_EQ(pool->list()[0].engine, seen[0]->engine) << "its facts, for who looks";
  EXPECT_EQ(state_of(*pool, 1), State::unloaded);
  EXPECT_EQ(pool->list()[1].engine, nullptr);
  EXPECT_EQ(std::move(pool->acquire("")).value().get(), seen[0]);
  EXPECT_EQ(pool->unload("a").error().status, Status::limit_exceeded);
  leases.clear();
  EXPECT_TRUE(pool->unload("a").ok());
  EXPECT_EQ(state_of(*pool, 0), State::unloaded);
}

TEST(ModelPool, RefusesByName) {
  EXPECT_EQ(ModelPool::create({}, {}).error().status, Status::invalid_argument);
  EXPECT_EQ(ModelPool::create({entry("a", "llama"), entry("a", "gemma3")}, {}).error().status,
            Status::invalid_argument);
  EXPECT_NE(ModelPool::create({entry("a", "nowhere")}, {}).error().message.find("nowhere.gguf"), std::string::npos);
  auto bad = entry("bad", "llama");
  bad.engine.isa = "sse9";
  const auto pool = pool_of({entry("a", "llama"), bad});
  EXPECT_NE(pool->acquire("c").error().message.find("there are: a, bad"), std::string::npos);
  EXPECT_NE(pool->acquire("bad").error().message.find("sse9"), std::string::npos);
  EXPECT_EQ(state_of(*pool, 1), State::failed);
  EXPECT_TRUE(pool->acquire("a").ok());
}

TEST(ModelPool, AModelInUseStaysAndAnIdleOneMakesRoom) {
  PoolOptions options;
  options.memory_bytes = 1;  // one model at a time
  const auto pool = pool_of({entry("a", "llama"), entry("b", "gemma3")}, options);
  auto a = pool->acquire("a");
  ASSERT_TRUE(a.ok());
  const auto refused = pool->acquire("b");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, Status::limit_exceeded);
  *a = nullptr;
  auto b = pool->acquire("b");
  ASSERT_TRUE(b.ok()) << b.error().message;
  EXPECT_EQ(state_of(*pool, 0), State::unloaded);
  EXPECT_EQ(state_of(*pool, 1), State::loaded);
}

TEST(ModelPool, AnIdleModelIsUnloaded) {
  auto a = entry("a", "llama");
  a.idle = Seconds(0.02);
  const auto pool = pool_of({entry("b", "gemma3"), a});
  ASSERT_TRUE(pool->acquire("b").ok());  // has no such time, and stays
  {
    const auto lease = std::move(pool->acquire("a")).value();
    ask(*lease->scheduler, request(engine::some_tokens(5, 1), 2));
    EXPECT_EQ(state_of(*pool, 1), State::loaded);
  }
  while (state_of(*pool, 1) != State::unloaded) std::this_thread::yield();
  EXPECT_EQ(state_of(*pool, 0), State::loaded);
  EXPECT_TRUE(pool->acquire("a").ok());
}

// Whoever holds a lease, and also when nobody does or the model is gone.
TEST(ModelPool, FiguresAreThoseOfNow) {
  const auto pool = pool_of({entry("a", "llama"), entry("b", "gemma3")});
  EXPECT_TRUE(pool->stats().empty());
  Lease first = std::move(pool->acquire("a")).value();
  ask(*first->scheduler, request(some_tokens(5, 1), 3));
  EXPECT_EQ(pool->stats().size(), 1U);
  EXPECT_EQ(pool->stats().at("a").n_finished, 1U);
  std::move(pool->acquire("a")).value().reset();  // a shorter lease says nothing of the longer one
  const Submission running = first->scheduler->submit(endless(some_tokens(5, 2)));
  Answer answer;
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer& a) { return !a.tokens.empty(); }));
  // Figures are written at the end of a step, events within it.
  int n_generating = 0;
  while (n_generating == 0 && running.stream->progress().phase != Stream::Progress::Phase::finished)
    n_generating = pool->stats().at("a").n_generating;
  EXPECT_EQ(n_generating, 1);
  running.stream->cancel();
  read_until(*running.stream, answer, [](const Answer&) { return false; });
  first.reset();
  ASSERT_TRUE(pool->unload("a").ok());
  EXPECT_EQ(state_of(*pool, 0), State::unloaded);
  EXPECT_EQ(pool->stats().at("a").n_requests, 2U);
  EXPECT_EQ(pool->stats().at("a").n_generating, 0);
}

TEST(ModelPool, DrainsAndStopsWhateverIsHeld) {
  auto pool = pool_of({entry("a", "llama"), entry("b", "gemma3")});
  Lease lease = std::move(pool->acquire("a")).value();
  const Submission running = lease->scheduler->submit(request(engine::some_tokens(5, 1), 30));
  EXPECT_TRUE(pool->wait_idle(kLong));
  EXPECT_EQ(read_all(*running.stream).finish.n_prompt, 5);
  EXPECT_EQ(pool->acquire("a").error().status, Status::cancelled);
  pool.reset();
  EXPECT_EQ(lease->scheduler->submit(request(engine::some_tokens(5, 1), 30)).refusal.kind, Refusal::Kind::stopping);
}

}  // namespace
}  // namespace quern::serve
