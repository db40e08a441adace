// embed: the embedding of a text as a JSON list of numbers.
#include <fmt/format.h>

#include "apps/quern/session_options.h"

namespace quern::apps {
namespace {

// As /v1/embeddings has it: the special tokens that the model wants around a text, and none by name in it.
Result<std::vector<int32_t>> ids_of(const engine::Engine& engine, const std::string& text) {
  QUERN_TRY(auto ids, engine.tokenizer().encode(text, {.add_special = true}));
  if (text.empty() || ids.empty()) return Error{Status::invalid_argument, "there is no text to embed"};
  return ids;
}

Result<void> print_vector(Context& context, engine::Engine& engine, const std::vector<int32_t>& ids) {
  QUERN_TRY(const auto session, engine.new_session());
  QUERN_TRY_VOID(session->embed(ids));
  context.out.write(fmt::format("[{}]\n", fmt::join(session->embedding(), ",")));
  return {};
}

}  // namespace

int run_embed(Context& context) {
  const Options& options = context.options;
  const bool by_ids = options.given("tokens");
  if (by_ids == !options.positionals().empty())
    return context.wrong_use("needs either TEXT (or - for standard input) or --tokens");
  auto ids = by_ids ? read_ids(options.text("tokens")) : Result<std::vector<int32_t>>(std::vector<int32_t>{});
  if (!ids.ok()) return context.fail(ids.error());
  const auto text = text_argument(options.positionals());
  if (!text.ok()) return context.fail(text.error());
  const auto engine = load_engine(context, engine_options(context));
  if (!engine.ok()) return context.fail(engine.error());
  if (!by_ids) ids = ids_of(**engine, *text);
  if (!ids.ok()) return context.fail(ids.error());
  const auto printed = print_vector(context, **engine, *ids);
  return printed.ok() ? 0 : context.fail(printed.error());
}

}  // namespace quern::apps
