// serve: models over HTTP, until a signal ends it. What is answered is api/service.h's; here are options, signals and
// the order of starting and stopping.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>

#include "api/http.h"
#include "api/service.h"
#include "apps/page/page.h"
#include "apps/quern/config_file.h"
#include "apps/quern/serve_models.h"
#include "apps/quern/service_manager.h"
#include "apps/quern/version.h"
#include "base/log.h"

namespace quern::apps {
namespace {

// A signal handler can reach nothing but a static.
std::atomic<int> g_stop_pipe{-1};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

extern "C" void on_stop(int) {
  const int saved = errno;
  const int fd = g_stop_pipe;
  if (fd >= 0 && ::write(fd, "", 1) < 0) errno = saved;
}

// SIGTERM and SIGINT as bytes in a pipe.
class StopSignals {
 public:
  StopSignals() {
    if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) pipe_[0] = pipe_[1] = -1;
    g_stop_pipe = pipe_[1];
    for (const int number : {SIGTERM, SIGINT}) {
      struct sigaction action {};
      action.sa_handler = on_stop;
      sigemptyset(&action.sa_mask);
      action.sa_flags = SA_RESTART;
      ::sigaction(number, &action, nullptr);
    }
  }
  ~StopSignals() {
    for (const int number : {SIGTERM, SIGINT}) std::signal(number, SIG_DFL);
    g_stop_pipe = -1;
    for (const int fd : pipe_) {
      if (fd >= 0) ::close(fd);
    }
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Whether one comes within so many milliseconds; -1: until one does.
  bool wait(int timeout) {
    pollfd state{pipe_[0], POLLIN, 0};
    char byte = 0;
    int n = 0;
    do {
      n = ::poll(&state, 1, timeout);
    } while (n < 0 && errno == EINTR);  // the signal itself, whose byte is in the pipe now
    return n > 0 && ::read(pipe_[0], &byte, 1) == 1;
  }

 private:
  int pipe_[2] = {-1, -1};
};

Result<std::string> read_text(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Status::not_found, path + ": cannot be read"};
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::vector<std::string> not_empty(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const auto& text : texts) {
    if (!text.empty()) out.push_back(text);
  }
  return out;
}

Result<std::shared_ptr<serve::ModelPool>> make_pool(const Options& options, const std::vector<ServedModel>& models) {
  std::vector<serve::ModelEntry> entries;
  for (const ServedModel& model : models) entries.push_back(model.entry);
  serve::PoolOptions pool;
  pool.memory_bytes = static_cast<uint64_t>(options.integer("memory-mib")) << 20;
  pool.drain = serve::Seconds(options.real("drain"));
  QUERN_TRY(auto made, serve::ModelPool::create(std::move(entries), pool));
  return std::shared_ptr<serve::ModelPool>(std::move(made));
}

Result<api::HttpOptions> http_options(const Options& options) {
  api::HttpOptions http;
  http.host = options.text("host");
  http.port = static_cast<int>(options.integer("port"));
  http.max_body = static_cast<size_t>(options.integer("max-body")) << 20;
  http.max_connections = static_cast<int>(options.integer("max-connections"));
  QUERN_TRY(http.tls_certificate, read_text(options.text("tls-cert")));
  QUERN_TRY(http.tls_key, read_text(options.text("tls-key")));
  return http;
}

api::ServiceOptions service_options(const Options& options, const std::vector<ServedModel>& models) {
  api::ServiceOptions service;
  service.access.keys = not_empty(options.texts("api-key"));
  service.access.hosts = not_empty(options.texts("allow-host"));
  service.access.origins = not_empty(options.texts("cors-origin"));
  service.access.max_body = static_cast<size_t>(options.integer("max-body")) << 20;
  // Who listens for others is called by names that it does not know. Pages cannot get at it by rebinding a name: they
  // have no key.
  if (service.access.hosts.empty() && !api::is_loopback(options.text("host"))) service.access.hosts = {"*"};
  service.store.max_count = static_cast<size_t>(options.integer("store"));
  service.store.max_bytes = static_cast<size_t>(options.integer("store-mib")) << 20;
  for (const ServedModel& model : models) service.defaults[model.entry.id] = model.defaults;
  service.ping = std::chrono::milliseconds(static_cast<int64_t>(options.real("ping") * 1000));
  service.version = build_version();
  service.files = page::files();
  return service;
}

// Answers go on until the deadline; a second signal ends them at once.
void drain(const Context& context, StopSignals& signals, api::Service& service, api::HttpServer& http,
           serve::ModelPool& pool) {
  using Clock = std::chrono::steady_clock;
  service.drain();
  http.stop_listening();
  pool.drain();
  if (http.n_busy() > 0) context.notice("stopping; " + std::to_string(http.n_busy()) + " answers go on");
  const auto wait_until = [&](Clock::time_point until) {
    while (http.n_busy() > 0 && Clock::now() < until) {
      if (signals.wait(20)) break;
    }
  };
  wait_until(Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(context.options.real("drain") * 1000)));
  // What still runs ends now, and its clients are told; those that do not listen are not waited for.
  pool.stop();
  service.cancel_all();
  wait_until(Clock::now() + std::chrono::seconds(2));
  http.stop();
}

int serve_until_stopped(Context& context, const std::vector<ServedModel>& models, const api::HttpOptions& http) {
  const auto made = make_pool(context.options, models);
  if (!made.ok()) return context.fail(made.error());
  const std::shared_ptr<serve::ModelPool>& pool = *made;
  for (const ServedModel& model : models) {  // one that does not load is an error now, not for the first client
    if (!model.preload) continue;
    if (const auto loaded = pool->acquire(model.entry.id); !loaded.ok()) return context.fail(loaded.error());
  }
  StopSignals signals;
  api::Service service(pool, service_options(context.options, models));
  auto server = api::HttpServer::start(
      http, [&](const api::HttpRequest& request) { return service.gate(request); },
      [&](const api::HttpRequest& request) { return service.handle(request); });
  if (!server.ok()) return context.fail(server.error());
  const bool v6 = http.host.find(':') != std::string::npos;
  context.notice("listening on " + std::string(http.tls_certificate.empty() ? "http://" : "https://") +
                 (v6 ? "[" + http.host + "]" : http.host) + ":" + std::to_string((*server)->port()));
  tell_service_manager("READY=1");
  signals.wait(-1);
  tell_service_manager("STOPPING=1");
  drain(context, signals, service, **server, *pool);
  return 0;
}

// --check-config. Ids and files are checked as at a start; nothing is loaded.
int print_models(Context& context, const std::vector<ServedModel>& models) {
  const auto pool = make_pool(context.options, models);
  if (!pool.ok()) return context.fail(pool.error());
  for (const ServedModel& model : models)
    context.out.write(model.entry.id + " = " + model.entry.path + (model.preload ? " (loaded at the start)" : "") +
                      "\n");
  return 0;
}

}  // namespace

int run_serve(Context& context) {
  Options& options = context.options;
  const Options given = options;
  ConfigFile config;
  if (!options.text("config").empty()) {
    auto read = read_config(options.text("config"));
    if (!read.ok()) return context.fail(read.error());
    config = *std::move(read);
    if (const auto filled = options.fill(config.options); !filled.ok()) return context.fail(filled.error());
  }
  if (options.flag("verbose")) set_log_level(LogLevel::info);
  if (!api::is_loopback(options.text("host")) && not_empty(options.texts("api-key")).empty()) {
    return context.wrong_use("--host " + options.text("host") +
                             " can be reached by others: give --api-key KEY (or QUERN_API_KEY)");
  }
  if (options.text("tls-cert").empty() != options.text("tls-key").empty())
    return context.wrong_use("--tls-cert and --tls-key go together");
  const auto http = http_options(options);
  if (!http.ok()) return context.fail(http.error());
  const auto models = served_models(context, given, config);
  if (!models.ok()) return context.fail(models.error());
  if (options.flag("check-config")) return print_models(context, *models);
  std::signal(SIGPIPE, SIG_IGN);
  return serve_until_stopped(context, *models, *http);
}

}  // namespace quern::apps
