#include "api/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

namespace quern::api {
namespace {

using Clock = std::chrono::steady_clock;

bool fd_hung_up(int fd) {
  pollfd state{fd, POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

// A listening socket for an address or name. Errors name both.
Result<int> listen_on(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string where = host + ":" + std::to_string(port);
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0)
    return Error{Status::invalid_argument, where + ": " + ::gai_strerror(code)};
  std::string why = "no address";
  int fd = -1;
  for (const addrinfo* at = found; at != nullptr && fd < 0; at = at->ai_next) {
    fd = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd, at->ai_addr, at->ai_addrlen) != 0 || ::listen(fd, 256) != 0) {
      why = std::strerror(errno);
      ::close(fd);
      fd = -1;
    }
  }
  ::freeaddrinfo(found);
  if (fd < 0) return Error{Status::io_error, "cannot listen on " + where + ": " + why};
  return fd;
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  return ntohs(v4->sin_port);  // at the same place in sockaddr_in6
}

}  // namespace

std::optional<std::string> HttpRequest::header(std::string_view name) const {
  const auto at = headers.find(std::string(name));
  if (at == headers.end()) return std::nullopt;
  return at->second;
}

// One request as it comes in.
struct Exchange {
  HttpRequest request;
  bool too_long = false, out_of_memory = false;
};

class HttpServer::Impl {
 public:
  HttpOptions options;
  Gate gate;
  Handler handler;
  MHD_Daemon* daemon = nullptr;
  int port = 0;
  std::atomic<int> n_connections{0}, n_busy{0};
  std::once_flag stop_listening_once, stop_once;

  // Connections whose request is not complete, and when it must be. A connection is closed by its own thread; this only
  // shuts it down, and never after the thread has let go of the descriptor, since both hold the lock.
  std::mutex mutex;
  std::condition_variable wake;
  std::map<int, Clock::time_point> deadlines;
  bool stopping = false;
  std::thread watch;

  void expect(int fd, std::chrono::seconds within) {
    const std::lock_guard lock(mutex);
    deadlines[fd] = Clock::now() + within;
  }
  void forget(int fd) {
    const std::lock_guard lock(mutex);
    deadlines.erase(fd);
  }
  void watch_deadlines() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      wake.wait_for(lock, std::chrono::milliseconds(250));
      const auto now = Clock::now();
      for (auto at = deadlines.begin(); at != deadlines.end();) {
        const bool over = at->second <= now;
        if (over) ::shutdown(at->first, SHUT_RDWR);
        at = over ? deadlines.erase(at) : std::next(at);
      }
    }
  }
};

namespace {

using Impl = HttpServer::Impl;

int descriptor(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == nullptr ? -1 : info->connect_fd;
}

// libmicrohttpd counts the time in which we compute as idleness of the client: 0 stops its clock, and a number starts
// it anew.
void set_idle(MHD_Connection* connection, unsigned seconds) {
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

struct Streaming {
  std::unique_ptr<BodySource> source;
  MHD_Connection* connection;
  unsigned idle;
  std::string rest;  // of a piece that did not fit
};

ssize_t read_stream(void* cls, uint64_t, char* out, size_t max) {
  auto& stream = *static_cast<Streaming*>(cls);
  const int fd = descriptor(stream.connection);
  if (stream.rest.empty()) {
    set_idle(stream.connection, 0);
    stream.rest = stream.source->next([fd] { return fd_hung_up(fd); });
    set_idle(stream.connection, stream.idle);
    if (stream.rest.empty()) return MHD_CONTENT_READER_END_OF_STREAM;
    if (fd_hung_up(fd)) return MHD_CONTENT_READER_END_WITH_ERROR;
  }
  const size_t n = std::min(max, stream.rest.size());
  std::copy_n(stream.rest.data(), n, out);
  stream.rest.erase(0, n);
  return static_cast<ssize_t>(n);
}

void free_stream(void* cls) {
  delete static_cast<Streaming*>(cls);
}

MHD_Result send(const Impl& impl, MHD_Connection* connection, HttpResponse response) {
  MHD_Response* made = nullptr;
  if (response.source != nullptr) {
    auto stream = std::make_unique<Streaming>(
        Streaming{std::move(response.source), connection, static_cast<unsigned>(impl.options.idle.count()), {}});
    made = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, &read_stream, stream.get(), &free_stream);
    if (made != nullptr) static_cast<void>(stream.release());
  } else {
    made = MHD_create_response_from_buffer(response.body.size(), response.body.data(), MHD_RESPMEM_MUST_COPY);
  }
  if (made == nullptr) return MHD_NO;
  if (!response.content_type.empty()) MHD_add_response_header(made, "Content-Type", response.content_type.c_str());
  for (const auto& [name, value] : response.headers) MHD_add_response_header(made, name.c_str(), value.c_str());
  MHD_add_response_header(made, "X-Content-Type-Options", "nosniff");
  const MHD_Result sent = MHD_queue_response(connection, static_cast<unsigned>(response.status), made);
  MHD_destroy_response(made);
  return sent;
}

MHD_Result take_header(void* cls, MHD_ValueKind, const char* key, const char* value) {
  static_cast<HttpRequest*>(cls)->headers.emplace(small_letters(key), value == nullptr ? "" : value);
  return MHD_YES;
}

MHD_Result take_argument(void* cls, MHD_ValueKind, const char* key, const char* value) {
  std::string& query = static_cast<HttpRequest*>(cls)->query;
  query += (query.empty() ? "" : "&") + std::string(key) + "=" + (value == nullptr ? "" : value);
  return MHD_YES;
}

MHD_Result begin(Impl& impl, MHD_Connection* connection, const char* url, const char* method, void** state) {
  auto exchange = std::make_unique<Exchange>();
  HttpRequest& request = exchange->request;
  request.method = method;
  request.path = url;
  MHD_get_connection_values(connection, MHD_HEADER_KIND, &take_header, &request);
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &take_argument, &request);
  const auto* address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (address != nullptr) request.peer = address_text(address->client_addr);
  const int fd = descriptor(connection);
  request.hung_up = [fd] { return fd_hung_up(fd); };
  if (auto answer = impl.gate(request)) {
    impl.forget(fd);
    return send(impl, connection, std::move(*answer));
  }
  *state = exchange.release();
  ++impl.n_busy;
  return MHD_YES;
}

MHD_Result answer(void* cls, MHD_Connection* connection, const char* url, const char* method, const char*,
                  const char* data, size_t* size, void** state) {
  auto& impl = *static_cast<Impl*>(cls);
  try {
    if (*state == nullptr) return begin(impl, connection, url, method, state);
    auto& exchange = *static_cast<Exchange*>(*state);
    if (*size > 0) {
      std::string& body = exchange.request.body;
      if (body.size() + *size > impl.options.max_body) {
        exchange.too_long = true;
        std::string().swap(body);
      } else if (!exchange.too_long) {
        body.append(data, *size);
      }
      *size = 0;
      // Only a body without a length comes here too long; nothing can be said while it is being sent.
      return exchange.too_long ? MHD_NO : MHD_YES;
    }
    impl.forget(descriptor(connection));
    set_idle(connection, 0);
    HttpResponse response = impl.handler(exchange.request);
    set_idle(connection, static_cast<unsigned>(impl.options.idle.count()));
    return send(impl, connection, std::move(response));
  } catch (const std::bad_alloc&) {
    return MHD_NO;  // closes this connection
  }
}

void completed(void* cls, MHD_Connection* connection, void** state, MHD_RequestTerminationCode) {
  auto& impl = *static_cast<Impl*>(cls);
  if (*state != nullptr) --impl.n_busy;
  delete static_cast<Exchange*>(*state);
  *state = nullptr;
  // The next request of this connection may begin a while later.
  impl.expect(descriptor(connection), impl.options.idle + impl.options.receive);
}

void connected(void* cls, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode code) {
  auto& impl = *static_cast<Impl*>(cls);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    ++impl.n_connections;
    impl.expect(descriptor(connection), impl.options.receive);
  } else {
    --impl.n_connections;
    impl.forget(descriptor(connection));
  }
}

void* request_line(void* cls, const char*, MHD_Connection* connection) {
  auto& impl = *static_cast<Impl*>(cls);
  impl.expect(descriptor(connection), impl.options.receive);
  return nullptr;
}

}  // namespace

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, Gate gate, Handler handler) {
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return Error{Status::invalid_argument, "TLS needs a certificate and its key"};
  QUERN_TRY(const int fd, listen_on(options.host, options.port));
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->gate = std::move(gate);
  impl->handler = std::move(handler);
  impl->port = port_of(fd);
  unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC;
  std::vector<MHD_OptionItem> items;
  if (!options.tls_certificate.empty()) {
    flags |= MHD_USE_TLS;
    // The library keeps these pointers while it runs: they are those of impl.
    items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, impl->options.tls_certificate.data()});
    items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, impl->options.tls_key.data()});
  }
  items.push_back({MHD_OPTION_END, 0, nullptr});
  impl->daemon = MHD_start_daemon(
      flags, 0, nullptr, nullptr, &answer, impl.get(), MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
      static_cast<unsigned>(options.max_connections), MHD_OPTION_PER_IP_CONNECTION_LIMIT,
      static_cast<unsigned>(options.max_per_address), MHD_OPTION_CONNECTION_TIMEOUT,
      static_cast<unsigned>(options.idle.count()), MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.max_header,
      MHD_OPTION_THREAD_STACK_SIZE, size_t{4} << 20, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
      &completed, impl.get(), MHD_OPTION_NOTIFY_CONNECTION, &connected, impl.get(), MHD_OPTION_URI_LOG_CALLBACK,
      &request_line, impl.get(), MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
  if (impl->daemon == nullptr) {
    ::close(fd);
    return Error{Status::invalid_argument,
                 options.tls_certificate.empty()
                     ? "cannot start the HTTP server"
                     : "cannot start the HTTP server: is the TLS certificate and its key good?"};
  }
  Impl* raw = impl.get();
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(impl)));
  try {
    raw->watch = std::thread([raw] { raw->watch_deadlines(); });
  } catch (const std::system_error&) {
    return Error{Status::io_error, "cannot start a thread"};
  }
  return server;
}

int HttpServer::port() const {
  return impl_->port;
}

int HttpServer::n_connections() const {
  return impl_->n_connections.load();
}

int HttpServer::n_busy() const {
  return impl_->n_busy.load();
}

void HttpServer::stop_listening() {
  std::call_once(impl_->stop_listening_once, [this] {
    const MHD_socket fd = MHD_quiesce_daemon(impl_->daemon);
    if (fd != MHD_INVALID_SOCKET) ::close(fd);
  });
}

void HttpServer::stop() {
  std::call_once(impl_->stop_once, [this] {
    if (impl_->daemon != nullptr) MHD_stop_daemon(impl_->daemon);
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->stopping = true;
    }
    impl_->wake.notify_all();
    if (impl_->watch.joinable()) impl_->watch.join();
  });
}

}  // namespace quern::api
