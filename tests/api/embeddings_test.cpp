// Embeddings as JSON: base 64, numbers that read back as they were, and the parser's refusals.
#include "api/embeddings.h"

#include <cstring>

#include "parse_testing.h"

namespace quern::api::testing {
namespace {

std::string base64(std::string_view text) {
  return base64_of(std::as_bytes(std::span(text)));
}

TEST(Base64, IsThatOfTheStandard) {
  const struct {
    const char *bytes, *text;
  } rows[] = {{"", ""},
              {"f", "Zg=="},
              {"fo", "Zm8="},
              {"foo", "Zm9v"},
              {"foob", "Zm9vYg=="},
              {"fooba", "Zm9vYmE="},
              {"foobar", "Zm9vYmFy"},
              {"\xFB\xFF\xFE", "+//+"}};
  for (const auto& row : rows) EXPECT_EQ(base64(row.bytes), row.text);
  EXPECT_EQ(base64(std::string_view("\0\0", 2)), "AAA=");
}

TEST(Embeddings, NumbersReadBackAsTheyWere) {
  const std::vector<std::vector<float>> vectors = {{0.1F, -1e-30F, 1.0F / 3}, {-0.0F, 1, 5e-42F}};
  const Json json = Json::parse(embeddings_body("a \"b\"", vectors, false, 7));
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["model"], "a \"b\"");
  EXPECT_EQ(json["usage"], (Json{{"prompt_tokens", 7}, {"total_tokens", 7}}));
  ASSERT_EQ(json["data"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(json["data"][i]["index"], i);
    EXPECT_EQ(json["data"][i]["object"], "embedding");
    EXPECT_EQ(json["data"][i]["embedding"].get<std::vector<float>>(), vectors[i]);
  }
}

TEST(Embeddings, Base64IsTheFloatsBytes) {
  const std::vector<std::vector<float>> vectors = {{1.0F, -2.0F}};
  const Json json = Json::parse(embeddings_body("m", vectors, true, 1));
  EXPECT_EQ(json["data"][0]["embedding"], "AACAPwAAAMA=");
}

TEST(Embeddings, Requests) {
  const auto field = [](const std::string& text, EmbeddingRequest* out) {
    Json json;
    EXPECT_FALSE(parse_body(text, &json).has_value());
    const auto problem = parse_embeddings(json, out);
    return problem ? problem->field : "";
  };
  EmbeddingRequest request;
  EXPECT_EQ(field(R"({"input": [[1, 2], [3]], "dimensions": 4, "user": "u", "encoding_format": "float"})", &request),
            "");
  ASSERT_EQ(request.inputs.size(), 2u);
  EXPECT_EQ(std::get<TokenIds>(request.inputs[0]), (TokenIds{1, 2}));
  EXPECT_EQ(request.dimensions, 4);
  EXPECT_FALSE(request.base64);
  EmbeddingRequest ids;
  EXPECT_EQ(field(R"({"input": [1, 2]})", &ids), "");
  EXPECT_EQ(ids.inputs.size(), 1u);
  const struct {
    const char *body, *field;
  } rows[] = {
      {R"({})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": [[]]})", "input"},
      {R"({"input": ["a", 1]})", "input"},
      {R"({"input": 1})", "input"},
      {R"({"input": "a", "encoding_format": "int8"})", "encoding_format"},
      {R"({"input": "a", "dimensions": 0})", "dimensions"},
      {R"({"input": "a", "truncate": true})", "truncate"},
  };
  for (const auto& row : rows) {
    EmbeddingRequest out;
    EXPECT_EQ(field(row.body, &out), row.field) << row.body;
  }
  EmbeddingRequest many;
  Json list = Json::array();
  for (int i = 0; i < 2049; ++i) list.push_back("a");
  EXPECT_EQ(field(Json{{"input", list}}.dump(), &many), "input");
}

}  // namespace
}  // namespace quern::api::testing
