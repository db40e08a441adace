// run: one prompt, one answer, streamed.
#include <unistd.h>

#include "apps/quern/answer.h"
#include "apps/quern/interrupt.h"
#include "apps/quern/session_options.h"

namespace quern::apps {
namespace {

Result<std::string> prompt_of(const Options& options) {
  const auto& words = options.positionals();
  if (options.given("prompt"))
    return options.text("prompt") == "-" ? read_standard_input() : Result<std::string>(options.text("prompt"));
  return words.empty() ? read_standard_input() : text_argument(words);
}

Result<Answer> answer(const Context& context, engine::Engine& engine, const std::string& prompt,
                      const Interrupt& interrupt) {
  Conversation conversation;
  conversation.set_system(context.options.text("system"));
  conversation.add({"user", prompt});
  QUERN_TRY(const token::Json variables, template_variables(context, engine));
  QUERN_TRY(const auto tokens,
            conversation_prompt(engine, conversation.turns(), context.options.flag("raw"), variables));
  if (tokens.ids.empty()) return Error{Status::invalid_argument, "the prompt has no tokens"};
  QUERN_TRY(const auto session, engine.new_session());
  return stream_answer(context, engine, *session, tokens, interrupt.flag());
}

}  // namespace

int run_run(Context& context) {
  const Options& options = context.options;
  const bool has_prompt = options.given("prompt") || !options.positionals().empty();
  if (options.given("prompt") && !options.positionals().empty()) {
    return context.wrong_use("'" + options.positionals()[0] + "' besides -p: give the prompt once, in quotes");
  }
  if (!has_prompt && ::isatty(0) == 1)
    return context.wrong_use("no prompt: give -p TEXT, or TEXT, or - for standard input");
  const auto prompt = prompt_of(options);
  if (!prompt.ok()) return context.fail(prompt.error());
  const auto engine = load_engine(context, engine_options(context));
  if (!engine.ok()) return context.fail(engine.error());
  if (!options.flag("raw") && (*engine)->chat_template() == nullptr) {
    context.notice("no chat template (" + (*engine)->chat_template_error() +
                   "); continuing the text as it is, as with --raw");
  }
  const Interrupt interrupt(Interrupt::Again::ends_program);
  const auto result = answer(context, **engine, *prompt, interrupt);
  if (!result.ok()) return context.fail(result.error());
  if (result->cancelled) {
    context.out.write("\n");
    context.out.flush();
  }
  std::fprintf(stderr, "%s\n", stats_line(result->stats).c_str());
  if (result->stats.stop == engine::StopReason::context_full)
    context.notice("the context is full; -c N makes room for more");
  const std::string hidden = hidden_notice(context, result->reply);
  if (!hidden.empty()) context.notice(hidden);
  if (interrupt.happened()) Interrupt::die();
  return 0;
}

}  // namespace quern::apps
