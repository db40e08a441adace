// Session and generation: limits, named errors, cancellation, rollback behind windows.
#include "tiny.h"
#include "token/sampler.h"
#include "token/tokenizer.h"

namespace quern::engine {
namespace {

std::shared_ptr<Engine> load(const std::string& name, int n_ctx) {
  EngineOptions options;
  options.n_threads = 1;
  options.n_ctx = n_ctx;
  auto engine = Engine::load(tiny_dir() + "/" + name + ".gguf", options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *engine : nullptr;
}

TEST(Session, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const auto engine = load("llama", 32);
  const auto session = std::move(engine->new_session()).value();
  const auto refused = session->sync(some_tokens(33, 1));
  EXPECT_EQ(refused.error().status, Status::limit_exceeded);
  EXPECT_NE(refused.error().message.find("33"), std::string::npos);
  EXPECT_NE(refused.error().message.find("32"), std::string::npos);
  EXPECT_TRUE(session->sync(some_tokens(32, 1)).ok());
}

TEST(Session, BadTokensAreRefusedAndTheSessionGoesOn) {
  const auto engine = load("llama", 64);
  const auto session = std::move(engine->new_session()).value();
  const std::vector<int32_t> negative = {1, -1}, large = {1, 1000000000};
  EXPECT_EQ(session->sync(negative).error().status, Status::invalid_argument);
  EXPECT_EQ(session->sync(large).error().status, Status::invalid_argument);
  EXPECT_EQ(session->sync({}).error().status, Status::invalid_argument);
  EXPECT_TRUE(session->sync(some_tokens(5, 1)).ok());
}

TEST(Session, CancelledBetweenChunksItCanGoOn) {
  const auto engine = load("llama", 64);
  const auto session = std::move(engine->new_session()).value();
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(session->sync(some_tokens(8, 1), &cancel).error().status, Status::cancelled);
  EXPECT_TRUE(session->sync(some_tokens(8, 1)).ok());
}

// Going back further than a window's pages are kept evaluates from the start, with the same result.
TEST(Session, GoingBackBehindAWindowIsRight) {
  const auto engine = load("gemma3", 2048);
  const auto tokens = some_tokens(1500, 3);
  const auto session = std::move(engine->new_session()).value(), fresh = std::move(engine->new_session()).value();
  ASSERT_TRUE(session->sync(tokens).ok());
  ASSERT_TRUE(session->sync(some_tokens(1501, 3)).ok());
  const auto start = std::span(tokens).first(70);
  ASSERT_TRUE(session->sync(start).ok());
  EXPECT_EQ(session->n_reused(), 0);
  ASSERT_TRUE(fresh->sync(start).ok());
  EXPECT_TRUE(std::equal(fresh->logits().begin(), fresh->logits().end(), session->logits().begin()));
}

TEST(Session, SharesWhatAWindowKeepsAndNothingElse) {
  const auto engine = load("gemma3", 2048), other = load("gemma3", 64);
  const auto tokens = some_tokens(1500, 3);
  const auto a = std::move(engine->new_session()).value(), b = std::move(engine->new_session()).value(),
             strange = std::move(other->new_session()).value();
  ASSERT_TRUE(a->sync(tokens).ok());
  ASSERT_TRUE(a->sync(some_tokens(1501, 3)).ok());
  EXPECT_EQ(a->kept_by(70), 0);
  EXPECT_EQ(a->kept_by(1400), 1400);
  EXPECT_EQ(b->share(*a, 70).error().status, Status::invalid_argument);
  EXPECT_EQ(b->share(*a, 1502).error().status, Status::invalid_argument);
  EXPECT_EQ(b->share(*a, -1).error().status, Status::invalid_argument);
  EXPECT_EQ(b->share(*b, 0).error().status, Status::invalid_argument);
  EXPECT_EQ(strange->share(*a, 1400).error().status, Status::invalid_argument);
  EXPECT_EQ(b->n_past(), 0);
  ASSERT_TRUE(b->share(*a, 1400).ok());
  ASSERT_TRUE(b->sync(tokens).ok());
  EXPECT_EQ(b->n_reused(), 1400);
  a->truncate(0);
  const auto fresh = std::move(engine->new_session()).value();
  ASSERT_TRUE(fresh->sync(tokens).ok());
  EXPECT_TRUE(std::equal(fresh->logits().begin(), fresh->logits().end(), b->logits().begin()));
  EXPECT_LE(engine->kv_use().bytes, 3 * engine->kv_bytes(1501));
}

TEST(Session, ARefusedStepChangesNoTimeline) {
  const auto engine = load("llama", 8), other = load("llama", 8);
  const auto a = std::move(engine->new_session()).value(), b = std::move(engine->new_session()).value(),
             strange = std::move(other->new_session()).value(), full = std::move(engine->new_session()).value();
  ASSERT_TRUE(a->sync(some_tokens(3, 1)).ok());
  ASSERT_TRUE(full->sync(some_tokens(8, 1)).ok());
  const std::vector<NextToken> too_many(kMaxBatch + 1, NextToken{a.get(), 1});
  const std::pair<std::vector<NextToken>, Status> refused[] = {
      {{}, Status::invalid_argument},
      {too_many, Status::invalid_argument},
      {{{a.get(), 1}, {a.get(), 1}}, Status::invalid_argument},
      {{{a.get(), 1}, {nullptr, 1}}, Status::invalid_argument},
      {{{a.get(), 1}, {strange.get(), 1}}, Status::invalid_argument},
      {{{a.get(), 1}, {b.get(), -1}}, Status::invalid_argument},
      {{{a.get(), 1}, {b.get(), 1000000000}}, Status::invalid_argument},
      {{{a.get(), 1}, {full.get(), 1}}, Status::limit_exceeded},
  };
  for (const auto& [next, status] : refused) {
    EXPECT_EQ(step(*engine, next).error().status, status);
    EXPECT_EQ(a->n_past(), 3);
    EXPECT_EQ(b->n_past(), 0);
  }
  const std::vector<NextToken> good = {{a.get(), 1}, {b.get(), 2}};
  EXPECT_TRUE(step(*engine, good).ok());
  EXPECT_EQ(a->n_past(), 4);
  EXPECT_EQ(b->n_past(), 1);
}

TEST(Timing, BatchesAndTurns) {
  const auto engine = load("llama", 64);
  const auto session = std::move(engine->new_session()).value();
  EXPECT_GT(time_batch(*engine, 3, 4, 5).value(), 0);
  EXPECT_EQ(time_batch(*engine, 2, 60, 5).error().status, Status::limit_exceeded);
  const auto turns = time_turns(*session, 3, 10);
  ASSERT_TRUE(turns.ok());
  EXPECT_EQ(turns->size(), 3U);
  EXPECT_EQ(session->n_past(), 30);
  EXPECT_EQ(session->n_reused(), 20);
}

TEST(Generate, GreedyIsRepeatableAndStopsAtTheLimit) {
  const auto engine = load("llama", 64);
  token::SamplerOptions greedy;
  greedy.temperature = 0;
  std::vector<std::vector<int32_t>> answers;
  for (int i = 0; i < 2; ++i) {
    const auto session = std::move(engine->new_session()).value();
    const auto stats = generate(*engine, *session, some_tokens(5, 2), greedy, 12, {});
    ASSERT_TRUE(stats.ok());
    EXPECT_LE(stats->n_generated, 12);
    answers.push_back(stats->tokens);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Generate, AFullContextEndsIt) {
  const auto engine = load("llama", 16);
  const auto session = std::move(engine->new_session()).value();
  token::SamplerOptions options;
  options.seed = 4;
  options.logit_bias = {};
  const auto stats = generate(*engine, *session, some_tokens(10, 2), options, 1000, {});
  ASSERT_TRUE(stats.ok()) << stats.error().message;
  EXPECT_TRUE(stats->stop == StopReason::context_full || stats->stop == StopReason::eog);
  EXPECT_LE(stats->n_generated, 7);
}

TEST(Engine, RefusesByName) {
  EngineOptions options;
  const auto error = [&](const std::string& path) { return Engine::load(path, options).error().message; };
  EXPECT_NE(error("/nowhere.gguf").find("/nowhere.gguf"), std::string::npos);
  options.no_fuse = {"nonsense"};
  EXPECT_NE(error(tiny_dir() + "/llama.gguf").find("row_chain"), std::string::npos);
  options.no_fuse.clear();
  options.isa = "sse9";
  EXPECT_NE(error(tiny_dir() + "/llama.gguf").find("sse9"), std::string::npos);
}

}  // namespace
}  // namespace quern::engine
