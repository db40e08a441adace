// POST /v1/embeddings. Each input is a request of its own to the scheduler; a few are under way at a time, so that a
// long list neither fills the queue nor leaves the engine waiting.
#include <deque>

#include "api/embeddings.h"
#include "api/service_impl.h"

namespace quern::api {
namespace {

constexpr size_t kUnderWay = 2;  // one that is evaluated, and one that waits

// The vectors of a list of inputs.
class Embedder {
 public:
  Embedder(serve::Lease lease, std::vector<TokenIds> inputs, std::string client)
      : lease_(std::move(lease)), inputs_(std::move(inputs)), client_(std::move(client)), vectors_(inputs_.size()) {}

  // Until all are there, one has failed or the client has gone. What is under way then ends with this object.
  std::optional<Problem> run(const std::function<bool()>& gone) {
    while (next_ < inputs_.size() || !under_way_.empty()) {
      if (auto problem = submit()) return problem;
      signal_->wait(kLook);
      if (auto problem = take()) return problem;
      if (gone()) return Problem{.status = 499, .message = "the client has gone"};
    }
    return std::nullopt;
  }
  const std::vector<std::vector<float>>& vectors() const { return vectors_; }

 private:
  struct Part {
    size_t input;
    std::unique_ptr<serve::Stream> stream;
  };

  std::optional<Problem> submit() {
    while (next_ < inputs_.size() && under_way_.size() < kUnderWay) {
      serve::Request request;
      request.prompt = inputs_[next_];
      request.embed = true;
      request.max_tokens = 0;
      request.client = client_;
      request.on_ready = [signal = signal_] { signal->notify(); };
      serve::Submission taken = lease_->scheduler->submit(std::move(request));
      if (taken.stream == nullptr) {
        // What was begun is not given up because others have filled the queue since.
        if (taken.refusal.kind == serve::Refusal::Kind::busy && next_ > 0) return std::nullopt;
        return problem_of(taken.refusal);
      }
      under_way_.push_back({next_++, std::move(taken.stream)});
    }
    return std::nullopt;
  }

  std::optional<Problem> take() {
    for (Part& part : under_way_) {
      for (serve::Event& event : part.stream->poll()) {
        if (auto* done = std::get_if<serve::PromptDone>(&event)) vectors_[part.input] = std::move(done->embedding);
        const auto* finish = std::get_if<serve::Finish>(&event);
        if (finish == nullptr || finish->reason == serve::FinishReason::max_tokens) continue;
        if (finish->error) return problem_of(*finish->error);
        return Problem{.status = 503, .message = "the server is stopping", .retry_after = 5};
      }
    }
    std::erase_if(under_way_, [](const Part& part) { return part.stream->finished(); });
    return std::nullopt;
  }

  serve::Lease lease_;  // outlives the streams
  std::vector<TokenIds> inputs_;
  std::string client_;
  std::vector<std::vector<float>> vectors_;
  size_t next_ = 0;  // input to submit
  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::deque<Part> under_way_;
};

}  // namespace

HttpResponse Service::Impl::embeddings(const HttpRequest& http) {
  if (draining) return problem_response(draining_problem(), Dialect::openai);
  Json body;
  EmbeddingRequest request;
  serve::Lease lease;
  std::string id;
  std::vector<TokenIds> inputs;
  auto problem = read(http, &body, [&](const Json& json) { return parse_embeddings(json, &request); });
  if (!problem) problem = acquire(request.model, &lease, &id);
  if (!problem) problem = prepare_inputs(*lease->engine, request, &inputs);
  int64_t n_tokens = 0;
  for (const TokenIds& ids : inputs) n_tokens += static_cast<int64_t>(ids.size());
  HttpResponse response;
  if (!problem) {
    Embedder embedder(lease, std::move(inputs), client_of(http));
    problem = embedder.run(http.hung_up);
    if (!problem) response.body = embeddings_body(id, embedder.vectors(), request.base64, n_tokens);
  }
  if (!problem) return response;
  ++n_problems_;
  return problem_response(*problem, Dialect::openai);
}

}  // namespace quern::api
