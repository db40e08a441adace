// /health, /metrics and /v1/stats.
#include <functional>

#include "api/service_impl.h"

namespace quern::api {
namespace {

using Stats = serve::SchedulerStats;

struct Row {
  const char *name, *kind, *help;
  double (*value)(const Stats&);
};

// What /metrics and /v1/stats show of a model; a new figure is a row.
constexpr Row kRows[] = {
    {"requests_queued", "gauge", "requests that wait", [](const Stats& s) { return double(s.n_queued); }},
    {"requests_prompt", "gauge", "requests whose prompt is being evaluated",
     [](const Stats& s) { return double(s.n_prompt); }},
    {"requests_generating", "gauge", "requests that generate", [](const Stats& s) { return double(s.n_generating); }},
    {"parallel", "gauge", "requests that may run together", [](const Stats& s) { return double(s.parallel); }},
    {"queue_limit", "gauge", "requests that may wait", [](const Stats& s) { return double(s.max_queue); }},
    {"prefix_timelines", "gauge", "timelines in the prefix cache", [](const Stats& s) { return double(s.n_kept); }},
    {"kv_pages", "gauge", "pages of keys and values in use", [](const Stats& s) { return double(s.kv_pages); }},
    {"kv_bytes", "gauge", "bytes of keys and values in use", [](const Stats& s) { return double(s.kv_bytes); }},
    {"kv_bytes_budget", "gauge", "bytes that keys and values may take",
     [](const Stats& s) { return double(s.kv_bytes_budget); }},
    {"stalled_seconds", "gauge", "time at the same piece of work", [](const Stats& s) { return s.stalled_seconds; }},
    {"requests_total", "counter", "requests taken", [](const Stats& s) { return double(s.n_requests); }},
    {"requests_refused_total", "counter", "requests not taken", [](const Stats& s) { return double(s.n_refused); }},
    {"requests_finished_total", "counter", "requests answered", [](const Stats& s) { return double(s.n_finished); }},
    {"requests_cancelled_total", "counter", "requests whose client went away",
     [](const Stats& s) { return double(s.n_cancelled); }},
    {"requests_failed_total", "counter", "requests that failed", [](const Stats& s) { return double(s.n_failed); }},
    {"prompt_tokens_total", "counter", "tokens of prompts", [](const Stats& s) { return double(s.n_prompt_tokens); }},
    {"cached_tokens_total", "counter", "tokens of prompts that were not evaluated",
     [](const Stats& s) { return double(s.n_cached_tokens); }},
    {"prefix_hits_total", "counter", "requests that took something from the prefix cache",
     [](const Stats& s) { return double(s.n_prefix_hits); }},
    {"prefix_restored_total", "counter", "of them, requests that took it from the folder of prefixes",
     [](const Stats& s) { return double(s.n_restored); }},
    {"generated_tokens_total", "counter", "tokens generated",
     [](const Stats& s) { return double(s.n_generated_tokens); }},
    {"steps_total", "counter", "steps of rows that generate", [](const Stats& s) { return double(s.n_steps); }},
    {"slices_total", "counter", "slices of prompts", [](const Stats& s) { return double(s.n_slices); }},
    {"prompt_seconds_total", "counter", "time at prompts", [](const Stats& s) { return s.prompt_seconds; }},
    {"step_seconds_total", "counter", "time at steps", [](const Stats& s) { return s.step_seconds; }},
    {"uptime_seconds", "gauge", "time since the model was loaded", [](const Stats& s) { return s.uptime_seconds; }},
};

std::string label_text(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

HttpResponse Service::Impl::health(const HttpRequest&) {
  HttpResponse response = json_response({{"status", draining ? "draining" : "ok"}});
  if (draining) response.status = 503;
  for (const auto& [id, stats] : pool_->stats()) {
    if (stats.stalled_seconds < options_.stalled_seconds) continue;
    response.body = dump({{"status", "stalled"}, {"model", id}, {"seconds", stats.stalled_seconds}});
    response.status = 503;
  }
  return response;
}

HttpResponse Service::Impl::metrics(const HttpRequest&) {
  const auto all = pool_->stats();
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  std::string& out = response.body;
  const auto head = [&](const std::string& name, const char* kind, const char* help) {
    out += "# HELP quern_" + name + " " + help + "\n# TYPE quern_" + name + " " + kind + "\n";
  };
  head("http_requests_total", "counter", "requests of HTTP that passed the checks of access");
  out += "quern_http_requests_total " + std::to_string(n_http_.load()) + "\n";
  head("http_refused_total", "counter", "generating requests that were refused");
  out += "quern_http_refused_total " + std::to_string(n_problems_.load()) + "\n";
  for (const Row& row : kRows) {
    head(row.name, row.kind, row.help);
    for (const auto& [id, stats] : all)
      out += "quern_" + std::string(row.name) + "{model=\"" + label_text(id) + "\"} " + Json(row.value(stats)).dump() +
             "\n";
  }
  return response;
}

HttpResponse Service::Impl::stats(const HttpRequest&) {
  const auto all = pool_->stats();
  constexpr const char* kStates[] = {"unloaded", "loading", "loaded", "failed"};
  Json models = Json::array();
  for (const auto& status : pool_->list()) {
    Json model = {{"id", status.id},
                  {"state", kStates[static_cast<size_t>(status.state)]},
                  {"bytes", status.bytes},
                  {"leases", status.n_leases},
                  {"idle_seconds", status.idle_seconds}};
    if (!status.error.empty()) model["error"] = status.error;
    if (const auto at = all.find(status.id); at != all.end()) {
      for (const Row& row : kRows) model[row.name] = row.value(at->second);
    }
    models.push_back(std::move(model));
  }
  Json json = {{"version", options_.version}, {"draining", draining.load()}, {"http_requests", n_http_.load()}};
  json["models"] = std::move(models);
  return json_response(json);
}

}  // namespace quern::api
