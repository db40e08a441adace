// Requests that generate: whole answers and streams of all dialects.
#include <ctime>
#include <new>
#include <random>

#include "api/service_impl.h"
#include "token/tokenizer.h"

namespace quern::api {
namespace {

// Between looks at an answer: on few cores, a thread that wakes for each token takes a tenth of the engine's time.
constexpr std::chrono::milliseconds kPiece{4};

const char* id_prefix(Api api) {
  switch (api) {
    case Api::chat:
      return "chatcmpl-";
    case Api::completion:
      return "cmpl-";
    case Api::messages:
      return "msg_";
    case Api::responses:
      return "resp_";
  }
  return "";
}

uint64_t random_bits() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Not to be guessed: who knows the id of an answer may end its thinking.
std::string make_id(Api api) {
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
  std::string id = id_prefix(api);
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = random_bits();
    for (int i = 0; i < 12; ++i, bits >>= 5) id += kDigits[bits & 31];
  }
  return id;
}

std::unique_ptr<EventWriter> make_events(Api api, Head head, const Json& asked, const KeepResponse& keep) {
  switch (api) {
    case Api::chat:
      return make_chat_events(std::move(head));
    case Api::completion:
      return make_completion_events(std::move(head));
    case Api::messages:
      return make_messages_events(std::move(head));
    case Api::responses:
      break;
  }
  return make_responses_events(std::move(head), asked, keep);
}

// A streamed answer as the body of a response. Destroyed early, it cancels.
class EventSource : public BodySource {
 public:
  EventSource(std::shared_ptr<Run> run, std::unique_ptr<EventWriter> writer, std::chrono::milliseconds ping,
              std::function<void()> on_end)
      : run_(std::move(run)), writer_(std::move(writer)), ping_(ping), on_end_(std::move(on_end)) {}
  ~EventSource() override {
    try {
      run_->abandon();
      on_end_();
    } catch (const std::bad_alloc&) {  // its streams end with it all the same
    }
  }
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;

  std::string next(const std::function<bool()>& gone) override {
    // The first piece makes the status and the headers go out at once, whatever the prompt takes.
    if (!greeted_) {
      greeted_ = true;
      return ": ok\n\n";
    }
    if (over_) return {};
    run_->rest(last_ + kPiece);
    const auto until = std::chrono::steady_clock::now() + ping_;
    while (true) {
      std::string out;
      for (const auto& step : run_->wait(kLook)) out += text_of(step);
      if (const Problem* problem = run_->failure(); problem != nullptr) {
        over_ = true;
        return out + writer_->error(*problem);
      }
      if (run_->done()) {
        over_ = true;
        return out + writer_->end(run_->usage());
      }
      if (!out.empty()) {
        last_ = std::chrono::steady_clock::now();
        return out;
      }
      if (gone()) {
        over_ = true;
        run_->cancel();
        return {};
      }
      if (std::chrono::steady_clock::now() >= until) return writer_->ping();
    }
  }

 private:
  std::string text_of(const Run::Step& step) {
    const int choice = static_cast<int>(step.choice);
    const Choice& whole = run_->choice(step.choice);
    std::string out;
    if (step.begins) out += writer_->begin(choice, whole.usage);
    if (!step.progress.deltas.empty() || !step.progress.scores.empty()) out += writer_->add(choice, step.progress);
    if (step.ends && whole.ending.kind != EndKind::failed) out += writer_->finish(choice, whole);
    return out;
  }

  std::shared_ptr<Run> run_;
  std::unique_ptr<EventWriter> writer_;
  std::chrono::milliseconds ping_;
  std::function<void()> on_end_;
  bool greeted_ = false, over_ = false;
  std::chrono::steady_clock::time_point last_;  // when the last piece went out
};

std::vector<Echo> echoes_of(const Request& request, const Run& run) {
  std::vector<Echo> echoes;
  if (!request.echo) return echoes;
  const token::Tokenizer& tokenizer = run.lease()->engine->tokenizer();
  for (size_t i = 0; i < run.n_choices(); ++i) {
    const size_t prompt = i / static_cast<size_t>(run.per_prompt());
    Echo echo;
    echo.ids = run.prepared().prompts[prompt].ids;
    if (const auto* text = std::get_if<std::string>(&request.prompts[prompt])) {
      echo.text = *text;
    } else {
      auto decoded = tokenizer.decode(echo.ids, true);
      if (decoded.ok()) echo.text = std::move(*decoded);
    }
    echoes.push_back(std::move(echo));
  }
  return echoes;
}

}  // namespace

std::string client_of(const HttpRequest& http) {
  if (const auto session = http.header("x-claude-code-session-id")) return session->substr(0, 128);
  return http.peer;
}

HttpResponse Service::Impl::generate(const HttpRequest& http, Api api) {
  const Dialect dialect = api == Api::messages ? Dialect::anthropic : Dialect::openai;
  if (draining) return problem_response(draining_problem(), dialect);
  Json body, items;
  Request request;
  auto problem = read(http, &body, [&](const Json& json) {
    switch (api) {
      case Api::chat:
        return parse_chat(json, defaults_of(json), &request);
      case Api::completion:
        return parse_completion(json, defaults_of(json), &request);
      case Api::messages:
        return parse_messages(json, defaults_of(json), false, &request);
      case Api::responses:
        break;
    }
    return read_responses(json, &request, &items);
  });
  serve::Lease lease;
  Head head;
  Prepared prepared;
  std::shared_ptr<Run> run;
  if (!problem) problem = acquire(request.model, &lease, &head.model);
  if (!problem) problem = prepare(*lease->engine, request, defaults_of(body).reasoning, &prepared);
  if (!request.has_seed) request.sampler.seed = random_bits();
  if (!problem) problem = Run::start(lease, request, std::move(prepared), client_of(http), &run);
  if (problem) {
    ++n_problems_;
    return problem_response(*problem, dialect);
  }
  head.id = make_id(api);
  head.created = std::time(nullptr);
  head.first_call = request.n_calls();
  head.include_usage = request.include_usage;
  head.logprobs = request.top_logprobs >= 0;
  head.bytes = [engine = lease->engine](int32_t id) { return std::string(engine->tokenizer().token_bytes(id)); };
  enter(head.id, run);
  KeepResponse keep;
  if (api == Api::responses) {
    body["store"] = request.store;
    if (request.store) keep = keeper(std::move(items));
  }
  HttpResponse response;
  if (request.stream) {
    response.content_type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-cache");
    response.headers.emplace_back("X-Accel-Buffering", "no");  // for proxies that would collect the events
    auto on_end = [self = shared_from_this(), id = head.id] { self->leave(id); };
    response.source =
        std::make_unique<EventSource>(run, make_events(api, head, body, keep), options_.ping, std::move(on_end));
  } else {
    response = whole(http, api, head, request, body, keep, run);
    leave(head.id);
  }
  response.headers.emplace_back(dialect == Dialect::anthropic ? "request-id" : "x-request-id", head.id);
  return response;
}

HttpResponse Service::Impl::whole(const HttpRequest& http, Api api, const Head& head, const Request& request,
                                  const Json& asked, const KeepResponse& keep, const std::shared_ptr<Run>& run) {
  const Dialect dialect = api == Api::messages ? Dialect::anthropic : Dialect::openai;
  while (!run->done()) {
    run->wait(kLook);
    if (http.hung_up()) {
      run->abandon();
      return problem_response(Problem{.status = 499, .message = "the client has gone"}, dialect);
    }
    run->rest(std::chrono::steady_clock::now() + kPiece);
  }
  if (const Problem* problem = run->failure(); problem != nullptr) return problem_response(*problem, dialect);
  for (size_t i = 0; i < run->n_choices(); ++i) {
    if (run->choice(i).ending.kind == EndKind::cancelled)
      return problem_response(
          Problem{.status = 503, .message = "the answer was cancelled: the server is stopping", .retry_after = 5},
          dialect);
  }
  const auto choices = run->choices();
  switch (api) {
    case Api::chat:
      return json_response(chat_response(head, choices, run->usage()));
    case Api::completion:
      return json_response(completion_response(head, choices, echoes_of(request, *run), run->usage()));
    case Api::messages:
      return json_response(messages_response(head, choices.front()));
    case Api::responses:
      break;
  }
  return json_response(responses_response(head, choices.front(), asked, keep));
}

}  // namespace quern::api
