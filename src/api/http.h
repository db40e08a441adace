// HTTP: connections, limits, TLS and streams, over GNU libmicrohttpd with one thread per connection. Knows no route.
//
// What bounds a client: bytes of header and body, time to send them, connections in all and per address, time without
// reading. A body that is too long is refused by its length, before any of it is read.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quern::api {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  int port = 8080;                 // 0: one that is free
  size_t max_body = size_t{8} << 20;
  size_t max_header = size_t{64} << 10;  // request line, names, values, and the memory of a connection around them
  int max_connections = 256, max_per_address = 0;  // 0: no bound of its own
  std::chrono::seconds idle{60};                   // nothing sent or read for so long ends a connection
  std::chrono::seconds receive{30};                // header and body must be there by then
  std::string tls_certificate, tls_key;            // PEM text; empty: no TLS
};

struct HttpRequest {
  std::string method, path;                         // the path as sent, without the query
  std::string query;                                // "name=value&...", unescaped
  std::multimap<std::string, std::string> headers;  // names in small letters
  std::string body;
  std::string peer;                                                // the client's address
  std::optional<std::string> header(std::string_view name) const;  // name in small letters
  // Whether the client has closed its side.
  std::function<bool()> hung_up = [] { return false; };
};

// A body that comes piece by piece. Destroyed at its end, or when the client has gone.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Waits for the next piece; empty: the end. It should come back within a few seconds (a ping). `gone` says whether
  // the client has hung up: then the result does not matter.
  virtual std::string next(const std::function<bool()>& gone) = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::unique_ptr<BodySource> source;  // where set, instead of body
};

class HttpServer {
 public:
  // gate sees a request without its body, and may answer already (then the body is not read). handler sees the whole;
  // it may block. Both are called by many threads at once and do not throw.
  using Gate = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Errors name the address, port or TLS text that does not do.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, Gate gate, Handler handler);
  ~HttpServer();  // stop()

  int port() const;
  int n_connections() const;
  int n_busy() const;     // requests that passed the gate and are not answered to their end
  void stop_listening();  // open connections go on
  // Closes what is still open. Handlers and sources must come back for it: cancel what they wait for first.
  void stop();

  class Impl;

 private:
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::api
