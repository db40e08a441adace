// Files served as they are: entity tags, methods, policy.
#include "api/files.h"

#include <gtest/gtest.h>

namespace quern::api {
namespace {

constexpr StaticFile kFiles[] = {{"/", "text/html; charset=utf-8", "\"1a\"", "<p>hello</p>"},
                                 {"/page/a.js", "text/javascript; charset=utf-8", "\"2b\"", "export {};"}};

int status(const char* if_none_match) {
  HttpRequest request;
  request.headers.emplace("if-none-match", if_none_match);
  return file_response(kFiles[0], request).status;
}

TEST(Files, AreFoundByTheirWholePath) {
  EXPECT_EQ(find_file(kFiles, "/"), &kFiles[0]);
  EXPECT_EQ(find_file(kFiles, "/page/a.js"), &kFiles[1]);
  for (const char* path : {"", "/page", "/page/", "/page/a.js/", "/page/A.js", "/page/../page/a.js", "//"})
    EXPECT_EQ(find_file(kFiles, path), nullptr) << path;
}

TEST(Files, ComeWithTagAndPolicy) {
  const HttpResponse response = file_response(kFiles[1], {});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "export {};");
  EXPECT_EQ(response.content_type, "text/javascript; charset=utf-8");
  const auto value = [&](std::string_view name) {
    for (const auto& [key, text] : response.headers) {
      if (key == name) return text;
    }
    return std::string();
  };
  EXPECT_EQ(value("ETag"), "\"2b\"");
  EXPECT_EQ(value("Cache-Control"), "no-cache");
  const std::string policy = value("Content-Security-Policy");
  EXPECT_TRUE(policy.starts_with("default-src 'self';"));
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
}

TEST(Files, AreNotSentTwice) {
  for (const char* tags : {"\"1a\"", "W/\"1a\"", "\"0\", \"1a\"", "\"0\" ,\t\"1a\" ", "*"})
    EXPECT_EQ(status(tags), 304) << tags;
  for (const char* tags : {"", "\"1\"", "1a", "\"1a", "\"2b\"", "W/", ",", "\"1aa\""})
    EXPECT_EQ(status(tags), 200) << tags;
  HttpRequest request;
  request.headers.emplace("if-none-match", "\"1a\"");
  const HttpResponse response = file_response(kFiles[0], request);
  EXPECT_TRUE(response.body.empty());
  EXPECT_FALSE(response.headers.empty()) << "the tag and the policy still hold";
}

}  // namespace
}  // namespace quern::api
