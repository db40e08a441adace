#include "api/embeddings.h"

#include <bit>
#include <charconv>

#include "api/prepare.h"
#include "engine/engine.h"
#include "token/tokenizer.h"

namespace quern::api {
namespace {

static_assert(std::endian::native == std::endian::little, "clients read the floats of base 64 as little endian");

std::optional<Problem> ids_of_text(const engine::Engine& engine, const std::string& text, TokenIds* out) {
  if (auto problem = check_bytes(engine, text.size())) return problem;
  auto ids = engine.tokenizer().encode(text, {.add_special = true});
  if (!ids.ok()) return problem_of(ids.error());
  *out = std::move(*ids);
  return std::nullopt;
}

void add_vector(std::span<const float> vector, bool base64, std::string* out) {
  if (base64) {
    *out += '"' + base64_of(std::as_bytes(vector)) + '"';
    return;
  }
  char digits[32];
  char before = '[';
  for (const float x : vector) {
    *out += before;
    out->append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
    before = ',';
  }
  *out += ']';
}

}  // namespace

std::optional<Problem> prepare_inputs(const engine::Engine& engine, const EmbeddingRequest& request,
                                      std::vector<TokenIds>* out) {
  if (const auto pooling = engine.pooling(); !pooling.ok())
    return refusal("model", pooling.error().message, "unsupported_model");
  if (request.dimensions != 0 && request.dimensions != engine.n_embedding())
    return refusal("dimensions",
                   "the model's vectors have " + std::to_string(engine.n_embedding()) + " numbers, and cannot be cut",
                   "unsupported_value");
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string name = request.inputs.size() == 1 ? "input" : "input[" + std::to_string(i) + "]";
    TokenIds ids;
    if (const auto* text = std::get_if<std::string>(&request.inputs[i])) {
      if (text->empty()) return refusal(name, "is empty", "invalid_value");
      if (auto problem = ids_of_text(engine, *text, &ids)) {
        if (problem->status < 500) problem->field = name;
        return problem;
      }
    } else {
      ids = std::get<TokenIds>(request.inputs[i]);
    }
    if (ids.empty()) return refusal(name, "has no tokens", "invalid_value");
    for (const int32_t id : ids) {
      if (auto problem = check_token(engine.tokenizer(), id, name)) return problem;
    }
    if (ids.size() > static_cast<size_t>(engine.n_ctx())) {
      Problem problem = context_problem(static_cast<int64_t>(ids.size()), engine.n_ctx());
      problem.field = name;
      return problem;
    }
    out->push_back(std::move(ids));
  }
  return std::nullopt;
}

std::string embeddings_body(const std::string& model, std::span<const std::vector<float>> vectors, bool base64,
                            int64_t n_tokens) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    add_vector(vectors[i], base64, &out);
    out += '}';
  }
  const Json usage = {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}};
  return out + R"(],"model":)" + dump(Json(model)) + R"(,"usage":)" + dump(usage) + "}";
}

std::string base64_of(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = (bits << 8) | (i < n ? std::to_integer<uint32_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += i <= n ? kDigits[(bits >> (18 - 6 * i)) & 63] : '=';
  }
  return out;
}

}  // namespace quern::api
