// /v1/completions, /v1/embeddings, /tokenize, /detokenize.
#include "api/parse_parts.h"

namespace quern::api {

std::optional<Problem> parse_completion(const Json& body, const Defaults& defaults, Request* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  fields.text("model", &out->model);
  fields.required("prompt");
  read_texts(fields, "prompt", static_cast<size_t>(defaults.max_n), &out->prompts);
  read_sampling(fields, defaults, out);
  if (fields.good() && out->prompts.size() * static_cast<size_t>(out->n) > static_cast<size_t>(defaults.max_n))
    fields.refuse("n", "times the prompts is more than " + std::to_string(defaults.max_n));
  read_stop(fields, "stop", defaults, out);
  out->max_tokens = 16;  // as the API has it
  fields.integer("max_tokens", 0, kMaxTokens, &out->max_tokens);
  out->no_tokens = out->max_tokens == 0;
  int64_t logprobs = 0;
  if (fields.integer("logprobs", 0, 20, &logprobs)) out->top_logprobs = static_cast<int>(logprobs);
  fields.flag("echo", &out->echo);
  if (out->no_tokens && !out->echo) fields.refuse("max_tokens", "0 is only allowed with echo");
  if (out->echo && out->stream) fields.refuse("echo", "is not supported in a stream", "unsupported_parameter");
  fields.text("suffix", &out->suffix);
  if (!out->suffix.empty() && out->echo) fields.refuse("echo", "is not supported with suffix", "unsupported_parameter");
  fields.text("grammar", &out->grammar);
  if (const Json* format = fields.object("response_format"); format != nullptr)
    read_format(*format, "response_format", false, &problem, out);
  int64_t best_of = 0;
  if (fields.integer("best_of", 1, 20, &best_of) && best_of != out->n)
    fields.refuse("best_of", "is not supported where it differs from n", "unsupported_parameter");
  fields.only("cache_prompt", true, "prompts are always cached");
  fields.without_effect({"user"});
  fields.finish();
  return problem;
}

std::optional<Problem> parse_embeddings(const Json& body, EmbeddingRequest* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  fields.text("model", &out->model);
  fields.required("input");
  read_texts(fields, "input", 2048, &out->inputs);
  std::string format;
  if (fields.choice("encoding_format", {"float", "base64"}, &format)) out->base64 = format == "base64";
  fields.integer("dimensions", 1, 1'000'000, &out->dimensions);
  fields.without_effect({"user"});
  fields.finish();
  return problem;
}

std::optional<Problem> parse_tokenize(const Json& body, TokenizeRequest* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  fields.text("model", &out->model);
  fields.required("content");
  fields.text("content", &out->content);
  fields.flag("add_special", &out->add_special);
  fields.flag("parse_special", &out->parse_special);
  fields.flag("with_pieces", &out->with_pieces);
  fields.finish();
  return problem;
}

std::optional<Problem> parse_detokenize(const Json& body, DetokenizeRequest* out) {
  ProblemSlot problem;
  Fields fields(body, "", &problem);
  fields.text("model", &out->model);
  fields.required("tokens");
  if (const Json* tokens = fields.array("tokens"); tokens != nullptr)
    read_ids(*tokens, "tokens", &problem, &out->tokens);
  fields.finish();
  return problem;
}

}  // namespace quern::api
