// The scheduler: queue, limits, cancellation, draining, errors, and what it counts.
#include "serve/scheduler.h"

#include "serve_testing.h"

namespace quern::serve {
namespace {

using engine::some_tokens;

TEST(Scheduler, AFullQueueIsRefusedWithATime) {
  Gate gate;
  const auto engine = load_tiny("llama");
  SchedulerOptions options;
  options.parallel = 1;
  options.max_queue = 2;
  const auto scheduler = start(engine, options);
  Request held = request(some_tokens(5, 1), 4);
  held.mask = std::make_unique<GateMask>(gate, engine->n_vocab());
  std::vector<Submission> taken;
  taken.push_back(scheduler->submit(std::move(held)));
  gate.wait_reached();
  for (uint32_t i = 0; i < 2; ++i) taken.push_back(scheduler->submit(request(some_tokens(5, i + 2), 4)));
  for (const Submission& s : taken) ASSERT_NE(s.stream, nullptr);
  const Submission refused = scheduler->submit(request(some_tokens(5, 9), 4));
  EXPECT_EQ(refused.stream, nullptr);
  EXPECT_EQ(refused.refusal.kind, Refusal::Kind::busy);
  EXPECT_GE(refused.refusal.retry_after_seconds, 1);
  EXPECT_NE(refused.refusal.message.find("2 requests"), std::string::npos);
  EXPECT_EQ(scheduler->stats().n_queued, 2);
  EXPECT_EQ(scheduler->stats().n_refused, 1U);
  // One that was cancelled in the queue makes room at once, and gets its end from whoever takes its place.
  taken[1].stream->cancel();
  Submission next = scheduler->submit(request(some_tokens(5, 9), 4));
  ASSERT_NE(next.stream, nullptr);
  EXPECT_EQ(read_all(*taken[1].stream).finish.reason, FinishReason::cancelled);
  gate.release();
  for (Stream* stream : {taken[0].stream.get(), taken[2].stream.get(), next.stream.get()})
    EXPECT_NE(read_all(*stream).finish.reason, FinishReason::cancelled);
}

TEST(Scheduler, TheWatchdogSeesAnEngineThreadThatHangs) {
  Gate gate;
  const auto engine = load_tiny("llama", 64, 2);
  const auto scheduler = start(engine);
  EXPECT_TRUE(scheduler->stats().stalled_seconds < 60);
  Request held = request(some_tokens(5, 1), 4);
  held.mask = std::make_unique<GateMask>(gate, engine->n_vocab());
  const Submission taken = scheduler->submit(std::move(held));
  gate.wait_reached();
  const double first = scheduler->stats().stalled_seconds;
  while (scheduler->stats().stalled_seconds < first + 0.01) std::this_thread::yield();
  gate.release();
  read_all(*taken.stream);
  while (scheduler->stats().stalled_seconds != 0) std::this_thread::yield();
}

TEST(Scheduler, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const auto scheduler = start(load_tiny("llama", 32));
  const Submission refused = scheduler->submit(request(some_tokens(33, 1), 4));
  EXPECT_EQ(refused.stream, nullptr);
  EXPECT_EQ(refused.refusal.kind, Refusal::Kind::too_long);
  EXPECT_EQ(refused.refusal.n_prompt, 33);
  EXPECT_EQ(refused.refusal.n_ctx, 32);
  EXPECT_NE(refused.refusal.message.find("33"), std::string::npos);
  EXPECT_NE(refused.refusal.message.find("32"), std::string::npos);
  EXPECT_EQ(scheduler->stats().n_slices, 0U);
  // A prompt that fills the context gets the one token that follows it; so does any that runs into its end.
  const Answer full = ask(*scheduler, endless(some_tokens(32, 1)));
  EXPECT_EQ(full.finish.reason, FinishReason::context_full);
  EXPECT_EQ(full.tokens.size(), 1U);
  EXPECT_EQ(ask(*scheduler, endless(some_tokens(20, 1))).tokens.size(), 13U);
}

TEST(Scheduler, RefusesByName) {
  const auto scheduler = start(load_tiny("llama"));
  const auto message = [&](auto change) {
    Request r = request(some_tokens(5, 1), 4);
    change(r);
    const Submission s = scheduler->submit(std::move(r));
    EXPECT_EQ(s.stream, nullptr);
    EXPECT_EQ(s.refusal.kind, Refusal::Kind::invalid);
    return s.refusal.message;
  };
  const auto has = [&](const char* part, auto change) {
    const std::string text = message(change);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has("no tokens", [](Request& r) { r.prompt.clear(); });
  has("-1", [](Request& r) { r.prompt = {1, -1}; });
  has("1000000000", [](Request& r) { r.prompt = {1, 1000000000}; });
  has("stop tokens", [](Request& r) { r.stop_tokens = {-5}; });
  has("max_tokens", [](Request& r) { r.max_tokens = -2; });
  has("top_p", [](Request& r) { r.sampling.top_p = 2; });
  has("temperature", [](Request& r) { r.sampling.temperature = std::numeric_limits<float>::infinity(); });
  has("logit_bias", [](Request& r) { r.sampling.logit_bias = {{-1, 1.0F}}; });
  has("logit_bias", [](Request& r) { r.sampling.logit_bias = {{1, std::nanf("")}}; });
  has("empty", [](Request& r) { r.stop = {""}; });
  has("longer", [](Request& r) { r.stop = {std::string(5000, 'x')}; });
  has("stop strings", [](Request& r) { r.stop.assign(65, "x"); });
  has("likeliest", [](Request& r) { r.n_logprobs = 65; });
  const auto parser = [] { return token::make_reply_parser(token::ReplyFormat::think); };
  has("insertion has no tokens", [&](Request& r) { r.insertion = Insertion{1, {}, parser()}; });
  has("insertion: token id -2", [&](Request& r) { r.insertion = Insertion{1, {-2}, parser()}; });
  has("no parser", [](Request& r) { r.insertion = Insertion{1, {1}, nullptr}; });
  Request many = request(some_tokens(5, 1), 4);
  many.sampling.repeat_penalty = 1.1F;
  many.sampling.repeat_last_n = INT32_MAX;  // no memory is taken by it
  EXPECT_EQ(ask(*scheduler, std::move(many)).finish.n_prompt, 5);
  SchedulerOptions bad;
  bad.parallel = 65;
  EXPECT_EQ(Scheduler::create(load_tiny("llama"), bad).error().status, Status::invalid_argument);
}

TEST(Scheduler, CancellationTakesEffectWithinAToken) {
  const auto scheduler = start(load_tiny("llama", 4096));
  const Submission taken = scheduler->submit(endless(some_tokens(5, 1)));
  Answer answer;
  ASSERT_TRUE(read_until(*taken.stream, answer, [](const Answer& a) { return a.tokens.size() >= 3; }));
  taken.stream->cancel();
  // The cancellation is out before the progress is read. (A fence would say it, which ThreadSanitizer does not know.)
  std::atomic<int>(0).fetch_add(1, std::memory_order_seq_cst);
  const int then = taken.stream->progress().n_generated;
  ASSERT_TRUE(read_until(*taken.stream, answer, [](const Answer&) { return false; }));
  EXPECT_EQ(answer.finish.reason, FinishReason::cancelled);
  EXPECT_LE(answer.finish.n_generated, then + 1);
  // Whoever sees the end sees the row free.
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.n_generating + stats.n_prompt, 0);
  EXPECT_EQ(stats.n_cancelled, 1U);
}

TEST(Scheduler, AStreamThatGoesAwayIsCancelled) {
  SchedulerOptions options;
  options.parallel = 1;
  const auto scheduler = start(load_tiny("llama", 4096), options);
  Submission gone = scheduler->submit(endless(some_tokens(5, 1)));
  Submission queued = scheduler->submit(endless(some_tokens(5, 2)));
  gone.stream->wait(kLong);
  queued.stream.reset();
  gone.stream.reset();
  EXPECT_EQ(ask(*scheduler, request(some_tokens(5, 3), 2)).finish.n_prompt, 5);
  EXPECT_EQ(scheduler->stats().n_cancelled, 2U);
}

TEST(Scheduler, CancellationEndsALongPromptBetweenSlices) {
  SchedulerOptions options;
  options.slice_alone = Seconds(1e-9);  // the smallest slices
  const auto scheduler = start(load_tiny("llama", 8192), options);
  const Submission taken = scheduler->submit(request(some_tokens(8000, 1), 4));
  while (taken.stream->progress().n_prompt_done == 0) std::this_thread::yield();
  taken.stream->cancel();
  const Answer answer = read_all(*taken.stream);
  EXPECT_EQ(answer.finish.reason, FinishReason::cancelled);
  EXPECT_LT(taken.stream->progress().n_prompt_done, 8000);
  // What was evaluated is there for the next.
  Request again = request(some_tokens(200, 1), 1);
  EXPECT_GT(ask(*scheduler, std::move(again)).finish.n_cached, 0);
}

TEST(Scheduler, RunningStreamsGoOnWhileALongPromptComesIn) {
  SchedulerOptions options;
  options.slice = Seconds(1e-9);  // 16 tokens
  const auto scheduler = start(load_tiny("llama", 8192), options);
  const Submission running = scheduler->submit(endless(some_tokens(5, 1)));
  Answer answer;
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer& a) { return !a.tokens.empty(); }));
  const Submission prompt = scheduler->submit(request(some_tokens(1600, 2), 1));
  while (prompt.stream->progress().n_prompt_done == 0) std::this_thread::yield();
  const int before = running.stream->progress().n_generated;
  EXPECT_EQ(read_all(*prompt.stream).finish.reason, FinishReason::max_tokens);
  // 100 slices, less those of the first look, each with a step before it.
  EXPECT_GE(running.stream->progress().n_generated - before, 50);
}

TEST(Scheduler, AShortPromptNeedNotWaitForALongOne) {
  SchedulerOptions options;
  options.slice_alone = options.slice = Seconds(1e-9);
  const auto scheduler = start(load_tiny("llama", 8192), options);
  const Submission slow = scheduler->submit(request(some_tokens(8000, 1), 1));
  while (slow.stream->progress().n_prompt_done == 0) std::this_thread::yield();
  EXPECT_EQ(ask(*scheduler, request(some_tokens(40, 2), 1)).finish.n_generated, 1);
  EXPECT_LT(slow.stream->progress().n_prompt_done, 8000);
}

TEST(Scheduler, ClientsTakeTurns) {
  Gate gate;
  const auto engine = load_tiny("llama");
  SchedulerOptions options;
  options.parallel = 1;
  const auto scheduler = start(engine, options);
  std::mutex mutex;
  std::string order;
  const auto of = [&](const std::string& client, uint32_t seed) {
    Request r = request(some_tokens(5, seed), 1);
    r.client = client;
    auto once = std::make_shared<bool>(false);
    r.on_ready = [&mutex, &order, client, once] {
      const std::lock_guard lock(mutex);
      if (!std::exchange(*once, true)) order += client;
    };
    return r;
  };
  Request held = of("a", 1);
  held.mask = std::make_unique<GateMask>(gate, engine->n_vocab());
  std::vector<Submission> all;
  all.push_back(scheduler->submit(std::move(held)));
  gate.wait_reached();
  for (const char* client : {"a", "a", "a", "b", "b", "c"})
    all.push_back(scheduler->submit(of(client, static_cast<uint32_t>(all.size() + 1))));
  gate.release();
  for (const Submission& s : all) read_all(*s.stream);
  EXPECT_EQ(order, "abcabaa");
}

TEST(Scheduler, DrainTakesNothingMoreAndFinishesTheRest) {
  Gate gate;
  const auto engine = load_tiny("llama");
  SchedulerOptions options;
  options.parallel = 1;
  const auto scheduler = start(engine, options);
  Request held = request(some_tokens(5, 1), 3);
  held.mask = std::make_unique<GateMask>(gate, engine->n_vocab());
  held.ignore_eog = true;
  const Submission running = scheduler->submit(std::move(held)),
                   queued = scheduler->submit(request(some_tokens(6, 2), 3));
  gate.wait_reached();
  scheduler->drain();
  const Submission refused = scheduler->submit(request(some_tokens(5, 3), 3));
  EXPECT_EQ(refused.stream, nullptr);
  EXPECT_EQ(refused.refusal.kind, Refusal::Kind::stopping);
  EXPECT_FALSE(scheduler->wait_idle(Seconds(0.001)));
  gate.release();
  EXPECT_TRUE(scheduler->wait_idle(kLong));
  EXPECT_EQ(read_all(*running.stream).finish.reason, FinishReason::max_tokens);
  EXPECT_NE(read_all(*queued.stream).finish.reason, FinishReason::shutdown);
  EXPECT_TRUE(scheduler->stats().draining);
}

TEST(Scheduler, StopEndsEveryStream) {
  SchedulerOptions options;
  options.parallel = 1;
  auto scheduler = start(load_tiny("llama", 4096), options);
  const Submission running = scheduler->submit(endless(some_tokens(5, 1))),
                   queued = scheduler->submit(endless(some_tokens(6, 2)));
  Answer answer;
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer& a) { return !a.tokens.empty(); }));
  scheduler->stop();
  scheduler->stop();
  EXPECT_EQ(scheduler->submit(request(some_tokens(5, 3), 3)).refusal.kind, Refusal::Kind::stopping);
  scheduler.reset();  // streams outlive it
  EXPECT_EQ(read_all(*running.stream).finish.reason, FinishReason::shutdown);
  EXPECT_EQ(read_all(*queued.stream).finish.reason, FinishReason::shutdown);
  EXPECT_TRUE(queued.stream->wait(kLong).empty());  // at once: nothing comes after Finish
}

TEST(Scheduler, AtItsEndNoPageIsLeft) {
  const auto engine = load_tiny("llama", 4096);
  auto scheduler = start(engine);
  ask(*scheduler, request(some_tokens(200, 1), 4));
  EXPECT_GT(scheduler->stats().kv_pages, 0U);  // the prefix cache's
  const Submission running = scheduler->submit(endless(some_tokens(100, 1)));
  Answer answer;
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer& a) { return !a.tokens.empty(); }));
  ::testing::internal::CaptureStderr();
  scheduler->stop();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(scheduler->stats().kv_pages, 0U);
  EXPECT_EQ(engine->kv_use().pages, 0U);
  // The control: a session that nobody should hold shows.
  const auto other = load_tiny("llama", 4096);
  const auto held = std::move(other->new_session()).value();
  ASSERT_TRUE(held->sync(some_tokens(100, 1)).ok());
  scheduler = start(other);
  ::testing::internal::CaptureStderr();
  scheduler->stop();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("pages of keys and values were not given back"),
            std::string::npos);
}

// A step that fails for one row is made again row by row; only that one ends.
TEST(Scheduler, AnEngineErrorFailsOneRequestOnly) {
  constexpr int32_t kBad = 77;
  const auto reference = load_tiny("llama");
  SchedulerOptions options;
  options.step = [](engine::Engine& e, std::span<const engine::NextToken> next) -> Result<void> {
    for (const engine::NextToken& one : next) {
      if (one.token == kBad) return Error{Status::io_error, "the device went away"};
    }
    return engine::step(e, next);
  };
  const auto scheduler = start(load_tiny("llama"), options);
  token::SamplerOptions never = greedy(), always = greedy();
  never.logit_bias = {{kBad, -std::numeric_limits<float>::infinity()}};
  always.logit_bias = {{kBad, 1e30F}};
  std::vector<Submission> good;
  for (uint32_t i = 0; i < 3; ++i) good.push_back(scheduler->submit(request(some_tokens(20 + i, i), 30, never)));
  const Submission bad = scheduler->submit(request(some_tokens(9, 8), 30, always));
  const Answer failed = read_all(*bad.stream);
  EXPECT_EQ(failed.finish.reason, FinishReason::error);
  ASSERT_TRUE(failed.finish.error.has_value());
  EXPECT_EQ(failed.finish.error->message, "the device went away");
  EXPECT_EQ(failed.tokens, std::vector<int32_t>{kBad});
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ(read_all(*good[i].stream).tokens, alone(*reference, some_tokens(20 + i, i), 30, never).tokens);
  EXPECT_EQ(scheduler->stats().n_failed, 1U);
}

// Where pages are short, kept timelines go and requests wait, and all get their answer.
TEST(Scheduler, ASmallBudgetOfPagesIsKept) {
  const auto engine = load_tiny("llama", 512), reference = load_tiny("llama", 512);
  SchedulerOptions options;
  options.kv_bytes = 1;  // raised to one full context
  options.parallel = 4;
  const auto scheduler = start(engine, options);
  const uint64_t budget = scheduler->stats().kv_bytes_budget;
  EXPECT_EQ(budget, engine->kv_bytes(512 + 64));
  std::vector<Submission> all;
  for (uint32_t i = 0; i < 12; ++i) all.push_back(scheduler->submit(request(some_tokens(150, i), 60)));
  for (uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(read_all(*all[i].stream).tokens, alone(*reference, some_tokens(150, i), 60, greedy()).tokens);
    EXPECT_LE(scheduler->stats().kv_bytes, budget);
  }
  EXPECT_LT(scheduler->stats().n_kept, 12);
  EXPECT_GT(scheduler->stats().n_kept, 0);
}

}  // namespace
}  // namespace quern::serve
