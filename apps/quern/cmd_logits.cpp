// logits: f32 [tokens, vocabulary] of a token list, streamed into an .npy file.
#include "apps/quern/session_options.h"
#include "file/npy.h"

namespace quern::apps {
namespace {

Result<void> write_logits(engine::Engine& engine, const std::vector<int32_t>& ids, const std::string& path) {
  QUERN_TRY(const auto session, engine.new_session());
  QUERN_TRY(file::NpyWriter npy, file::NpyWriter::create(path, static_cast<uint64_t>(engine.n_vocab())));
  QUERN_TRY_VOID(session->logits_of_all(ids, [&](int, int, std::span<const float> rows) { return npy.append(rows); }));
  return npy.finish();
}

}  // namespace

int run_logits(Context& context) {
  const Options& options = context.options;
  if (!options.given("tokens")) return context.wrong_use("--tokens is missing");
  if (!options.given("output")) return context.wrong_use("-o FILE.npy is missing");
  const auto ids = read_ids(options.text("tokens"));
  if (!ids.ok()) return context.fail(ids.error());
  if (ids->empty()) return context.wrong_use("--tokens names no token");
  const auto engine = load_engine(context, engine_options(context));
  if (!engine.ok()) return context.fail(engine.error());
  const auto written = write_logits(**engine, *ids, options.text("output"));
  return written.ok() ? 0 : context.fail(written.error());
}

}  // namespace quern::apps
