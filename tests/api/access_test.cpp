// Keys, Host, Origin, lengths.
#include <gtest/gtest.h>

#include "api/access.h"

namespace quern::api {
namespace {

HttpRequest request(std::vector<std::pair<std::string, std::string>> headers, const char* method = "POST") {
  HttpRequest out;
  out.method = method;
  for (auto& [name, value] : headers) out.headers.emplace(name, value);
  return out;
}

int status(const HttpRequest& http, const AccessOptions& options = {}, bool open = false) {
  const auto problem = check_access(http, options, open);
  return problem ? problem->status : 200;
}

TEST(Access, HostMustBeOurs) {
  for (const char* host :
       {"localhost", "localhost:8080", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "LocalHost", "a.localhost:3"})
    EXPECT_EQ(status(request({{"host", host}})), 200) << host;
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "127.evil.example", "localhost.evil.example", "",
                           "0.0.0.0", "192.168.1.2"})
    EXPECT_EQ(status(request({{"host", host}})), 403) << host;
  EXPECT_EQ(status(request({})), 400);
  EXPECT_EQ(status(request({{"host", "localhost"}, {"host", "localhost"}})), 400);
  EXPECT_EQ(status(request({{"host", "box.local:80"}}), {.hosts = {"Box.local"}}), 200);
  EXPECT_EQ(status(request({{"host", "bix.local:80"}}), {.hosts = {"box.local"}}), 403);
  EXPECT_EQ(status(request({{"host", "any.example"}}), {.hosts = {"*"}}), 200);
}

TEST(Access, PagesOfOtherOriginsAreRefused) {
  EXPECT_EQ(status(request({{"host", "localhost:8080"}, {"origin", "http://localhost:8080"}})), 200);
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost:8081", "http://localhost:8080.evil.example", ""})
    EXPECT_EQ(status(request({{"host", "localhost:8080"}, {"origin", origin}})), 403) << origin;
  const AccessOptions options{.origins = {"https://app.example"}};
  EXPECT_EQ(status(request({{"host", "localhost"}, {"origin", "https://app.example"}}), options), 200);
  EXPECT_EQ(status(request({{"host", "localhost"}, {"origin", "https://bpp.example"}}), options), 403);
}

TEST(Access, NoCorsUnlessConfigured) {
  const HttpRequest asked = request({{"host", "localhost"}, {"origin", "https://app.example"}}, "OPTIONS");
  EXPECT_TRUE(cors_headers(asked, {}).empty());
  const auto has = [](const auto& headers, const std::string& name) {
    for (const auto& [key, value] : headers) {
      if (key == name) return true;
    }
    return false;
  };
  EXPECT_TRUE(has(cors_headers(asked, {.origins = {"https://app.example"}}), "Access-Control-Allow-Origin"));
  EXPECT_TRUE(has(cors_headers(asked, {.origins = {"https://app.example"}}), "Access-Control-Allow-Headers"));
  EXPECT_FALSE(has(cors_headers(asked, {.origins = {"https://other.example"}}), "Access-Control-Allow-Origin"));
  EXPECT_TRUE(has(cors_headers(asked, {.origins = {"https://other.example"}}), "Vary"));
}

TEST(Access, Keys) {
  const AccessOptions options{.keys = {"secret", "other"}};
  const auto with = [&](const char* name, const char* value, bool open = false) {
    return status(request({{"host", "localhost"}, {name, value}}), options, open);
  };
  EXPECT_EQ(with("authorization", "Bearer secret"), 200);
  EXPECT_EQ(with("authorization", "bearer  other"), 200);
  EXPECT_EQ(with("x-api-key", "secret"), 200);
  EXPECT_EQ(with("x-api-key", "secre"), 401);
  EXPECT_EQ(with("x-api-key", "secrets"), 401);
  EXPECT_EQ(with("x-api-key", ""), 401);
  EXPECT_EQ(with("x-api-key", "secretsecret"), 401);
  EXPECT_EQ(with("authorization", "Basic secret"), 401);
  EXPECT_EQ(with("authorization", "Bearer"), 401);
  EXPECT_EQ(with("authorization", "Bearer "), 401);
  EXPECT_EQ(with("accept", "*/*"), 401);
  EXPECT_EQ(with("accept", "*/*", true), 200) << "what is open asks for no key";
  EXPECT_EQ(status(request({{"host", "localhost"}}, "OPTIONS"), options), 200) << "a preflight has none";
  EXPECT_FALSE(equal_in_constant_time("", ""));
}

TEST(Access, LongBodiesAreRefusedByTheirLength) {
  const AccessOptions options{.max_body = 100};
  const auto with = [&](const char* length) {
    return status(request({{"host", "localhost"}, {"content-length", length}}), options);
  };
  EXPECT_EQ(with("100"), 200);
  EXPECT_EQ(with("101"), 413);
  EXPECT_EQ(with("99999999999999999999999999"), 413);
  EXPECT_EQ(with("-1"), 400);
  EXPECT_EQ(with("1x"), 400);
}

}  // namespace
}  // namespace quern::api
