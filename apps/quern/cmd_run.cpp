// run: one prompt, one answer, streamed.
#include <unistd.h>

#include <algorithm>

#include "apps/quern/conversation.h"
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

struct Answer {
  engine::GenerateStats stats;
  bool interrupted = false;
};

Result<Answer> answer(const Context& context, engine::Engine& engine, const std::string& prompt) {
  const Options& options = context.options;
  Conversation conversation;
  conversation.set_system(options.text("system"));
  conversation.add("user", prompt);
  QUERN_TRY(const auto ids, conversation_ids(engine, conversation.turns(), options.flag("raw")));
  if (ids.empty()) return Error{Status::invalid_argument, "the prompt has no tokens"};
  QUERN_TRY(const auto session, engine.new_session());
  const Interrupt interrupt(Interrupt::Again::ends_program);
  bool ends_line = false;
  const auto show = [&](std::string_view text) {
    ends_line = !text.empty() && text.back() == '\n';
    return context.out.write(text) && context.out.flush();
  };
  auto stats = engine::generate(engine, *session, ids, sampler_options(options),
                                static_cast<int>(options.integer("max-tokens")), show, interrupt.flag());
  if (!stats.ok() && stats.error().status != Status::cancelled) return stats.error();
  if (!ends_line) context.out.write("\n");
  context.out.flush();
  Answer result;
  if (stats.ok()) result.stats = *std::move(stats);
  result.interrupted = interrupt.happened();
  return result;
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
  const auto result = answer(context, **engine, *prompt);
  if (!result.ok()) return context.fail(result.error());
  std::fprintf(stderr, "%s\n", stats_line(result->stats).c_str());
  if (result->stats.stop == engine::StopReason::context_full)
    context.notice("the context is full; -c N makes room for more");
  if (result->interrupted) Interrupt::die();
  return 0;
}

}  // namespace quern::apps
