#include "apps/quern/answer.h"

#include "apps/quern/reply_view.h"
#include "apps/quern/session_options.h"

namespace quern::apps {

bool is_raw(const Context& context, const engine::Engine& engine) {
  return context.options.flag("raw") || engine.chat_template() == nullptr;
}

Result<token::Json> template_variables(const Context& context, const engine::Engine& engine) {
  const Options& o = context.options;
  engine::ReasoningOptions asked;
  if (o.text("reasoning-effort") != "auto") asked.effort = o.text("reasoning-effort");
  if (o.text("thinking") != "auto") asked.thinking = o.text("thinking") == "on";
  // One at a time, so that an error names its option.
  const std::pair<const char*, engine::ReasoningOptions> parts[] = {{"reasoning-effort", {asked.effort, std::nullopt}},
                                                                    {"thinking", {"", asked.thinking}}};
  for (const auto& [name, part] : parts) {
    if (part.effort.empty() && !part.thinking) continue;
    const std::string option = "--" + std::string(name) + " " + o.text(name);
    if (o.flag("raw")) return Error{Status::invalid_argument, option + " is for chat templates, and --raw uses none"};
    const auto checked = engine::reasoning_variables(engine, part);
    if (!checked.ok()) return Error{checked.error().status, option + ": " + checked.error().message};
  }
  return engine::reasoning_variables(engine, asked);
}

Result<Answer> stream_answer(const Context& context, engine::Engine& engine, engine::Session& session,
                             const engine::ChatPrompt& prompt, const std::atomic<bool>* cancel) {
  const token::Tokenizer& tokenizer = engine.tokenizer();
  const auto format = is_raw(context, engine) ? token::ReplyFormat::plain : engine.chat_template()->supports().reply;
  const auto parser = token::make_reply_parser(format, &tokenizer);
  parser->follow(prompt.rendered);
  token::ReplyStream stream(tokenizer, *parser);
  ReplyView view(context.out, reasoning_view(context));
  const auto show = [&](const engine::Produced& token) { return token.id < 0 || view.show(stream.feed(token.id)); };
  auto stats = engine::generate_tokens(engine, session, prompt.ids, sampler_options(context.options),
                                       static_cast<int>(context.options.integer("max-tokens")), show, cancel);
  if (!stats.ok() && stats.error().status != Status::cancelled) return stats.error();
  Answer answer;
  answer.cancelled = !stats.ok();
  if (stats.ok()) answer.stats = *std::move(stats);
  view.show(stream.finish());
  if (!answer.cancelled) view.finish();
  answer.reply = parser->reply();
  return answer;
}

std::string hidden_notice(const Context& context, const token::Reply& reply) {
  const bool only = !reply.reasoning.empty() && reply.content.empty() && reply.calls.empty();
  if (!only || reasoning_view(context) != ReplyView::Reasoning::hidden) return "";
  return "the model only reasoned, and did not come to an answer; --reasoning show shows it";
}

}  // namespace quern::apps
