#include "api/prepare.h"

#include <algorithm>
#include <new>

#include "api/mask.h"

namespace quern::api {
namespace {

size_t text_bytes(const Json& content) {
  if (content.is_string()) return content.get_ref<const std::string&>().size();
  size_t n = 0;
  if (content.is_array()) {
    for (const Json& part : content) n += part["text"].get_ref<const std::string&>().size();
  }
  return n;
}

size_t text_bytes(const Request& request) {
  size_t n = request.suffix.size();
  for (const token::Message& message : request.messages) n += text_bytes(message.content);
  for (const auto& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) n = std::max(n, text->size() + request.suffix.size());
  }
  return n;
}

// Asking for what a model does anyway is no error, even if its template has no variable for it.
std::optional<Problem> reasoning_of(const engine::Engine& engine, const Request& request, Json* variables) {
  const token::ChatTemplate& chat = *engine.chat_template();
  const bool thinks = chat.supports().reply != token::ReplyFormat::plain;
  engine::ReasoningOptions options;
  if (!request.reasoning.effort.empty()) {
    options.effort = request.reasoning.effort;
    auto made = engine::reasoning_variables(engine, options);
    if (!made.ok()) return refusal("reasoning_effort", made.error().message);
    variables->update(*made);
  }
  if (!request.reasoning.thinking) return std::nullopt;
  options.effort.clear();
  options.thinking = request.reasoning.thinking;
  auto made = engine::reasoning_variables(engine, options);
  if (made.ok()) {
    variables->update(*made);
  } else if (*options.thinking != thinks) {
    return refusal(request.dialect == Dialect::anthropic ? "thinking" : "enable_thinking", made.error().message);
  }
  return std::nullopt;
}

Json usual_variables(const engine::Engine& engine, const Request& request, const engine::ReasoningOptions& usual) {
  engine::ReasoningOptions effort, thinking;
  if (request.reasoning.effort.empty()) effort.effort = usual.effort;
  if (!request.reasoning.thinking) thinking.thinking = usual.thinking;
  Json variables = Json::object();
  for (const auto& part : {effort, thinking}) {
    if (const auto made = engine::reasoning_variables(engine, part); made.ok()) variables.update(*made);
  }
  return variables;
}

std::optional<Problem> prepare_chat(const engine::Engine& engine, const Request& request,
                                    const engine::ReasoningOptions& usual, Prepared* out) {
  const token::ChatTemplate* chat = engine.chat_template();
  if (chat == nullptr)
    return refusal("messages", "the model has no chat template (" + engine.chat_template_error() + ")");
  token::ChatOptions options;
  options.variables = usual_variables(engine, request, usual);
  if (auto problem = reasoning_of(engine, request, &options.variables)) return problem;
  if (request.template_variables.is_object()) {
    for (const auto& item : request.template_variables.items()) {
      for (const char* own : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
        if (item.key() == own) return refusal("chat_template_kwargs", std::string(own) + " cannot be set");
      }
      if (!chat->mentions(item.key()))
        return refusal("chat_template_kwargs", "the chat template has no variable " + item.key().substr(0, 100));
      options.variables[item.key()] = item.value();
    }
  }
  if (!request.tools.is_null() && request.tool_choice != ToolChoice::none) {
    if (!chat->supports().tools) return refusal("tools", "the model's chat template takes no tools");
    options.tools = request.tools;
  }
  auto prompt = engine::chat_prompt(engine, request.messages, std::move(options));
  if (!prompt.ok()) {
    Problem problem = problem_of(prompt.error());
    if (problem.status < 500) problem.field = "messages";
    return problem;
  }
  out->prompts.push_back(std::move(*prompt));
  return std::nullopt;
}

struct MiddleMarks {
  const char *prefix, *suffix, *middle;
};
constexpr MiddleMarks kMiddleMarks[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen, Seed, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder, Granite
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},  // DeepSeek: the hole stands where the suffix begins
};

Result<std::vector<int32_t>> encode_middle(const token::Tokenizer& tokenizer, std::string_view prefix,
                                           std::string_view suffix) {
  for (const MiddleMarks& marks : kMiddleMarks) {
    if (!tokenizer.find(marks.prefix) || !tokenizer.find(marks.suffix) || !tokenizer.find(marks.middle)) continue;
    const token::TextPiece pieces[] = {
        {marks.prefix, true}, {prefix, false}, {marks.suffix, true}, {suffix, false}, {marks.middle, true}};
    return tokenizer.encode(pieces, {.add_special = false});
  }
  return Error{Status::unsupported, "the model has no tokens for text before a suffix"};
}

std::optional<Problem> prepare_texts(const engine::Engine& engine, const Request& request, Prepared* out) {
  const token::Tokenizer& tokenizer = engine.tokenizer();
  for (const auto& given : request.prompts) {
    engine::ChatPrompt prompt;
    if (const auto* ids = std::get_if<TokenIds>(&given)) {
      if (!request.suffix.empty()) return refusal("suffix", "needs a prompt that is text");
      for (const int32_t id : *ids) {
        if (auto problem = check_token(tokenizer, id, "prompt")) return problem;
      }
      prompt.ids = *ids;
    } else {
      const auto& text = std::get<std::string>(given);
      // Control tokens in a raw prompt count as such: who sends one writes the template's markup.
      auto made = request.suffix.empty() ? tokenizer.encode(text, {.add_special = true, .parse_special = true})
                                         : encode_middle(tokenizer, text, request.suffix);
      if (!made.ok()) {
        if (!request.suffix.empty()) return refusal("suffix", made.error().message);
        return problem_of(made.error());
      }
      prompt.ids = std::move(*made);
    }
    if (prompt.ids.empty() && tokenizer.contains(tokenizer.vocab().bos)) prompt.ids.push_back(tokenizer.vocab().bos);
    if (prompt.ids.empty()) return refusal("prompt", "has no tokens", "invalid_value");
    out->prompts.push_back(std::move(prompt));
  }
  return std::nullopt;
}

}  // namespace

// A text of so many bytes has at least one token per longest token's bytes; normalization makes three bytes one at
// most.
std::optional<Problem> check_bytes(const engine::Engine& engine, size_t n_bytes) {
  const auto n_ctx = static_cast<size_t>(engine.n_ctx());
  if (n_bytes <= n_ctx) return std::nullopt;
  size_t longest = 1;
  for (int32_t id = 0; id < engine.n_vocab(); ++id)
    longest = std::max(longest, engine.tokenizer().token_bytes(id).size());
  const size_t least = n_bytes / (3 * longest);
  if (least <= n_ctx) return std::nullopt;
  return context_problem(static_cast<int64_t>(least), static_cast<int64_t>(n_ctx));
}

size_t Prepared::n_prompt_tokens() const {
  size_t n = 0;
  for (const auto& prompt : prompts) n += prompt.ids.size();
  return n;
}

std::optional<Problem> check_token(const token::Tokenizer& tokenizer, int32_t id, const std::string& field) {
  if (tokenizer.contains(id)) return std::nullopt;
  return refusal(field, std::to_string(id) + " is not a token of this model", "invalid_token");
}

Problem context_problem(int64_t n_prompt, int64_t n_ctx) {
  return Problem{.message = "prompt is too long: " + std::to_string(n_prompt) + " tokens > " + std::to_string(n_ctx) +
                            " maximum. This model's maximum context length is " + std::to_string(n_ctx) + " tokens",
                 .code = "context_length_exceeded",
                 .details = {{"n_prompt_tokens", n_prompt}, {"n_ctx", n_ctx}}};
}

std::vector<int32_t> end_of_thinking(const engine::Engine& engine, bool to_call) {
  const token::ChatTemplate* chat = engine.chat_template();
  if (chat == nullptr) return {};
  const auto pieces = token::end_of_reasoning(chat->supports().reply, to_call);
  auto ids = engine.tokenizer().encode(pieces, {.add_special = false});
  return ids.ok() ? std::move(*ids) : std::vector<int32_t>();
}

namespace {

std::optional<serve::Insertion> insertion_of(const engine::Engine& engine, const Request& request,
                                             const engine::ChatPrompt& prompt) {
  serve::Insertion insertion;
  insertion.ids = end_of_thinking(engine, request.must_call());
  if (insertion.ids.empty()) return std::nullopt;
  insertion.reply = token::make_reply_parser(engine.chat_template()->supports().reply, &engine.tokenizer());
  insertion.reply->follow(prompt.rendered);
  if (request.thinking_budget > 0 && request.reasoning.thinking.value_or(true))
    insertion.after_tokens = static_cast<int>(request.thinking_budget);
  return insertion;
}

}  // namespace

std::optional<Problem> prepare(const engine::Engine& engine, const Request& request,
                               const engine::ReasoningOptions& usual, Prepared* out) {
  try {
    if (auto problem = check_bytes(engine, text_bytes(request))) return problem;
    auto problem =
        request.prompts.empty() ? prepare_chat(engine, request, usual, out) : prepare_texts(engine, request, out);
    if (problem) return problem;
  } catch (const std::bad_alloc&) {
    return Problem{.status = 503, .message = "not enough memory for the prompt"};
  }
  for (const auto& prompt : out->prompts) {
    if (prompt.ids.size() > static_cast<size_t>(engine.n_ctx()))
      return context_problem(static_cast<int64_t>(prompt.ids.size()), engine.n_ctx());
  }
  return std::nullopt;
}

std::optional<Problem> make_submission(const serve::LoadedModel& model, const Request& request,
                                       const engine::ChatPrompt& prompt, int choice, serve::Request* out) {
  const engine::Engine& engine = *model.engine;
  out->prompt = prompt.ids;
  out->sampling = request.sampler;
  out->sampling.seed += static_cast<uint64_t>(choice);
  for (const auto& [id, bias] : request.sampler.logit_bias) {
    if (auto problem = check_token(engine.tokenizer(), id, "logit_bias")) return problem;
  }
  out->max_tokens = request.no_tokens ? 0 : request.max_tokens > 0 ? static_cast<int>(request.max_tokens) : -1;
  out->stop = request.stop;
  out->ignore_eog = request.ignore_eos;
  out->n_logprobs = request.top_logprobs;
  if (request.echo && request.top_logprobs >= 0) out->n_prompt_logprobs = request.top_logprobs;
  if (request.prompts.empty()) {
    out->insertion = insertion_of(engine, request, prompt);
    if (request.thinking_budget > 0 && !out->insertion)
      return refusal(request.dialect == Dialect::anthropic ? "thinking.budget_tokens" : "thinking_budget_tokens",
                     "the model's replies have no reasoning to end");
  }
  return make_mask(model, request, prompt, &out->mask);
}

}  // namespace quern::api
