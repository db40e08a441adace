// tokenize: text -> JSON list of ids, and back (--detokenize).
#include <nlohmann/json.hpp>

#include "apps/quern/inputs.h"
#include "file/gguf.h"

namespace quern::apps {

int run_tokenize(Context& context) {
  const Options& options = context.options;
  if (options.positionals().empty()) return context.wrong_use("needs TEXT, or - for standard input");
  const auto text = text_argument(options.positionals());
  if (!text.ok()) return context.fail(text.error());
  const auto path = find_model(context, options.text("model"));
  if (!path.ok()) return context.fail(path.error());
  const auto file = file::GgufFile::open(*path);
  if (!file.ok()) return context.fail(file.error());
  const auto tokenizer = load_tokenizer(*file);
  if (!tokenizer.ok()) return context.fail(tokenizer.error());

  const bool special = options.flag("special");
  if (options.flag("detokenize")) {
    const auto ids = parse_ids(*text);
    if (!ids.ok()) return context.wrong_use(ids.error().message);
    const auto bytes = (*tokenizer)->decode(*ids, special);
    if (!bytes.ok()) return context.fail(bytes.error());
    context.out.write(*bytes);
    if (context.out.is_terminal()) context.out.write("\n");
    return 0;
  }
  token::EncodeOptions encode;
  encode.add_special = encode.parse_special = special;
  const auto ids = (*tokenizer)->encode(*text, encode);
  if (!ids.ok()) return context.fail(ids.error());
  context.out.write(nlohmann::json(*ids).dump() + "\n");
  return 0;
}

}  // namespace quern::apps
