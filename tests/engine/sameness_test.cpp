// The promise "Same": logits do not depend on threads, on how a prompt is cut, on fusions or on the instruction set.
// Bit for bit, on every tiny model, past their windows and page borders.
#include "variants.h"

namespace quern::engine {
namespace {

constexpr size_t kTokens = 150;

// The logits after all tokens, the last ones evaluated one by one.
std::vector<float> decoded_logits(const std::string& path, const EngineOptions& options,
                                  const std::vector<int32_t>& tokens) {
  const auto engine = Engine::load(path, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return {};
  }
  const auto session = std::move((*engine)->new_session()).value();
  for (size_t n = tokens.size() - 10; n <= tokens.size(); ++n)
    EXPECT_TRUE(session->sync(std::span(tokens).first(n)).ok());
  return {session->logits().begin(), session->logits().end()};
}

class EveryModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryModel, LogitsDoNotDependOnHowTheyAreComputed) {
  const auto tokens = some_tokens(kTokens, 7);
  const auto expected = all_logits(GetParam(), base_options(), tokens);
  ASSERT_FALSE(expected.empty());
  const std::vector<float> last(expected.end() - static_cast<std::ptrdiff_t>(expected.size() / kTokens),
                                expected.end());
  for (const Variant& v : variants()) {
    EXPECT_TRUE(same(expected, all_logits(GetParam(), v.options, tokens))) << v.name;
    EXPECT_TRUE(same(last, decoded_logits(GetParam(), v.options, tokens))) << v.name << ", decoded";
  }
  auto other = tokens;
  other[3] ^= 1;
  EXPECT_FALSE(same(expected, all_logits(GetParam(), base_options(), other))) << "the comparison sees nothing";
}

// Prompt at once, token by token, in uneven pieces, after another conversation, and after going back.
TEST_P(EveryModel, LogitsDoNotDependOnTheSessionsPast) {
  const auto tokens = some_tokens(kTokens, 8);
  const auto engine = Engine::load(GetParam(), base_options());
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const auto fresh = [&] { return std::move((*engine)->new_session()).value(); };
  const auto at_once = fresh();
  ASSERT_TRUE(at_once->sync(tokens).ok());
  const std::vector<float> expected(at_once->logits().begin(), at_once->logits().end());

  const auto one_by_one = fresh();
  for (size_t n = 1; n <= tokens.size(); ++n) ASSERT_TRUE(one_by_one->sync(std::span(tokens).first(n)).ok());
  EXPECT_TRUE(same(expected, one_by_one->logits()));
  EXPECT_EQ(one_by_one->n_reused(), static_cast<int>(tokens.size()) - 1);

  const auto uneven = fresh();
  for (const size_t n : {size_t{2}, size_t{9}, size_t{10}, size_t{77}, tokens.size()})
    ASSERT_TRUE(uneven->sync(std::span(tokens).first(n)).ok());
  EXPECT_TRUE(same(expected, uneven->logits()));

  const auto reused = fresh();
  ASSERT_TRUE(reused->sync(some_tokens(kTokens, 9)).ok());
  auto other_end = tokens;
  for (size_t i = 100; i < other_end.size(); ++i) other_end[i] = (other_end[i] + 1) % 500;
  ASSERT_TRUE(reused->sync(other_end).ok());
  ASSERT_TRUE(reused->sync(tokens).ok());
  EXPECT_EQ(reused->n_reused(), 100);
  EXPECT_TRUE(same(expected, reused->logits()));

  ASSERT_TRUE(reused->sync(tokens).ok());  // again: only the last token is evaluated
  EXPECT_EQ(reused->n_reused(), static_cast<int>(tokens.size()) - 1);
  EXPECT_TRUE(same(expected, reused->logits()));
}

// Sessions that share pages go their own ways: neither sees what the other writes, whoever goes first.
TEST_P(EveryModel, LogitsDoNotDependOnSharedPages) {
  const auto engine = Engine::load(GetParam(), base_options());
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const auto fresh = [&] { return std::move((*engine)->new_session()).value(); };
  const auto logits_of = [&](Session& session, const std::vector<int32_t>& tokens) {
    EXPECT_TRUE(session.sync(tokens).ok());
    return std::vector<float>(session.logits().begin(), session.logits().end());
  };
  const auto tokens = some_tokens(kTokens, 31);
  const auto with_end = [&](size_t n, uint32_t seed) {
    auto other = tokens;
    other.resize(n);
    for (const int32_t id : some_tokens(30, seed)) other.push_back(id);
    return other;
  };
  const auto first = fresh(), second = fresh(), third = fresh();
  const auto expected = logits_of(*first, tokens);
  const uint64_t pages = (*engine)->kv_use().pages;
  for (const int n : {100, 64}) {  // within a page, and at a page's border
    ASSERT_TRUE(second->share(*first, n).ok());
    EXPECT_EQ((*engine)->kv_use().pages, pages);
    EXPECT_EQ(second->n_past(), n);
    ASSERT_TRUE(third->share(*second, n - 1).ok());
    const auto a = with_end(static_cast<size_t>(n), 5), b = with_end(static_cast<size_t>(n) - 1, 6);
    EXPECT_TRUE(same(logits_of(*fresh(), a), logits_of(*second, a)));
    EXPECT_EQ(second->n_reused(), n);
    EXPECT_TRUE(same(logits_of(*fresh(), b), logits_of(*third, b)));
    EXPECT_TRUE(same(logits_of(*second, a), logits_of(*fresh(), a)));
    first->truncate(n - 5);
    EXPECT_TRUE(same(expected, logits_of(*first, tokens)));
    second->truncate(0);
    third->truncate(0);
    EXPECT_TRUE(third->share(*first, 0).ok());
    EXPECT_TRUE(second->share(*first, 0).ok());
    EXPECT_EQ((*engine)->kv_use().pages, pages);
  }
}

// Two long prompts in turn, each three times: pages behind windows come and go, and leave nothing behind.
TEST_P(EveryModel, TwoLongPromptsInTurnGiveTheSameLogitsEachTime) {
  const auto engine = Engine::load(GetParam(), base_options());
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const std::vector<int32_t> prompts[] = {some_tokens(400, 21), some_tokens(333, 22)};
  std::vector<float> expected[2];
  const auto session = std::move((*engine)->new_session()).value();
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(session->sync(prompts[i]).ok());
      if (turn == 0) expected[i].assign(session->logits().begin(), session->logits().end());
      EXPECT_TRUE(same(expected[i], session->logits())) << "turn " << turn << " prompt " << i;
    }
  }
  EXPECT_FALSE(same(expected[0], expected[1]));
}

// Sessions at different positions that go on together get what each would get alone.
TEST_P(EveryModel, LogitsDoNotDependOnTheCompanyInAStep) {
  EngineOptions options = base_options();
  options.n_threads = 2;
  const auto engine = Engine::load(GetParam(), options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  for (const size_t n : {1, 2, 8, 9}) {
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<std::vector<int32_t>> timelines;
    std::vector<NextToken> next;
    for (size_t i = 0; i < n; ++i) {
      sessions.push_back(std::move((*engine)->new_session()).value());
      timelines.push_back(some_tokens(62 + 11 * i, static_cast<uint32_t>(i)));
      // One of them begins with the step itself.
      if (i == 1) {
        timelines[i].clear();
      } else {
        ASSERT_TRUE(sessions[i]->sync(timelines[i]).ok());
      }
      next.push_back({sessions[i].get(), 0});
    }
    for (int32_t token = 20; token < 23; ++token) {
      for (size_t i = 0; i < n; ++i) timelines[i].push_back(next[i].token = token + static_cast<int32_t>(i));
      ASSERT_TRUE(step(**engine, next).ok());
    }
    for (size_t i = 0; i < n; ++i) {
      const auto alone = std::move((*engine)->new_session()).value();
      ASSERT_TRUE(alone->sync(timelines[i]).ok());
      EXPECT_TRUE(same({alone->logits().begin(), alone->logits().end()}, sessions[i]->logits())) << i << " of " << n;
      EXPECT_EQ(sessions[i]->n_past(), static_cast<int>(timelines[i].size()));
      timelines[i].push_back(9);
      ASSERT_TRUE(sessions[i]->sync(timelines[i]).ok());
      EXPECT_EQ(sessions[i]->n_reused(), static_cast<int>(timelines[i].size()) - 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryModel, ::testing::ValuesIn(tiny_models()), [](const auto& which) {
  std::string name = std::filesystem::path(which.param).stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace quern::engine
