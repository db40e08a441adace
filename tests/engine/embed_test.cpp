// Embeddings: the pools by themselves, the promise "Same" for them, what a session's past may and may not change, and
// what is refused. That they are right is golden_test.cpp's.
#include <cmath>

#include "engine/pooling.h"
#include "variants.h"

namespace quern::engine {
namespace {

using model::Pooling;

constexpr size_t kTokens = 150;

EngineOptions options_for(const std::string& pooling) {
  EngineOptions options = base_options();
  options.pooling = pooling;
  return options;
}

std::shared_ptr<Engine> load(const std::string& path, const EngineOptions& options) {
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *engine : nullptr;
}

std::vector<float> embedded(Session& session, std::span<const int32_t> tokens) {
  const auto done = session.embed(tokens);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return {session.embedding().begin(), session.embedding().end()};
}

std::vector<float> embedded(Engine& engine, std::span<const int32_t> tokens) {
  return embedded(*std::move(engine.new_session()).value(), tokens);
}

TEST(Pool, WordsAndFiles) {
  EXPECT_EQ(*choose_pooling("", Pooling::unstated), Pooling::last);
  EXPECT_EQ(*choose_pooling("auto", Pooling::mean), Pooling::mean);
  EXPECT_EQ(*choose_pooling("auto", Pooling::cls), Pooling::cls);
  EXPECT_EQ(*choose_pooling("last", Pooling::mean), Pooling::last) << "who says it wins over the file";
  EXPECT_EQ(*choose_pooling("mean", Pooling::none), Pooling::mean);
  EXPECT_EQ(choose_pooling("", Pooling::none).error().status, Status::unsupported);
  EXPECT_EQ(choose_pooling("", Pooling::rank).error().status, Status::unsupported);
  EXPECT_EQ(choose_pooling("max", Pooling::mean).error().status, Status::invalid_argument);
  for (const char* word : {"mean", "cls", "last"})
    EXPECT_STREQ(pooling_name(*choose_pooling(word, Pooling::none)), word);
}

// Three positions in runs of two and one, of two numbers each.
TEST(Pool, Vectors) {
  const float states[] = {3, 0, 0, 4, 0, -8};
  const struct {
    Pooling how;
    float x, y;
  } rows[] = {{Pooling::mean, 0.6F, -0.8F}, {Pooling::cls, 1, 0}, {Pooling::last, 0, -1}};
  for (const auto& row : rows) {
    Pool pool(row.how, 2);
    float out[2];
    EXPECT_FALSE(pool.vector(out).ok()) << "there is nothing in it yet";
    for (const int first : {0, 2}) {
      const int n = first == 0 ? 2 : 1;
      int32_t wanted[2];
      std::vector<float> chosen;
      const int n_wanted = pool.wanted(first, n, first == 2, wanted);
      for (int i = 0; i < n_wanted; ++i) {
        const auto at = static_cast<size_t>(2 * (first + wanted[i]));
        chosen.insert(chosen.end(), {states[at], states[at + 1]});
      }
      pool.add(n, chosen);
    }
    ASSERT_TRUE(pool.vector(out).ok());
    EXPECT_FLOAT_EQ(out[0], row.x) << pooling_name(row.how);
    EXPECT_FLOAT_EQ(out[1], row.y) << pooling_name(row.how);
    // A text of 5 tokens that shares 4 with these three and one more; one that shares 2.
    const bool last = row.how == Pooling::last;
    EXPECT_EQ(pool.begins_at(4, 5), last ? 4U : 3U);
    EXPECT_EQ(pool.begins_at(3, 3), last ? 2U : 3U);
    EXPECT_EQ(pool.begins_at(2, 5), last ? 2U : 0U);
    pool.truncate(2);
    EXPECT_TRUE(last || !pool.vector(out).ok()) << "a sum cannot give back what it took";
    EXPECT_EQ(pool.begins_at(2, 5), last ? 2U : 0U);
  }
}

TEST(Pool, WithoutADirectionThereIsNoVector) {
  for (const float bad : {0.0F, NAN, INFINITY}) {
    Pool pool(Pooling::last, 2);
    const float states[] = {bad, 0};
    pool.add(1, states);
    float out[2];
    const auto done = pool.vector(out);
    ASSERT_FALSE(done.ok()) << bad;
    EXPECT_EQ(done.error().status, Status::unsupported);
  }
}

class EmbedModel : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return tiny_dir() + "/" + GetParam() + ".gguf"; }
};
INSTANTIATE_TEST_SUITE_P(Tiny, EmbedModel,
                         ::testing::Values("llama", "llama-q-q4_0", "qwen2", "qwen3-q-q4_k", "gemma2", "gemma3-q-mix",
                                           "phi3-long", "mistral3", "gpt-oss-q-mxfp4", "qwen2moe", "qwen3moe",
                                           "glm4moe", "llama4"),
                         [](const auto& which) {
                           std::string name = which.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST_P(EmbedModel, VectorsDoNotDependOnHowTheyAreComputed) {
  const auto tokens = some_tokens(kTokens, 7);
  for (const char* pooling : {"mean", "last", "cls"}) {
    const auto plain = load(path(), options_for(pooling));
    ASSERT_NE(plain, nullptr);
    const auto expected = embedded(*plain, tokens);
    ASSERT_EQ(expected.size(), static_cast<size_t>(plain->n_embedding()));
    double square = 0;
    for (const float x : expected) square += double{x} * double{x};
    EXPECT_NEAR(square, 1, 1e-5);
    auto other = tokens;
    other[std::string(pooling) == "cls" ? 0 : 3] ^= 1;
    EXPECT_FALSE(same(expected, embedded(*plain, other))) << "the comparison sees nothing";
    if (std::string(pooling) == "cls") continue;  // one row of the same runs
    for (Variant& v : variants()) {
      v.options.pooling = pooling;
      const auto engine = load(path(), v.options);
      ASSERT_NE(engine, nullptr);
      EXPECT_TRUE(same(expected, embedded(*engine, tokens))) << pooling << ", " << v.name;
    }
  }
}

// In growing slices, after another text, after answers, on pages of another session, and in turn with logits.
TEST_P(EmbedModel, VectorsDoNotDependOnTheSessionsPast) {
  const auto tokens = some_tokens(kTokens, 8);
  const std::span<const int32_t> all(tokens);
  for (const char* pooling : {"mean", "cls", "last"}) {
    const bool last = std::string(pooling) == "last";
    const auto engine = load(path(), options_for(pooling));
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->embeds_from_prefix(), last);
    EXPECT_EQ(*engine->pooling(), pooling);
    const auto fresh = [&] { return std::move(engine->new_session()).value(); };
    const auto expected = embedded(*engine, tokens);

    const auto growing = fresh();
    for (const size_t n : {size_t{1}, size_t{2}, size_t{9}, size_t{70}, tokens.size()}) {
      const auto slice = embedded(*growing, all.first(n));
      EXPECT_EQ(growing->n_past(), static_cast<int>(n));
      if (n != 70) continue;
      EXPECT_EQ(growing->n_reused(), 9) << "only what is new is evaluated";
      EXPECT_TRUE(same(slice, embedded(*engine, all.first(n))));
    }
    EXPECT_TRUE(same(expected, growing->embedding()));
    EXPECT_TRUE(same(expected, embedded(*growing, tokens)));
    EXPECT_EQ(growing->n_reused(), static_cast<int>(tokens.size()) - (last ? 1 : 0));

    // A shorter text of the same beginning, and the whole again.
    EXPECT_TRUE(same(embedded(*engine, all.first(100)), embedded(*growing, all.first(100))));
    EXPECT_TRUE(same(expected, embedded(*growing, tokens)));

    const auto used = fresh();
    embedded(*used, some_tokens(kTokens, 9));
    EXPECT_TRUE(same(expected, embedded(*used, tokens)));

    // Pages that logits were made with. The logits are none the worse for it.
    const auto answered = fresh();
    ASSERT_TRUE(answered->sync(tokens).ok());
    const std::vector<float> logits(answered->logits().begin(), answered->logits().end());
    EXPECT_TRUE(same(expected, embedded(*answered, tokens)));
    EXPECT_EQ(answered->n_reused(), last ? static_cast<int>(tokens.size()) - 1 : 0);
    ASSERT_TRUE(answered->sync(tokens).ok());
    EXPECT_TRUE(same(logits, answered->logits()));
    EXPECT_TRUE(same(expected, embedded(*answered, tokens)));

    const auto sharing = fresh();
    ASSERT_TRUE(sharing->share(*answered, 100).ok());
    EXPECT_TRUE(same(expected, embedded(*sharing, tokens)));
    EXPECT_EQ(sharing->n_reused(), last ? 100 : 0);
    ASSERT_TRUE(sharing->share(*answered, 64).ok());
    EXPECT_TRUE(same(embedded(*engine, all.first(80)), embedded(*sharing, all.first(80))));
  }
}

TEST(Embed, WhatIsRefused) {
  const std::string path = tiny_dir() + "/llama.gguf";
  const auto engine = load(path, options_for(""));
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(*engine->pooling(), "last");
  const auto session = std::move(engine->new_session()).value();
  const auto refused = [&](const std::vector<int32_t>& tokens, const std::atomic<bool>* cancel = nullptr) {
    const auto done = session->embed(tokens, cancel);
    return done.ok() ? Error{Status::ok, ""} : done.error();
  };
  EXPECT_EQ(refused({}).status, Status::invalid_argument);
  EXPECT_EQ(refused({1, 99999}).status, Status::invalid_argument);
  const Error too_long = refused(some_tokens(513, 1));
  EXPECT_EQ(too_long.status, Status::limit_exceeded);
  for (const char* number : {"513", "512"}) EXPECT_NE(too_long.message.find(number), std::string::npos);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(refused(some_tokens(5, 1), &cancel).status, Status::cancelled);
  EXPECT_TRUE(session->embed(some_tokens(512, 1)).ok()) << "a full context";
  EXPECT_EQ(Engine::load(path, options_for("max")).error().status, Status::invalid_argument);
}

}  // namespace
}  // namespace quern::engine
