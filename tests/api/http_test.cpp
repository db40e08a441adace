// Connections: what is bounded, and that what is within bounds gets its answer.
#include "api/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace quern::api {
namespace {

using Clock = std::chrono::steady_clock;

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval timeout{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool send(const std::string& text) {
    return connected_ && ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // All that comes until `end` stands in it or the connection is closed.
  std::string read(const std::string& end = "\xFF") {
    std::string out;
    char bytes[4096];
    while (out.find(end) == std::string::npos) {
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      out.append(bytes, static_cast<size_t>(n));
    }
    return out;
  }

 private:
  int fd_;
  bool connected_ = false;
};

std::unique_ptr<HttpServer> start(HttpOptions options) {
  options.port = 0;
  auto server = HttpServer::start(
      options,
      [](const HttpRequest& request) -> std::optional<HttpResponse> {
        if (request.path != "/refused") return std::nullopt;
        HttpResponse response;
        response.status = 403;
        return response;
      },
      [](const HttpRequest& request) {
        HttpResponse response;
        response.body = "got " + std::to_string(request.body.size());
        return response;
      });
  EXPECT_TRUE(server.ok());
  return std::move(*server);
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(Http, AnswersAndKeepsTheConnection) {
  const auto server = start({});
  Client client(server->port());
  for (const size_t size : {0u, 10u, 200000u}) {
    ASSERT_TRUE(client.send(post("/", std::string(size, 'x'))));
    const std::string wanted = "got " + std::to_string(size);
    EXPECT_NE(client.read(wanted).find(wanted), std::string::npos);
  }
  // The last answer counts until its thread has seen it off.
  for (int i = 0; i < 500 && server->n_busy() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server->n_busy(), 0);
}

TEST(Http, TheGateAnswersBeforeTheBody) {
  const auto server = start({});
  Client client(server->port());
  ASSERT_TRUE(client.send("POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n"));
  EXPECT_NE(client.read("\r\n\r\n").find(" 403 "), std::string::npos);
}

TEST(Http, ABodyWithoutALengthIsBounded) {
  HttpOptions options;
  options.max_body = 100000;
  const auto server = start(options);
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  Client good(server->port());
  ASSERT_TRUE(good.send(head + "5\r\nabcde\r\n0\r\n\r\n"));
  EXPECT_NE(good.read("got 5").find("got 5"), std::string::npos);
  Client bad(server->port());
  ASSERT_TRUE(bad.send(head));
  for (int i = 0; i < 100 && bad.send("2710\r\n" + std::string(10000, 'x') + "\r\n"); ++i) {
  }
  EXPECT_EQ(bad.read().find("got"), std::string::npos);
}

TEST(Http, HeadersAreBounded) {
  HttpOptions options;
  options.max_header = 16384;
  const auto server = start(options);
  Client client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + std::string(40000, 'x') + "\r\n\r\n");
  const std::string answer = client.read();
  EXPECT_EQ(answer.find("got"), std::string::npos);
  Client many(server->port());
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "A" + std::to_string(i) + ": b\r\n";
  many.send("GET / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n");
  EXPECT_EQ(many.read().find("got"), std::string::npos);
}

// A client that sends a byte now and then does not hold a connection.
TEST(Http, SlowRequestsAreCutOff) {
  HttpOptions options;
  options.receive = std::chrono::seconds(1);
  const auto server = start(options);
  for (const char* beginning :
       {"GET / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"}) {
    Client client(server->port());
    ASSERT_TRUE(client.send(beginning));
    std::atomic<bool> over{false};
    std::thread drip([&] {
      while (!over && client.send("X")) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    const auto begin = Clock::now();
    EXPECT_EQ(client.read(), "");
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
    over = true;
    drip.join();
  }
}

TEST(Http, ConnectionsAreBounded) {
  HttpOptions options;
  options.max_connections = 2;
  const auto server = start(options);
  Client one(server->port()), two(server->port());
  ASSERT_TRUE(one.send(post("/", "x")));
  one.read("got 1");
  ASSERT_TRUE(two.send(post("/", "x")));
  two.read("got 1");
  {
    Client three(server->port());
    three.send(post("/", "x"));
    std::string early;
    std::thread wait([&] { early = three.read("got 1"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LE(server->n_connections(), 2);
    one.close();  // makes room, or the third was closed at once
    wait.join();
  }
  // The third's place is free soon after it has gone.
  bool answered = false;
  for (int i = 0; i < 200 && !answered; ++i) {
    Client four(server->port());
    answered = four.send(post("/", "x")) && four.read("got 1").find("got 1") != std::string::npos;
    if (!answered) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(answered);
}

TEST(Http, StartErrors) {
  HttpOptions options;
  options.host = "no such host";
  EXPECT_FALSE(HttpServer::start(options, {}, {}).ok());
  options = {};
  options.port = 0;
  options.tls_certificate = "not a certificate";
  EXPECT_FALSE(HttpServer::start(options, {}, {}).ok());
  options.tls_key = "not a key";
  EXPECT_FALSE(HttpServer::start(options, {}, {}).ok());
}

}  // namespace
}  // namespace quern::api
