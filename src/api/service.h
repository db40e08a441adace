// The routes: from an HTTP request to an answer, over a pool of models. Holds no connection and no signal.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "api/access.h"
#include "api/files.h"
#include "api/http.h"
#include "api/request.h"
#include "api/response_store.h"
#include "serve/model_pool.h"

namespace quern::api {

struct ServiceOptions {
  AccessOptions access;
  std::map<std::string, Defaults, std::less<>> defaults;  // by model; one that is not here has Defaults{}
  JsonLimits json;
  StoreOptions store;
  std::chrono::milliseconds ping{5000};  // between comments in a stream that has nothing to say yet
  double stalled_seconds = 60;           // an engine at one piece of work for so long is not healthy
  std::string version;                   // of the program
  std::span<const StaticFile> files;     // for browsers; they ask for no key
};

class Service {
 public:
  Service(std::shared_ptr<serve::ModelPool> pool, ServiceOptions options);
  ~Service();

  // For HttpServer. Thread-safe; no exception leaves them.
  std::optional<HttpResponse> gate(const HttpRequest& request) const;
  HttpResponse handle(const HttpRequest& request);
  // New requests are refused with 503; what runs goes on.
  void drain();
  size_t n_running() const;
  // Ends what runs.
  void cancel_all();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace quern::api
