// Dispatch, and the routes that generate nothing.
#include "api/service.h"

#include <ctime>
#include <new>

#include "api/service_impl.h"
#include "token/tokenizer.h"

namespace quern::api {

HttpResponse problem_response(const Problem& problem, Dialect dialect) {
  HttpResponse response;
  response.status = problem.status;
  response.body = dump(error_json(problem, dialect));
  if (problem.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(problem.retry_after));
  if (problem.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

Problem draining_problem() {
  return Problem{.status = 503, .message = "the server is stopping", .retry_after = 5};
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = dump(json);
  return response;
}

namespace {

Dialect dialect_of(std::string_view path) {
  return path.starts_with("/v1/messages") ? Dialect::anthropic : Dialect::openai;
}

constexpr std::string_view kModelPath = "/v1/models/", kResponsePath = "/v1/responses/";
constexpr std::string_view kRequestPath = "/v1/requests/", kEndThinking = "/end_thinking";

std::string utc_text(std::time_t time) {
  std::tm parts{};
  char text[32];
  ::gmtime_r(&time, &parts);
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

// What a request may say about reasoning, and whether this model does any.
Json reasoning_json(const engine::Engine& engine) {
  const token::ChatTemplate* chat = engine.chat_template();
  return {{"thinks", chat != nullptr && chat->supports().reply != token::ReplyFormat::plain},
          {"effort", engine::reasoning_variables(engine, {.effort = "low", .thinking = {}}).ok()},
          {"switch", engine::reasoning_variables(engine, {.effort = {}, .thinking = false}).ok()},
          {"end", !end_of_thinking(engine, false).empty()}};
}

}  // namespace

std::span<const Service::Impl::Route> Service::Impl::routes() {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/chat/completions", &Impl::chat},
      {"POST", "/v1/completions", &Impl::completion},
      {"POST", "/v1/messages", &Impl::messages},
      {"POST", "/v1/messages/count_tokens", &Impl::count_tokens},
      {"POST", "/v1/responses", &Impl::responses},
      {"POST", "/v1/embeddings", &Impl::embeddings},
      {"GET", "/v1/models", &Impl::models},
      {"POST", "/tokenize", &Impl::tokenize},
      {"POST", "/detokenize", &Impl::detokenize},
      {"POST", "/apply-template", &Impl::apply_template},
      {"GET", "/health", &Impl::health},
      {"GET", "/metrics", &Impl::metrics},
      {"GET", "/v1/stats", &Impl::stats},
  };
  return kRoutes;
}

HttpResponse Service::Impl::dispatch(const HttpRequest& request) {
  ++n_http_;
  bool known = false;
  for (const Route& route : routes()) {
    if (request.path != route.path) continue;
    known = true;
    if (request.method == route.method) return (this->*route.run)(request);
  }
  const std::string& path = request.path;
  if (request.method == "GET" && path.starts_with(kModelPath)) return model(request, path.substr(kModelPath.size()));
  if (path.starts_with(kResponsePath) && path.size() > kResponsePath.size())
    return stored_response(request, path.substr(kResponsePath.size()));
  if (request.method == "POST" && path.starts_with(kRequestPath) && path.ends_with(kEndThinking) &&
      path.size() > kRequestPath.size() + kEndThinking.size()) {
    return end_thinking(path.substr(kRequestPath.size(), path.size() - kRequestPath.size() - kEndThinking.size()));
  }
  if (const StaticFile* file = find_file(options_.files, path); file != nullptr) {
    known = true;
    if (request.method == "GET" || request.method == "HEAD") return file_response(*file, request);
  }
  Problem problem{
      .status = known ? 405 : 404,
      .message = known ? "this path takes another method than " + request.method : "there is nothing at this path"};
  return problem_response(problem, dialect_of(path));
}

void Service::Impl::enter(const std::string& id, const std::shared_ptr<Run>& run) {
  const std::lock_guard lock(mutex);
  running[id] = run;
}

void Service::Impl::leave(const std::string& id) {
  const std::lock_guard lock(mutex);
  running.erase(id);
}

const Defaults& Service::Impl::defaults_of(const Json& body) const {
  static const Defaults kNone;
  const auto list = pool_->list();
  const auto named = body.find("model");
  const bool first = list.size() == 1 || named == body.end() || !named->is_string() || named->empty();
  const auto at = options_.defaults.find(first ? list.front().id : named->get<std::string>());
  return at == options_.defaults.end() ? kNone : at->second;
}

std::optional<Problem> Service::Impl::acquire(const std::string& name, serve::Lease* lease, std::string* id) {
  const auto list = pool_->list();
  const bool single = list.size() == 1;
  *id = single || name.empty() ? list.front().id : name;
  auto taken = pool_->acquire(*id);
  if (!taken.ok()) {
    Problem problem = problem_of(taken.error());
    problem.field = "model";
    if (taken.error().status == Status::not_found) problem.code = "model_not_found";
    if (taken.error().status == Status::limit_exceeded) problem.status = 503, problem.retry_after = 10;
    if (taken.error().status == Status::cancelled) problem.status = 503, problem.retry_after = 5;  // stopping
    return problem;
  }
  *lease = std::move(*taken);
  return std::nullopt;
}

HttpResponse Service::Impl::count_tokens(const HttpRequest& http) {
  Json body;
  Request request;
  serve::Lease lease;
  std::string id;
  Prepared prepared;
  auto problem =
      read(http, &body, [&](const Json& json) { return parse_messages(json, defaults_of(json), true, &request); });
  if (!problem) problem = acquire(request.model, &lease, &id);
  if (!problem) problem = prepare(*lease->engine, request, defaults_of(body).reasoning, &prepared);
  if (problem) return problem_response(*problem, Dialect::anthropic);
  return json_response({{"input_tokens", prepared.n_prompt_tokens()}});
}

HttpResponse Service::Impl::tokenize(const HttpRequest& http) {
  Json body;
  TokenizeRequest request;
  serve::Lease lease;
  std::string id;
  auto problem = read(http, &body, [&](const Json& json) { return parse_tokenize(json, &request); });
  if (!problem) problem = acquire(request.model, &lease, &id);
  if (problem) return problem_response(*problem, Dialect::openai);
  const token::Tokenizer& tokenizer = lease->engine->tokenizer();
  const auto ids =
      tokenizer.encode(request.content, {.add_special = request.add_special, .parse_special = request.parse_special});
  if (!ids.ok()) return problem_response(problem_of(ids.error()), Dialect::openai);
  Json tokens = Json::array();
  for (const int32_t token : *ids) {
    if (!request.with_pieces) {
      tokens.push_back(token);
      continue;
    }
    // A piece that is no text comes as numbers.
    const std::string bytes(tokenizer.token_bytes(token));
    Json piece = Json::array();
    for (const char c : bytes) piece.push_back(static_cast<uint8_t>(c));
    const bool text = dump(Json(bytes)).find("\xEF\xBF\xBD") == std::string::npos;
    tokens.push_back({{"id", token}, {"piece", text ? Json(bytes) : piece}});
  }
  return json_response({{"tokens", std::move(tokens)}});
}

HttpResponse Service::Impl::detokenize(const HttpRequest& http) {
  Json body;
  DetokenizeRequest request;
  serve::Lease lease;
  std::string id;
  auto problem = read(http, &body, [&](const Json& json) { return parse_detokenize(json, &request); });
  if (!problem) problem = acquire(request.model, &lease, &id);
  if (problem) return problem_response(*problem, Dialect::openai);
  const auto text = lease->engine->tokenizer().decode(request.tokens, true);
  if (!text.ok())
    return problem_response(Problem{.message = "tokens: " + text.error().message, .field = "tokens"}, Dialect::openai);
  return json_response({{"content", *text}});
}

HttpResponse Service::Impl::apply_template(const HttpRequest& http) {
  Json body;
  Request request;
  serve::Lease lease;
  std::string id;
  Prepared prepared;
  auto problem =
      read(http, &body, [&](const Json& json) { return parse_apply_template(json, defaults_of(json), &request); });
  if (!problem) problem = acquire(request.model, &lease, &id);
  if (!problem) problem = prepare(*lease->engine, request, defaults_of(body).reasoning, &prepared);
  if (problem) return problem_response(*problem, Dialect::openai);
  return json_response({{"prompt", prepared.prompts.front().rendered.text}});
}

// Both dialects in one object: they share no name with two meanings.
Json Service::Impl::model_json(const serve::ModelStatus& status) const {
  constexpr const char* kStates[] = {"unloaded", "loading", "loaded", "failed"};
  Json json = {{"id", status.id},
               {"object", "model"},
               {"created", 0},
               {"owned_by", "quern"},
               {"type", "model"},
               {"display_name", status.id},
               {"created_at", utc_text(0)},
               {"state", kStates[static_cast<size_t>(status.state)]}};
  if (status.engine != nullptr) {
    json["n_ctx"] = status.engine->n_ctx();
    json["reasoning"] = reasoning_json(*status.engine);
  }
  return json;
}

HttpResponse Service::Impl::models(const HttpRequest&) {
  Json data = Json::array();
  for (const auto& status : pool_->list()) data.push_back(model_json(status));
  Json json = {{"object", "list"}, {"has_more", false}};
  json["first_id"] = data.empty() ? Json() : data.front()["id"];
  json["last_id"] = data.empty() ? Json() : data.back()["id"];
  json["data"] = std::move(data);
  return json_response(json);
}

HttpResponse Service::Impl::model(const HttpRequest&, const std::string& id) {
  for (const auto& status : pool_->list()) {
    if (status.id == id) return json_response(model_json(status));
  }
  const Problem problem{.status = 404,
                        .message = "no model is called \"" + id.substr(0, 200) + "\"",
                        .field = "model",
                        .code = "model_not_found"};
  return problem_response(problem, Dialect::openai);
}

HttpResponse Service::Impl::end_thinking(const std::string& id) {
  std::shared_ptr<Run> run;
  {
    const std::lock_guard lock(mutex);
    const auto at = running.find(id);
    if (at != running.end()) run = at->second.lock();
  }
  if (run == nullptr)
    return problem_response(Problem{.status = 404, .message = "no answer with this id is running"}, Dialect::openai);
  if (!run->end_thinking())
    return problem_response(Problem{.message = "the model's replies have no block of reasoning to end"},
                            Dialect::openai);
  return json_response({{"id", id}, {"object", "request.thinking_ended"}});
}

Service::Service(std::shared_ptr<serve::ModelPool> pool, ServiceOptions options)
    : impl_(std::make_shared<Impl>(std::move(pool), std::move(options))) {}

Service::~Service() = default;

std::optional<HttpResponse> Service::gate(const HttpRequest& request) const {
  const AccessOptions& access = impl_->options().access;
  const bool open = request.path == "/health" || find_file(impl_->options().files, request.path) != nullptr;
  HttpResponse response;
  try {
    if (auto problem = check_access(request, access, open)) {
      response = problem_response(*problem, dialect_of(request.path));
    } else if (request.method == "OPTIONS") {
      response.status = 204;
      response.content_type.clear();
    } else {
      return std::nullopt;
    }
    for (auto& header : cors_headers(request, access)) response.headers.push_back(std::move(header));
  } catch (const std::exception&) {  // no memory, or a bug of ours: nobody gets in by it
    response = HttpResponse{};
    response.status = 503;
  }
  return response;
}

HttpResponse Service::handle(const HttpRequest& request) {
  try {
    HttpResponse response = impl_->dispatch(request);
    for (auto& header : cors_headers(request, impl_->options().access)) response.headers.push_back(std::move(header));
    return response;
  } catch (const std::bad_alloc&) {
    return problem_response(Problem{.status = 503, .message = "not enough memory for the request"},
                            dialect_of(request.path));
  } catch (const std::exception& error) {
    // A bug of ours, and no reason to end for all other clients.
    return problem_response(Problem{.status = 500, .message = std::string("internal error: ") + error.what()},
                            dialect_of(request.path));
  }
}

void Service::drain() {
  impl_->draining = true;
}

size_t Service::n_running() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->running.size();
}

void Service::cancel_all() {
  std::vector<std::shared_ptr<Run>> runs;
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [id, run] : impl_->running) {
      if (auto alive = run.lock()) runs.push_back(std::move(alive));
    }
  }
  for (const auto& run : runs) run->cancel();
}

}  // namespace quern::api
