// Routes over a model whose steps a test lets through one by one: clients that go, pings, errors, a full queue, the
// watchdog, the end.
#include "api/service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "../engine/tiny.h"

namespace quern::api {
namespace {

// Holds the engine thread before each step until a test allows one.
class Steps {
 public:
  Result<void> take(engine::Engine& engine, std::span<const engine::NextToken> next) {
    {
      std::unique_lock lock(mutex_);
      held_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return n_allowed_ > 0; });
      held_ = false;
      --n_allowed_;
      if (failing_) return Error{Status::io_error, "the device went away"};
    }
    return engine::step(engine, next);
  }
  void allow(int n) {
    const std::lock_guard lock(mutex_);
    n_allowed_ += n;
    changed_.notify_all();
  }
  void fail() {
    {
      const std::lock_guard lock(mutex_);
      failing_ = true;
    }
    allow(1000);
  }
  void take_back() {
    const std::lock_guard lock(mutex_);
    n_allowed_ = 0;
  }
  // All steps that were allowed are done, and the engine thread is held before the next.
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ && n_allowed_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_allowed_ = 0;
  bool held_ = false, failing_ = false;
};

const auto kHere = [] { return false; };
const auto kGone = [] { return true; };

// One request at a time, and none that waits. The first token of an answer is the prompt's and takes no step.
class Served : public ::testing::Test {
 protected:
  void SetUp() override {
    serve::ModelEntry entry;
    entry.id = "m";
    entry.path = model_;
    entry.engine.n_threads = 1;
    entry.engine.n_ctx = 512;
    entry.scheduler.parallel = 1;
    entry.scheduler.max_queue = 0;
    entry.scheduler.step = [steps = steps_](engine::Engine& engine, std::span<const engine::NextToken> next) {
      return steps->take(engine, next);
    };
    auto pool = serve::ModelPool::create({entry}, {});
    ASSERT_TRUE(pool.ok());
    pool_ = std::move(*pool);
    begin(1e9);
  }
  void begin(double stalled_seconds) {
    ServiceOptions options;
    options.ping = std::chrono::milliseconds(60);
    options.stalled_seconds = stalled_seconds;
    service_ = std::make_unique<Service>(pool_, options);
  }
  void TearDown() override {
    steps_->allow(1 << 20);  // the engine thread can end
    if (pool_ != nullptr) pool_->stop();
  }

  HttpResponse ask(const char* method, const char* path, std::string body = {}) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    return service_->handle(request);
  }
  HttpResponse complete(bool stream, int max_tokens = 300) {
    return ask("POST", "/v1/completions",
               R"({"prompt": "abc", "ignore_eos": true, "max_tokens": )" + std::to_string(max_tokens) +
                   (stream ? R"(, "stream": true})" : "}"));
  }
  double figure(const char* name) { return Json::parse(ask("GET", "/v1/stats").body)["models"][0][name].get<double>(); }
  // What comes until there is nothing to say, or the end.
  static std::string read_until_ping(BodySource& source) {
    std::string all;
    for (;;) {
      const std::string piece = source.next(kHere);
      if (piece.empty() || piece == ": ping\n\n") return all;
      all += piece;
    }
  }
  static std::string header(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }

  std::string model_ = engine::tiny_dir() + "/llama.gguf";
  std::shared_ptr<Steps> steps_ = std::make_shared<Steps>();
  std::shared_ptr<serve::ModelPool> pool_;
  std::unique_ptr<Service> service_;
};

// A model that reasons in a channel: <|channel|> analysis <|message|> "Let me" " see." <|end|> and so on, a token a
// step.
class ServedInChannels : public Served {
 protected:
  void SetUp() override {
    model_ = engine::scripted("harmony");
    Served::SetUp();
  }
  // "reasoning|content" of a stream whose thinking is ended after so many steps.
  std::string end_after(int steps) {
    HttpResponse response =
        ask("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}], "stream": true})");
    EXPECT_NE(response.source, nullptr);
    steps_->allow(steps);
    steps_->wait_until_held();
    std::string all = read_until_ping(*response.source);
    const size_t id = all.find("chatcmpl-");
    EXPECT_NE(id, std::string::npos) << all;
    const std::string path = "/v1/requests/" + all.substr(id, all.find('"', id) - id) + "/end_thinking";
    EXPECT_EQ(ask("POST", path.c_str(), "{}").status, 200);
    steps_->allow(64);
    for (std::string piece; !(piece = response.source->next(kHere)).empty();) all += piece;
    response.source.reset();
    steps_->take_back();
    std::string reasoning, content;
    for (size_t at = 0; (at = all.find("data: {", at)) != std::string::npos; ++at) {
      const Json delta = Json::parse(all.substr(at + 6, all.find('\n', at) - at - 6))["choices"][0]["delta"];
      reasoning += delta.value("reasoning_content", "");
      if (delta.contains("content") && delta["content"].is_string()) content += delta["content"];
    }
    return reasoning + "|" + content;
  }
};

TEST_F(ServedInChannels, ThinkingIsEndedInItsMessageAndNowhereElse) {
  const std::string not_yet = "Let me see.\n\nIt is four.";  // what this model says behind a message that came too soon
  EXPECT_EQ(end_after(0), "|" + not_yet) << "not in the header";
  EXPECT_EQ(end_after(3), "Let me|" + not_yet);
  EXPECT_EQ(end_after(12), "Let me see.|It is four.") << "not in the answer";
}

TEST_F(Served, AHangUpEndsAStreamWithinAToken) {
  HttpResponse response = complete(true);
  ASSERT_NE(response.source, nullptr);
  EXPECT_EQ(response.source->next(kHere), ": ok\n\n") << "the header goes out before anything is computed";
  steps_->allow(5);
  steps_->wait_until_held();
  const std::string events = read_until_ping(*response.source);
  EXPECT_NE(events.find("\"text\""), std::string::npos);
  EXPECT_EQ(events.find("[DONE]"), std::string::npos);
  EXPECT_EQ(figure("generated_tokens_total"), 6);
  EXPECT_EQ(figure("requests_generating"), 1);
  EXPECT_EQ(response.source->next(kGone), "");
  steps_->allow(1000);
  response.source.reset();
  EXPECT_LE(figure("generated_tokens_total"), 7);
  EXPECT_EQ(figure("requests_generating"), 0);
  EXPECT_EQ(figure("requests_cancelled_total"), 1);
}

TEST_F(Served, AHangUpEndsAWholeAnswerWithinAToken) {
  steps_->allow(2);
  std::atomic<bool> gone{false};
  int status = 0;
  std::thread client([&] {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = R"({"prompt": "abc", "ignore_eos": true, "max_tokens": 300})";
    request.hung_up = [&] { return gone.load(); };
    status = service_->handle(request).status;
  });
  steps_->wait_until_held();
  EXPECT_EQ(figure("generated_tokens_total"), 3);
  gone = true;
  client.join();
  EXPECT_EQ(status, 499);
  steps_->allow(1000);
  while (complete(false, 1).status == 429) std::this_thread::yield();  // until the place is free
  EXPECT_LE(figure("generated_tokens_total"), 3 + 1 + 1);
  EXPECT_EQ(figure("requests_cancelled_total"), 1);
}

TEST_F(Served, ErrorsInAStreamAreEventsAndBeforeItStatuses) {
  HttpResponse response = complete(true);
  ASSERT_NE(response.source, nullptr);
  EXPECT_EQ(response.status, 200);
  steps_->allow(2);
  steps_->wait_until_held();
  steps_->fail();
  std::string all;
  for (std::string piece; !(piece = response.source->next(kHere)).empty();) all += piece;
  EXPECT_NE(all.find("data: {\"error\":{\"message\":\"the device went away\""), std::string::npos) << all;
  EXPECT_EQ(all.find("[DONE]"), std::string::npos);
  response.source.reset();
  const HttpResponse whole = complete(false);
  EXPECT_EQ(whole.status, 500);
  EXPECT_NE(whole.body.find("the device went away"), std::string::npos);
  EXPECT_EQ(figure("requests_failed_total"), 2);
}

TEST_F(Served, AFullQueueIsRefusedWithATime) {
  HttpResponse first = complete(true);
  ASSERT_NE(first.source, nullptr);
  const HttpResponse second = complete(true);
  EXPECT_EQ(second.source, nullptr);
  EXPECT_EQ(second.status, 429);
  EXPECT_GE(std::atoi(header(second, "Retry-After").c_str()), 1);
  EXPECT_EQ(figure("requests_refused_total"), 1);
  steps_->allow(1000);
  first.source.reset();
  EXPECT_EQ(complete(false, 2).status, 200);
}

TEST_F(Served, HealthTellsOfAnEngineThatHangs) {
  begin(0.01);
  EXPECT_EQ(ask("GET", "/health").status, 200);
  HttpResponse response = complete(true);
  ASSERT_NE(response.source, nullptr);
  steps_->wait_until_held();
  HttpResponse health = ask("GET", "/health");
  for (; health.status == 200; health = ask("GET", "/health")) std::this_thread::yield();
  EXPECT_EQ(health.status, 503);
  const Json told = Json::parse(health.body);
  EXPECT_EQ(told["status"], "stalled");
  EXPECT_EQ(told["model"], "m");
  steps_->allow(1000);
  response.source.reset();
  EXPECT_EQ(ask("GET", "/health").status, 200);
}

TEST_F(Served, DrainingAnswersGoOnAndNewOnesAreRefused) {
  HttpResponse running = complete(true, 20);
  ASSERT_NE(running.source, nullptr);
  service_->drain();
  const HttpResponse refused = complete(false);
  EXPECT_EQ(refused.status, 503);
  EXPECT_GE(std::atoi(header(refused, "Retry-After").c_str()), 1);
  EXPECT_EQ(Json::parse(ask("GET", "/health").body)["status"], "draining");
  EXPECT_EQ(ask("GET", "/health").status, 503);
  steps_->allow(1000);
  std::string all;
  for (std::string piece; !(piece = running.source->next(kHere)).empty();) all += piece;
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n")) << all;
  EXPECT_EQ(figure("generated_tokens_total"), 20);
}

// Models that are stopped under a stream: its client is told.
TEST_F(Served, AStreamThatIsStoppedEndsInAnError) {
  HttpResponse running = complete(true, 500);
  ASSERT_NE(running.source, nullptr);
  steps_->wait_until_held();
  std::thread stop([&] { pool_->stop(); });
  std::string all;
  while (all.find("\"error\"") == std::string::npos && all.find("[DONE]") == std::string::npos) {
    steps_->allow(1);
    all += read_until_ping(*running.source);
  }
  stop.join();
  EXPECT_NE(all.find("the server is stopping"), std::string::npos) << all;
  EXPECT_EQ(running.source->next(kHere), "");
  EXPECT_EQ(complete(false).status, 503);
  EXPECT_EQ(ask("POST", "/tokenize", R"({"content": "a"})").status, 503);
}

// A page of the browser needs no key to be shown, and every request of it does.
TEST_F(Served, TheKeyIsAskedForWhereThereIsSomethingToGuard) {
  ServiceOptions options;
  options.access.keys = {"secret"};
  const StaticFile page[] = {{"/", "text/html", "\"1\"", "<p>"}};
  options.files = page;
  const Service guarded(pool_, options);
  const auto status = [&](const char* path, bool with_key) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.headers.emplace("host", "localhost");
    if (with_key) request.headers.emplace("x-api-key", "secret");
    const auto answer = guarded.gate(request);
    return answer ? answer->status : 0;
  };
  for (const char* path : {"/v1/models", "/v1/stats", "/metrics", "/v1/chat/completions", "/tokenize", "/nothing"}) {
    EXPECT_EQ(status(path, false), 401) << path;
    EXPECT_EQ(status(path, true), 0) << path;
  }
  for (const char* path : {"/", "/health"}) EXPECT_EQ(status(path, false), 0) << path;
}

}  // namespace
}  // namespace quern::api
