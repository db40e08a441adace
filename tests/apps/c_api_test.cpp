// The C interface as a program outside uses it: statuses, messages, room conventions, lifetimes.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "quern/quern.hpp"

namespace quern::api {
namespace {

std::string tiny(const char* name) {
  const char* data = std::getenv("QUERN_TEST_DATA");
  return std::string(data != nullptr ? data : "build/testdata") + "/tiny/" + name + ".gguf";
}

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(quern_engine_load(tiny("llama").c_str(), nullptr, &engine_), QUERN_OK)
        << quern_last_error() << "; tools/make_testdata.py makes it";
  }
  void TearDown() override { quern_engine_free(engine_); }
  quern_engine* engine_ = nullptr;
};

TEST(CApiLoad, FailuresHaveAStatusAndAMessage) {
  quern_engine* engine = reinterpret_cast<quern_engine*>(1);
  EXPECT_EQ(quern_engine_load("/nowhere.gguf", nullptr, &engine), QUERN_NOT_FOUND);
  EXPECT_EQ(engine, nullptr);
  EXPECT_NE(std::string(quern_last_error()).find("/nowhere.gguf"), std::string::npos);
  EXPECT_EQ(quern_engine_load(nullptr, nullptr, &engine), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_engine_load("x", nullptr, nullptr), QUERN_INVALID_ARGUMENT);
  quern_engine_options options = quern_engine_defaults();
  options.isa = "abacus";
  EXPECT_NE(quern_engine_load(tiny("llama").c_str(), &options, &engine), QUERN_OK);
  EXPECT_NE(std::string(quern_last_error()).find("abacus"), std::string::npos);
  options = quern_engine_options{};  // size 0: not from the defaults
  EXPECT_EQ(quern_engine_load(tiny("llama").c_str(), &options, &engine), QUERN_INVALID_ARGUMENT);
  quern_engine_free(nullptr);
  quern_session_free(nullptr);
}

TEST(CApiLoad, AnOlderCallersShorterOptionsCount) {
  quern_engine_options options = quern_engine_defaults();
  options.n_ctx = 48;
  options.isa = "not read";
  options.size = offsetof(quern_engine_options, isa);
  quern_engine* engine = nullptr;
  ASSERT_EQ(quern_engine_load(tiny("llama").c_str(), &options, &engine), QUERN_OK) << quern_last_error();
  EXPECT_EQ(quern_engine_n_ctx(engine), 48);
  quern_engine_free(engine);
}

size_t files_in(const std::filesystem::path& folder) {
  std::error_code error;
  size_t n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) n += entry.is_regular_file();
  return n;
}

TEST(CApiLoad, ImagesAreMadeAndUsedWhereAskedFor) {
  const std::string folder = ::testing::TempDir() + "quern_c_api_" + std::to_string(::getpid());
  const auto load = [&](const char* image, const char* tune) {
    quern_engine_options options = quern_engine_defaults();
    options.image = image;
    options.tune = tune;
    options.cache = folder.c_str();
    quern_engine* engine = nullptr;
    const quern_status status = quern_engine_load(tiny("llama-q-q4_0").c_str(), &options, &engine);
    quern_engine_free(engine);
    return status;
  };
  EXPECT_EQ(load(nullptr, nullptr), QUERN_OK);
  EXPECT_EQ(load("off", "auto"), QUERN_OK) << quern_last_error();
  EXPECT_EQ(files_in(folder), 0U);
  EXPECT_EQ(load("auto", nullptr), QUERN_OK);
  EXPECT_EQ(files_in(folder + "/images"), 1U);
  EXPECT_EQ(load("map", "off"), QUERN_OK);
  EXPECT_EQ(load("on", nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(quern_last_error()).find("image 'on'"), std::string::npos);
  EXPECT_EQ(load(nullptr, "map"), QUERN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(quern_last_error()).find("tune 'map'"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_F(CApi, RoomConvention) {
  const char text[] = "Hello world";
  size_t n = 0;
  EXPECT_EQ(quern_tokenize(engine_, text, sizeof text - 1, false, nullptr, &n), QUERN_LIMIT_EXCEEDED);
  ASSERT_GT(n, 1U);
  std::vector<int32_t> ids(n);
  size_t room = n - 1;
  EXPECT_EQ(quern_tokenize(engine_, text, sizeof text - 1, false, ids.data(), &room), QUERN_LIMIT_EXCEEDED);
  EXPECT_EQ(room, n);
  EXPECT_EQ(quern_tokenize(engine_, text, sizeof text - 1, false, ids.data(), &room), QUERN_OK);
  size_t bytes = 0;
  EXPECT_EQ(quern_detokenize(engine_, ids.data(), n, nullptr, &bytes), QUERN_LIMIT_EXCEEDED);
  EXPECT_EQ(bytes, sizeof text - 1);
  EXPECT_EQ(quern_tokenize(engine_, nullptr, 0, false, nullptr, &(n = 0)), QUERN_OK);  // nothing needs no room
  EXPECT_EQ(quern_tokenize(engine_, nullptr, 5, false, nullptr, &n), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_tokenize(engine_, text, 5, false, nullptr, nullptr), QUERN_INVALID_ARGUMENT);
  const int32_t wrong = 1 << 30;
  EXPECT_NE(quern_detokenize(engine_, &wrong, 1, nullptr, &(bytes = 0)), QUERN_OK);
}

TEST_F(CApi, SessionsOutliveTheirEnginesHandle) {
  quern_session* session = nullptr;
  ASSERT_EQ(quern_session_new(engine_, &session), QUERN_OK);
  quern_engine_free(engine_);
  engine_ = nullptr;
  EXPECT_EQ(quern_session_logits(session), nullptr);  // nothing evaluated yet
  const int32_t ids[] = {5, 6, 7};
  EXPECT_EQ(quern_session_sync(session, ids, 3), QUERN_OK) << quern_last_error();
  EXPECT_NE(quern_session_logits(session), nullptr);
  EXPECT_EQ(quern_session_sync(session, ids, 0), QUERN_INVALID_ARGUMENT);
  const int32_t wrong[] = {5, -1};
  EXPECT_EQ(quern_session_sync(session, wrong, 2), QUERN_INVALID_ARGUMENT);
  quern_session_free(session);
}

TEST_F(CApi, Embeddings) {
  quern_session* session = nullptr;
  ASSERT_EQ(quern_session_new(engine_, &session), QUERN_OK);
  const int32_t ids[] = {5, 6, 7};
  const auto n = static_cast<size_t>(quern_engine_n_embedding(engine_));
  ASSERT_GT(n, 0U);
  std::vector<float> last(n), other(n);
  ASSERT_EQ(quern_session_embed(session, ids, 3, last.data()), QUERN_OK) << quern_last_error();
  float square = 0;
  for (const float x : last) square += x * x;
  EXPECT_NEAR(square, 1, 1e-5);
  EXPECT_EQ(quern_session_embed(session, ids, 2, other.data()), QUERN_OK);
  EXPECT_NE(last, other);
  EXPECT_EQ(quern_session_embed(session, ids, 0, other.data()), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_session_embed(session, ids, 3, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_session_embed(nullptr, ids, 3, other.data()), QUERN_INVALID_ARGUMENT);
  quern_session_free(session);
  quern_engine_options options = quern_engine_defaults();
  options.pooling = "mean";
  Engine mean(tiny("llama"), options);
  EXPECT_NE(Session(mean).embed({5, 6, 7}), last);
  options.pooling = "max";
  quern_engine* none = nullptr;
  EXPECT_EQ(quern_engine_load(tiny("llama").c_str(), &options, &none), QUERN_INVALID_ARGUMENT);
}

TEST_F(CApi, GenerateStopsWhenToldAndRefusesNonsense) {
  quern_session* session = nullptr;
  ASSERT_EQ(quern_session_new(engine_, &session), QUERN_OK);
  const int32_t ids[] = {5, 6, 7};
  quern_sampling sampling = quern_sampling_defaults();
  sampling.temperature = 0;
  int calls = 0;
  const auto stop = [](const char*, size_t, void* user) { return ++*static_cast<int*>(user) < 3; };
  int32_t n = -1;
  EXPECT_EQ(quern_generate(session, ids, 3, &sampling, 100, stop, &calls, &n), QUERN_OK) << quern_last_error();
  EXPECT_EQ(calls, 3);
  EXPECT_GE(n, 3);
  EXPECT_EQ(quern_generate(session, ids, 3, nullptr, 4, nullptr, nullptr, &n), QUERN_OK);
  EXPECT_LE(n, 4);
  EXPECT_EQ(quern_generate(session, ids, 0, nullptr, 4, nullptr, nullptr, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_generate(session, ids, 3, nullptr, -1, nullptr, nullptr, nullptr), QUERN_INVALID_ARGUMENT);
  sampling.top_p = 7;
  EXPECT_EQ(quern_generate(session, ids, 3, &sampling, 4, nullptr, nullptr, nullptr), QUERN_INVALID_ARGUMENT);
  quern_session_free(session);
}

TEST_F(CApi, GenerateTokensGivesEveryToken) {
  const Engine engine(tiny("../scripted/harmony"));
  Session session(engine);
  const auto ids = engine.chat_tokens({{"user", "hello"}});
  const quern_sampling sampling = quern_sampling_defaults();
  std::vector<int32_t> all;
  std::string text;
  bool ended = false;
  const auto on_token = [&](int32_t id, std::string_view piece, bool ends) {
    EXPECT_FALSE(ended);
    all.push_back(id);
    text += piece;
    ended = ends;
    return true;
  };
  const int32_t n = session.generate_tokens(ids, sampling, 100, on_token);
  EXPECT_TRUE(ended);
  EXPECT_EQ(all.size(), static_cast<size_t>(n) + 1);
  EXPECT_EQ(text, "analysisLet me see.assistantfinalIt is four.");
  const auto last = engine.tokenize("<|return|>");
  EXPECT_EQ(all.back(), last.at(0));
  EXPECT_EQ(session.generate_tokens(ids, sampling, 100, [](int32_t, std::string_view, bool) { return false; }), 1);
  EXPECT_EQ(quern_generate_tokens(nullptr, ids.data(), 1, nullptr, 1, nullptr, nullptr, nullptr),
            QUERN_INVALID_ARGUMENT);
}

TEST_F(CApi, NoChatTemplateIsSaid) {
  const quern_message message = {"user", "hi"};
  size_t n = 0;
  EXPECT_EQ(quern_chat_tokens(engine_, &message, 1, nullptr, &n), QUERN_UNSUPPORTED);
  EXPECT_NE(std::string(quern_last_error()).find("chat template"), std::string::npos);
}

TEST_F(CApi, MessagesBelongToTheirThread) {
  EXPECT_NE(quern_session_new(nullptr, nullptr), QUERN_OK);
  EXPECT_STRNE(quern_last_error(), "");
  std::thread([] { EXPECT_STREQ(quern_last_error(), ""); }).join();
}

TEST(CppApi, WrapsAndThrows) {
  EXPECT_THROW(Engine("/nowhere.gguf"), Failure);
  const Engine engine(tiny("llama"));
  const auto ids = engine.tokenize("Hello world", false);
  EXPECT_EQ(engine.detokenize(ids), "Hello world");
  EXPECT_TRUE(engine.tokenize("", false).empty());
  Session session(engine);
  EXPECT_TRUE(session.logits().empty());
  session.sync(ids);
  EXPECT_EQ(session.logits().size(), static_cast<size_t>(engine.n_vocab()));
  quern_sampling sampling = quern_sampling_defaults();
  sampling.temperature = 0;
  std::string first, second;
  const auto into = [](std::string& text) { return [&text](std::string_view piece) { return text += piece, true; }; };
  EXPECT_EQ(session.generate(ids, sampling, 8, into(first)), Session(engine).generate(ids, sampling, 8, into(second)));
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace quern::api
