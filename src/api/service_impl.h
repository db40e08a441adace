// What the files of Service share. Included by them only.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "api/run.h"
#include "api/service.h"
#include "api/write.h"

namespace quern::api {

inline constexpr std::chrono::milliseconds kLook{50};  // between looks whether a client has gone

// Which of the generating requests.
enum class Api : uint8_t { chat, completion, messages, responses };

HttpResponse problem_response(const Problem& problem, Dialect dialect);
Problem draining_problem();
// Requests of one client wait for each other: those of one session of it, else those of one address.
std::string client_of(const HttpRequest& http);
HttpResponse json_response(const Json& json);

class Service::Impl : public std::enable_shared_from_this<Service::Impl> {
 public:
  Impl(std::shared_ptr<serve::ModelPool> pool, ServiceOptions options)
      : pool_(std::move(pool)), options_(std::move(options)), store_(options_.store) {}

  HttpResponse dispatch(const HttpRequest& request);
  const ServiceOptions& options() const { return options_; }

  // Requests that run, for the end of the program and for the route that ends thinking.
  void enter(const std::string& id, const std::shared_ptr<Run>& run);
  void leave(const std::string& id);

  std::atomic<bool> draining{false};
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Run>> running;  // by the id of the answer

 private:
  using Method = HttpResponse (Impl::*)(const HttpRequest&);
  struct Route {
    const char *method, *path;
    Method run;
  };
  static std::span<const Route> routes();

  HttpResponse chat(const HttpRequest& request) { return generate(request, Api::chat); }
  HttpResponse completion(const HttpRequest& request) { return generate(request, Api::completion); }
  HttpResponse messages(const HttpRequest& request) { return generate(request, Api::messages); }
  HttpResponse responses(const HttpRequest& request) { return generate(request, Api::responses); }
  HttpResponse count_tokens(const HttpRequest& request);
  HttpResponse embeddings(const HttpRequest& request);
  HttpResponse tokenize(const HttpRequest& request);
  HttpResponse detokenize(const HttpRequest& request);
  HttpResponse apply_template(const HttpRequest& request);
  HttpResponse models(const HttpRequest& request);
  HttpResponse model(const HttpRequest& request, const std::string& id);
  HttpResponse health(const HttpRequest& request);
  HttpResponse metrics(const HttpRequest& request);
  HttpResponse stats(const HttpRequest& request);
  HttpResponse end_thinking(const std::string& id);

  // GET and DELETE of /v1/responses/ID.
  HttpResponse stored_response(const HttpRequest& request, const std::string& id);

  HttpResponse generate(const HttpRequest& request, Api api);
  HttpResponse whole(const HttpRequest& http, Api api, const Head& head, const Request& request, const Json& asked,
                     const KeepResponse& keep, const std::shared_ptr<Run>& run);
  // The body of /v1/responses, and what it goes on from. *items: the conversation up to the end of its input.
  std::optional<Problem> read_responses(const Json& body, Request* request, Json* items) const;
  // Puts an answer, and the conversation of `items` that ends with it, into the store.
  KeepResponse keeper(Json items);

  // The body as JSON, then a parser of it. A response: why not.
  template <class Parse>
  std::optional<Problem> read(const HttpRequest& request, Json* body, Parse parse) const {
    if (auto problem = parse_body(request.body, body, options_.json)) return problem;
    return parse(*body);
  }
  // The model of that name; where there is only one, it answers to every name. *id becomes its own.
  std::optional<Problem> acquire(const std::string& name, serve::Lease* lease, std::string* id);
  // What requests with that body begin with: its model's.
  const Defaults& defaults_of(const Json& body) const;
  Json model_json(const serve::ModelStatus& status) const;

  std::shared_ptr<serve::ModelPool> pool_;
  ServiceOptions options_;
  ResponseStore store_;
  std::atomic<uint64_t> n_http_{0}, n_problems_{0};
};

}  // namespace quern::api
