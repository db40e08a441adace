// board: every record as one page.
#include <fmt/format.h>

#include <span>

#include "apps/quern/command.h"
#include "base/file_io.h"
#include "measure/board.h"

namespace quern::apps {
namespace {

Result<void> board(const Context& context) {
  const std::string target = context.options.text("output");
  QUERN_TRY(const auto records, measure::board::load_records(context.options.text("records")));
  QUERN_TRY(const std::string html, measure::board::board_html(records));
  if (target == "-") {
    context.out.write(html);
    return {};
  }
  QUERN_TRY_VOID(write_file_atomic(target, std::as_bytes(std::span(html.data(), html.size()))));
  context.notice(fmt::format("{} machine{} in {}", records.size(), records.size() == 1 ? "" : "s", target));
  return {};
}

}  // namespace

int run_board(Context& context) {
  const auto done = board(context);
  return done.ok() ? 0 : context.fail(done.error());
}

}  // namespace quern::apps
