// Bodies as text through the parsers, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "api/request.h"

namespace quern::api::testing {

using Parser = std::optional<Problem> (*)(const Json&, const Defaults&, Request*);

inline std::optional<Problem> parse(Parser parser, const std::string& text, Request* out) {
  Json json;
  if (auto problem = parse_body(text, &json)) return problem;
  return parser(json, Defaults{}, out);
}

inline Request good(Parser parser, const std::string& text) {
  Request request;
  const auto problem = parse(parser, text, &request);
  EXPECT_FALSE(problem.has_value()) << text << ": " << (problem ? problem->message : "");
  return request;
}

// The name of the field that is refused; empty: nothing is.
inline std::string refused(Parser parser, const std::string& text) {
  Request request;
  const auto problem = parse(parser, text, &request);
  if (!problem) return "";
  EXPECT_EQ(problem->status, 400) << text;
  EXPECT_FALSE(problem->message.empty());
  return problem->field;
}

inline std::optional<Problem> messages(const Json& json, const Defaults& defaults, Request* out) {
  return parse_messages(json, defaults, false, out);
}
inline std::optional<Problem> count(const Json& json, const Defaults& defaults, Request* out) {
  return parse_messages(json, defaults, true, out);
}

inline std::optional<Problem> responses(const Json& json, const Defaults& defaults, Request* out) {
  return parse_responses(json, Json::array(), defaults, out);
}

// A body with one user message and more members.
inline std::string chat(const std::string& more = "") {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (more.empty() ? "" : ", " + more) + "}";
}
inline std::string anthropic(const std::string& more = "") {
  return R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}])" +
         (more.empty() ? "" : ", " + more) + "}";
}

}  // namespace quern::api::testing
